"""How many events wait in Redis that a streaming query has not taken yet, from what Spark tells of its batches."""

from __future__ import annotations

import json
import logging
from ast import literal_eval
from collections.abc import Callable, Mapping
from typing import Any, cast

from pyspark.sql.streaming.query import StreamingQuery

from relevo.pipeline.connector.offsets import ADDED

log = logging.getLogger("relevo.pipeline")

Behind = Callable[[int], None]


def rows_behind(end: str | Mapping[str, Any] | None, latest: str | Mapping[str, Any] | None) -> int | None:
    """Between the end of a batch and the end of the streams, both as our source tells them; None when one is not known.

    >>> rows_behind('{"added": {"a": 10}}', '{"added": {"a": 25, "b": 3}}')
    18
    >>> rows_behind("{'added': {'a': 10}}", "{'added': {'a': 25}}"), rows_behind("{'added': {'a': 10}}", "None")
    (15, None)
    """
    ends, now = _added(end), _added(latest)
    return None if ends is None or now is None else sum(max(0, there - ends.get(key, 0)) for key, there in now.items())


def _added(offset: str | Mapping[str, Any] | None) -> dict[str, int] | None:
    """How many entries each stream had been given."""
    if offset is None or offset in ("null", "None"):
        return None
    parsed = _parsed(offset) if isinstance(offset, str) else offset
    return cast("dict[str, int] | None", parsed.get(ADDED, {}))


def _parsed(offset: str) -> Any:
    """Spark 4.1 hands JSON over as Python writes it."""
    try:
        return json.loads(offset)
    except ValueError:
        return literal_eval(offset)


class BehindWatch:
    """Tells of each batch of a query how many rows were left behind it: to the log, and to whoever asked."""

    def __init__(self, name: str, told: Behind) -> None:
        self._name = name
        self._told = told
        self._seen = ""

    def look(self, query: StreamingQuery) -> None:
        """At the batches that have ended since the last look, of the hundred that Spark remembers."""
        for progress in query.recentProgress:
            at = str(progress["timestamp"])
            sources: Any = progress["sources"]
            if at <= self._seen or not sources:
                continue
            self._seen = at
            rows = rows_behind(sources[0]["endOffset"], sources[0]["latestOffset"])
            if rows is not None:
                log.info("%s: %d events are behind", self._name, rows)
                self._told(rows)
