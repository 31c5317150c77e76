"""When a job is to run, as the caller wrote it: milliseconds from now, a datetime, or a timedelta."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from relevo.errors import BadArgument, DelayTooLong, WrongType

DelayMsLike = int | float | datetime

_LONGEST_MS = 2**52
"""Redis keeps the time a job is due as a double: now and the delay together must stay exact."""


def run_at_ms(delay_ms: object, delay: object, *, now_ms: int, max_delay_s: int) -> int | None:
    """The instant in epoch milliseconds, or None for "now" (no delay, zero, or a time that has passed).

    >>> run_at_ms(1500, None, now_ms=1_000_000, max_delay_s=60)
    1001500
    >>> run_at_ms(None, timedelta(seconds=2), now_ms=1_000_000, max_delay_s=60)
    1002000
    """
    if delay_ms is None and delay is None:
        return None
    if delay_ms is not None and delay is not None:
        raise BadArgument(argument="delay", value=delay, reason="delay_ms is given as well", remedy="Pass one of them.")
    if delay is not None:
        if not isinstance(delay, timedelta):
            raise WrongType(argument="delay", value=delay, expected="timedelta", remedy=_as_delay(delay))
        wait = _wait("delay", delay.total_seconds() * 1000)
    elif isinstance(delay_ms, datetime):
        wait = math.floor(aware("delay_ms", delay_ms).timestamp() * 1000) - now_ms
    elif isinstance(delay_ms, bool) or not isinstance(delay_ms, int | float):
        remedy = "Write delay=… for a timedelta." if isinstance(delay_ms, timedelta) else ""
        raise WrongType(argument="delay_ms", value=delay_ms, expected="milliseconds or datetime", remedy=remedy)
    else:
        wait = _wait("delay_ms", delay_ms)
    if max_delay_s and wait // 1000 > max_delay_s:
        raise DelayTooLong(delay_s=wait // 1000, limit_s=max_delay_s)
    return now_ms + wait if wait > 0 else None


def aware(argument: str, moment: datetime) -> datetime:
    """A datetime that says which hour it means."""
    if moment.utcoffset() is None:
        remedy = "Use datetime.now(UTC), or call .astimezone() on it if it is local time."
        raise BadArgument(argument=argument, value=moment, reason="it has no time zone", remedy=remedy)
    return moment


def _as_delay(value: object) -> str:
    """What to write for a delay that is no timedelta."""
    if isinstance(value, bool) or not isinstance(value, int | float | datetime):
        return "Pass delay=timedelta(…), or delay_ms= for milliseconds or a datetime."
    if isinstance(value, datetime):
        return "Write delay_ms= for a datetime."
    return f"Write delay_ms={value!r} for milliseconds, or delay=timedelta(seconds={value!r}) for seconds."


def _wait(argument: str, value: float) -> int:
    if not math.isfinite(value) or not 0 <= value < _LONGEST_MS:
        raise BadArgument(
            argument=argument,
            value=value,
            reason="must be a finite number, 0 or more",
            remedy=f"Pass a finite number from 0 on, below {_LONGEST_MS}.",
        )
    return int(value)
