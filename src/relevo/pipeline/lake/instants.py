"""Instants: everything in the lake is placed by whole milliseconds since 1970, so that no session's time zone moves a row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

Span = Literal["hour", "day", "all"]

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000

SIZE_MS = {"hour": HOUR_MS, "day": DAY_MS}
_FORMAT = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}
_START = datetime(1970, 1, 1, tzinfo=UTC)


def part_key(part: int, span: Span) -> str:
    """The name of a partition.

    >>> part_key(19_000, "day"), part_key(456_010, "hour"), part_key(0, "all")
    ('2022-01-08', '2022-01-08T10', 'all')
    """
    if span == "all":
        return "all"
    return (_START + timedelta(milliseconds=part * SIZE_MS[span])).strftime(_FORMAT[span])


def values_of(key: str, span: Span, day: int | None = None) -> dict[str, str]:
    """The values of a partition's columns, as Delta's log writes them.

    >>> values_of("2022-01-08T10", "hour", day=19_001)
    {'date': '2022-01-08', 'hour': '10', 'adds_to': '2022-01-09'}
    """
    values: dict[str, str] = {} if span == "all" else {"date": key[:10]}
    if span == "hour":
        values["hour"] = str(int(key[11:]))
    return values if day is None else {**values, "adds_to": part_key(day, "day")}


def key_of(values: Mapping[str, str], span: Span) -> str:
    """The name of the partition with these values.

    >>> key_of({"date": "2022-01-08", "hour": "9"}, "hour")
    '2022-01-08T09'
    """
    if span == "all":
        return "all"
    return values["date"] if span == "day" else f"{values['date']}T{int(values['hour']):02d}"


def day_of(values: Mapping[str, str]) -> int | None:
    """The day that the rows of a partition add to, where the table is cut by it."""
    return part_number(values["adds_to"], "day") if "adds_to" in values else None


def part_number(key: str, span: Span) -> int:
    """The partition of that name.

    >>> part_number("2022-01-08T10", "hour")
    456010
    """
    if span == "all":
        return 0
    at = datetime.strptime(key, _FORMAT[span]).replace(tzinfo=UTC)
    return (at - _START) // timedelta(milliseconds=SIZE_MS[span])
