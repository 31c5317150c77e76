"""Dedup in three separate meanings: drop while one is under way, throttle to one in a time, debounce to the last of a burst."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from relevo.errors import BadArgument, WrongType

_UNDER_WAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Dedup:
    """What happens to a job whose key is taken. Write one of the three constructors.

    >>> Dedup.throttle("reindex", timedelta(minutes=5)).hold_ms
    300000
    """

    kind: str
    key: str
    hold_ms: int

    @staticmethod
    def drop(key: str) -> Dedup:
        """Dropped while a job with this key is waiting, delayed or running (and for a day at most, should it be lost)."""
        return Dedup("drop", _checked(key), _UNDER_WAY_MS)

    @staticmethod
    def throttle(key: str, every: timedelta) -> Dedup:
        """The first one runs; others within `every` of it are dropped, finished or not."""
        return Dedup("throttle", _checked(key), _ms("every", every))

    @staticmethod
    def debounce(key: str, wait: timedelta) -> Dedup:
        """Runs `wait` after the last one with this key; each new one replaces the one before, data and all."""
        return Dedup("debounce", _checked(key), _ms("wait", wait))


def _checked(key: object) -> str:
    if not isinstance(key, str) or not key.strip():
        raise BadArgument(
            argument="dedup key", value=key, reason="must not be blank", remedy="Name what is the same about the jobs."
        )
    return key


def _ms(argument: str, value: timedelta) -> int:
    if not isinstance(value, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WrongType(argument=argument, value=value, expected="timedelta")
    milliseconds = int(value.total_seconds() * 1000)
    if milliseconds < 1:
        remedy = "Pass a timedelta of a millisecond or more."
        raise BadArgument(argument=argument, value=value, reason="must be greater than 0", remedy=remedy)
    return milliseconds
