"""When a job is to run, as callers write it."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from relevo.errors import BadArgument, DelayTooLong, WrongType
from relevo.wire.delays import run_at_ms

NOW = 1_700_000_000_000
MOMENT = datetime.fromtimestamp(NOW / 1000, UTC)


def at(delay_ms: Any = None, delay: Any = None, *, max_delay_s: int = 86_400) -> int | None:
    return run_at_ms(delay_ms, delay, now_ms=NOW, max_delay_s=max_delay_s)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delay_ms": 0},
        {"delay_ms": 0.9},
        {"delay": timedelta(0)},
        {"delay_ms": MOMENT},
        {"delay_ms": MOMENT - timedelta(days=4000)},
        {"delay_ms": datetime.min.replace(tzinfo=UTC)},
    ],
    ids=str,
)
def test_no_delay_and_a_time_that_has_come_mean_now(options: dict[str, Any]) -> None:
    assert at(**options) is None


@pytest.mark.parametrize(
    ("options", "wait"),
    [
        ({"delay_ms": 1}, 1),
        ({"delay_ms": 1.9}, 1),
        ({"delay": timedelta(seconds=1, microseconds=1500)}, 1001),
        ({"delay_ms": MOMENT + timedelta(seconds=5)}, 5000),
        ({"delay_ms": (MOMENT + timedelta(seconds=5)).astimezone(timezone(timedelta(hours=9)))}, 5000),
    ],
    ids=str,
)
def test_a_delay_is_counted_from_now(options: dict[str, Any], wait: int) -> None:
    assert at(**options) == NOW + wait


@pytest.mark.parametrize("bad", [-1, -0.5, math.nan, math.inf, -math.inf])
def test_a_number_that_is_no_delay_is_refused(bad: float) -> None:
    with pytest.raises(BadArgument, match="delay_ms"):
        at(bad)


@pytest.mark.parametrize(
    "options",
    [{"delay_ms": "5"}, {"delay_ms": True}, {"delay_ms": timedelta(1)}, {"delay": 5}, {"delay": MOMENT}],
    ids=str,
)
def test_what_is_no_delay_at_all_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(WrongType, match=next(iter(options))):
        at(**options)


def test_both_at_once_are_refused() -> None:
    with pytest.raises(BadArgument, match="delay_ms"):
        at(5, timedelta(1))


def test_the_limit_is_allowed_and_a_second_more_is_not() -> None:
    assert at(60_000, max_delay_s=60) == NOW + 60_000
    with pytest.raises(DelayTooLong, match="61"):
        at(61_000, max_delay_s=60)


def test_a_limit_of_zero_is_none() -> None:
    assert at(10**12, max_delay_s=0) == NOW + 10**12


@pytest.mark.parametrize(
    ("delay", "says"),
    [
        (
            60_000,
            "expected timedelta, got int. Write delay_ms=60000 for milliseconds, or delay=timedelta(seconds=60000)",
        ),
        (1.5, "expected timedelta, got float. Write delay_ms=1.5 for milliseconds"),
        (datetime(2026, 1, 1, tzinfo=UTC), "expected timedelta, got datetime. Write delay_ms= for a datetime."),
        ("1h", "expected timedelta, got str. Pass delay=timedelta(…), or delay_ms="),
    ],
)
def test_a_delay_that_is_no_timedelta_says_exactly_what_to_write(delay: object, says: str) -> None:
    with pytest.raises(WrongType, match=re.escape(says)):
        run_at_ms(None, delay, now_ms=0, max_delay_s=60)


def test_a_timedelta_for_delay_ms_says_exactly_what_to_write() -> None:
    with pytest.raises(WrongType, match="expected milliseconds or datetime, got timedelta"):
        run_at_ms(timedelta(seconds=1), None, now_ms=0, max_delay_s=60)
