"""What one task does: reads a range, or those of many small streams, or one delayed set, and hands Spark record batches."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.event_columns import EventColumns
from relevo.pipeline.connector.event_rows import EventRows
from relevo.pipeline.connector.filters import Wanted
from relevo.pipeline.connector.job_rows import JobRows
from relevo.pipeline.connector.landing import events_schema, landed
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.pages import Pages
from relevo.pipeline.connector.ranges import IdRange
from relevo.pipeline.connector.streams import encoded

_BATCH_ROWS = 10_000  # Spark's own size of an Arrow batch
_DELAYED_ROWS = 1000


def read_parts(source: SourceOptions, parts: Sequence[IdRange], schema: Any, wanted: Wanted | None) -> Iterator[Any]:
    """What Spark is handed of some ranges: their entries, or, with `landing`, the files they were written to."""
    if source.landing is None:
        for _, batch in read_ranges(source, parts, schema, wanted):
            yield batch
    else:
        yield from landed(read_ranges(source, parts, events_schema(), None), source.landing, source.source)


def read_ranges(
    source: SourceOptions, parts: Sequence[IdRange], schema: Any, wanted: Wanted | None
) -> Iterator[tuple[str, Any]]:
    """The entries of some ranges, one after the other over one connection, as record batches with the stream each is of."""
    directory = Directory(source.connection.address(), timeout_s=source.connection.timeout_s)
    # Pages hold no cycles, and the collector would walk through all their parts again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for part in parts:
            for batch in _read_range(directory, source, part, schema, wanted):
                yield part.stream, batch
    finally:
        directory.close()
        if collecting:
            gc.enable()


def _read_range(
    directory: Directory, source: SourceOptions, part: IdRange, schema: Any, wanted: Wanted | None
) -> Iterator[Any]:
    keep = wanted.keep if wanted is not None and wanted.drops_rows else None
    if source.what == "events":
        rows: EventRows | JobRows = EventRows(part.stream, schema, keep, source=source.source)
    else:
        raw = source.raw_payload
        rows = JobRows(part.stream, source.what, schema, raw_payload=raw, keep=keep, source=source.source)
    plain = source.what == "events" and keep is None
    columns = EventColumns(part.stream, schema, source.source) if plain else None
    pages = Pages(
        directory,
        part,
        rows=source.page_rows,
        append_only=source.what == "events",
        fail_on_data_loss=source.fail_on_data_loss,
        plain=plain,
    )
    waiting: list[Any] = []
    for page in pages:
        ready = None if columns is None or page.layout is None else columns.batch(page.layout, page.skipped)
        if ready is None:
            waiting += page.entries[page.skipped :]
        if waiting and (ready is not None or len(waiting) >= _BATCH_ROWS):
            yield from _some(rows.batch(waiting))
            waiting = []
        if ready is not None:
            yield ready
    if waiting:
        yield from _some(rows.batch(waiting))


def _some(batch: Any) -> Iterator[Any]:
    if batch.num_rows:
        yield batch


def read_delayed(source: SourceOptions, key: str, schema: Any, wanted: Wanted | None) -> Iterator[Any]:
    """The members of a delayed set as record batches, latest first: what is promoted meanwhile leaves at the other end."""
    keep = wanted.keep if wanted is not None and wanted.drops_rows else None
    rows = JobRows(key, "delayed", schema, raw_payload=source.raw_payload, keep=keep, source=source.source)
    directory = Directory(source.connection.address(), timeout_s=source.connection.timeout_s)
    raw_key, below = encoded(key), "+inf"
    handed: set[bytes] = set()
    """Members of the score at which the last page ended: they come again with the next."""
    try:
        while True:
            skip = 0
            fresh: list[tuple[bytes, bytes]] = []
            while True:
                flat = directory.ask(
                    raw_key,
                    *("ZRANGE", raw_key, below, "-inf", "BYSCORE", "REV", "LIMIT", skip, _DELAYED_ROWS, "WITHSCORES"),
                )
                page = list(zip(flat[::2], flat[1::2], strict=True))
                fresh = [pair for pair in page if pair[0] not in handed]
                if fresh or len(page) < _DELAYED_ROWS:
                    break
                skip += len(page)  # more members of one score than a page holds
            if not fresh:
                return
            yield from _some(rows.delayed_batch(fresh))
            last = fresh[-1][1]
            same = {member for member, score in fresh if score == last}
            handed = same | handed if last.decode() == below else same
            below = last.decode()
    finally:
        directory.close()
