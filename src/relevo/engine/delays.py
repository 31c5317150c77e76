"""When a job is to run, as the caller wrote it: milliseconds from now, a datetime, or a timedelta."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from relevo.errors import BadArgument, DelayTooLong, WrongType

DelayMsLike = int | float | datetime


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
            raise WrongType(argument="delay", value=delay, kind=type(delay).__name__, remedy="pass a timedelta.")
        wait = _wait("delay", delay.total_seconds() * 1000)
    elif isinstance(delay_ms, datetime):
        moment = delay_ms if delay_ms.tzinfo is not None else delay_ms.replace(tzinfo=UTC)
        wait = math.floor(moment.timestamp() * 1000) - now_ms
    elif isinstance(delay_ms, bool) or not isinstance(delay_ms, int | float):
        kind = type(delay_ms).__name__
        raise WrongType(argument="delay_ms", value=delay_ms, kind=kind, remedy="pass milliseconds or a datetime.")
    else:
        wait = _wait("delay_ms", delay_ms)
    if max_delay_s and wait // 1000 > max_delay_s:
        raise DelayTooLong(delay_s=wait // 1000, limit_s=max_delay_s)
    return now_ms + wait if wait > 0 else None


def _wait(argument: str, value: float) -> int:
    if not math.isfinite(value) or value < 0:
        raise BadArgument(
            argument=argument, value=value, reason="not a delay", remedy="Pass a finite number from 0 on."
        )
    return int(value)
