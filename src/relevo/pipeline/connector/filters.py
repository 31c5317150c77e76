"""Filters that Spark pushes down, used to read less: by time and stream a range is never asked for, by event and name an
entry is dropped before it is converted. Spark applies all of them once more, so a filter here may only be too wide."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from relevo.pipeline.connector.offsets import EntryId, last_of
from relevo.pipeline.connector.ranges import IdRange
from relevo.pipeline.connector.spark_api import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)


@dataclass(frozen=True)
class Wanted:
    """What the filters leave of the rows. None means "all"."""

    after: EntryId | None = None
    until: EntryId | None = None
    streams: frozenset[str] | None = None
    events: frozenset[str] | None = None
    names: frozenset[str] | None = None

    def clip(self, part: IdRange) -> IdRange | None:
        """What is left of a range; None for nothing."""
        if self.streams is not None and part.stream not in self.streams:
            return None
        start = part.start if self.after is None else max(part.start, self.after)
        end = part.end if self.until is None else min(part.end, self.until)
        return IdRange(part.stream, start, end) if start < end else None

    @property
    def drops_rows(self) -> bool:
        return self.events is not None or self.names is not None

    def keep(self, event: str | None, name: str | None) -> bool:
        return (self.events is None or event in self.events) and (self.names is None or name in self.names)


def wanted(filters: Iterable[Filter], what: str) -> Wanted:
    """What some filters together leave; those that say nothing to us are passed over."""
    found = Wanted()
    for each in filters:
        found = _narrowed(found, each, what)
    return found


def _narrowed(found: Wanted, each: Filter, what: str) -> Wanted:
    match each:
        case EqualTo(("_ts",), datetime() as moment) | EqualNullSafe(("_ts",), datetime() as moment):
            return _within(found, _ms(moment), _ms(moment))
        case GreaterThan(("_ts",), datetime() as moment) | GreaterThanOrEqual(("_ts",), datetime() as moment):
            return _within(found, _ms(moment), None)
        case LessThan(("_ts",), datetime() as moment) | LessThanOrEqual(("_ts",), datetime() as moment):
            return _within(found, None, _ms(moment))
        case EqualTo((column,), str() as value) | EqualNullSafe((column,), str() as value):
            return _among(found, column, frozenset({value}), what)
        case In((column,), values) if all(isinstance(value, str) for value in values):
            return _among(found, column, frozenset[Any](values), what)
        case _:
            return found


def _among(found: Wanted, column: str, values: frozenset[str], what: str) -> Wanted:
    if column == "_stream":
        return replace(found, streams=_both(found.streams, values))
    if column == "e" and what == "events":
        return replace(found, events=_both(found.events, values))
    if column == ("n" if what == "events" else "name"):
        return replace(found, names=_both(found.names, values))
    return found


def _both(old: frozenset[str] | None, new: frozenset[str]) -> frozenset[str]:
    return new if old is None else old & new


def _within(found: Wanted, first_ms: int | None, last_ms: int | None) -> Wanted:
    if first_ms is not None:
        after = last_of(first_ms - 1)
        found = replace(found, after=after if found.after is None else max(found.after, after))
    if last_ms is not None:
        until = last_of(last_ms)
        found = replace(found, until=until if found.until is None else min(found.until, until))
    return found


def _ms(moment: datetime) -> int:
    """The millisecond a moment is in. A moment without a zone is UTC, as Spark hands it over."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return math.floor(aware.timestamp() * 1000)
