"""The log of failed runs: a WARNING for each, with its traceback, and an ERROR for each dead letter.

A flood is sampled by job name: the first few come out, then one line a second that counts the others.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import Any, NamedTuple

log = logging.getLogger("relevo.jobs")

FIRST = 5
"""Lines of one kind and one job name that come out before they are sampled."""

EVERY_S = 1.0

_LINE_ENDS = re.compile(r"\s*\n\s*")


class Failed(NamedTuple):
    """A run that failed; `retry_in_ms` is None when there is no other."""

    job_id: str
    name: str
    attempt: int
    most: int
    retry_in_ms: int | None
    what: str
    trace: str
    error: BaseException | None = None

    level = logging.WARNING

    def said(self) -> tuple[str, dict[str, Any]]:
        then = "not tried again" if self.retry_in_ms is None else f"next run in {_seconds(self.retry_in_ms)}"
        extra = {"max_attempts": self.most, "retry_in_ms": self.retry_in_ms, "reason": self.what}
        return f"failed, attempt {self.attempt} of {self.most}, {then}: {self.what}", extra


class Died(NamedTuple):
    """A job that was dead-lettered."""

    job_id: str
    name: str
    attempt: int
    reason: str
    what: str
    trace: str = ""
    error: BaseException | None = None

    level = logging.ERROR

    def said(self) -> tuple[str, dict[str, Any]]:
        runs = "1 attempt" if self.attempt == 1 else f"{self.attempt} attempts"
        extra = {"reason": self.reason, "detail": self.what}
        return f"is dead after {runs} ({self.reason}): {self.what}", extra


class Dropped(NamedTuple):
    """A job that is done, with a result that could not be stored."""

    job_id: str
    name: str
    attempt: int
    what: str
    trace: str
    error: BaseException | None = None

    level = logging.ERROR

    def said(self) -> tuple[str, dict[str, Any]]:
        return f"is done, and its result was dropped: {self.what}", {"reason": self.what}


Line = Failed | Died | Dropped


class _Flood:
    """What one job name had to say lately."""

    __slots__ = ("example", "held_back", "seen", "timer")

    def __init__(self) -> None:
        self.seen = 0
        self.held_back = 0
        self.example: Line | None = None
        self.timer: asyncio.TimerHandle | None = None


class FailureLog:
    """Writes what becomes of the jobs of one queue. Records carry `queue`, `job_id`, `job_name` and `attempt`; those of failed
    runs `max_attempts` and `retry_in_ms`, all of them a `reason`."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._floods: dict[tuple[int, str], _Flood] = {}

    def wants(self, level: int, name: str) -> bool:
        """Counts a line, and tells whether it is to be made and written: in a flood most are only counted."""
        key = level, name
        flood = self._floods.get(key)
        if flood is None:
            flood = self._floods[key] = _Flood()
            flood.timer = asyncio.get_running_loop().call_later(EVERY_S, self._look_again, key)
        flood.seen += 1
        if flood.seen <= FIRST:
            return True
        flood.held_back += 1
        return flood.held_back == 1

    def write(self, line: Line) -> None:
        """Writes a line that `wants` has asked for, or holds it back until it can say how many are like it."""
        flood = self._floods[line.level, line.name]
        if flood.held_back:
            flood.example = line
        else:
            self._emit(line)

    def close(self) -> None:
        """Writes what was held back."""
        for key in list(self._floods):
            flood = self._floods.pop(key)
            if flood.timer is not None:
                flood.timer.cancel()
            self._let_out(flood)

    def _look_again(self, key: tuple[int, str]) -> None:
        flood = self._floods[key]
        if not flood.held_back:
            del self._floods[key]
            return
        self._let_out(flood)
        flood.timer = asyncio.get_running_loop().call_later(EVERY_S, self._look_again, key)

    def _let_out(self, flood: _Flood) -> None:
        if flood.example is not None:
            others = flood.held_back - 1
            self._emit(flood.example, f" (and {others:,} more like it)" if others else "")
        flood.held_back, flood.example = 0, None

    def _emit(self, line: Line, more: str = "") -> None:
        if not log.isEnabledFor(line.level):
            return
        what, extra = line.said()
        what = _LINE_ENDS.sub(" ", what)  # an error of many lines has them in its traceback, and one here
        about = f"job {line.job_id or '(unreadable)'} ({line.name or 'unnamed'}) of queue {self._queue}"
        extra |= {"queue": self._queue, "job_id": line.job_id, "job_name": line.name, "attempt": line.attempt}
        record = log.makeRecord(log.name, line.level, __file__, 0, f"{about} {what}{more}", (), None, extra=extra)
        error = line.error
        if error is not None:
            record.exc_info = (type(error), error, error.__traceback__)
        # What formatters print: the traceback without our own frames. `exc_info` is for those who want the error itself.
        record.exc_text = line.trace if line.trace != line.what else None
        try:
            log.handle(record)
        except KeyboardInterrupt:
            raise
        except BaseException as fault:  # noqa: BLE001 - a filter that looks at the error may fail of it; the outcome stands
            _tell_of_fault(type(fault).__qualname__)


def _tell_of_fault(kind: str) -> None:
    """By no logger: its filters and handlers are what has failed."""
    sys.stderr.write(f"relevo: a filter or handler of the log raised {kind}; a line about a failed job is missing\n")


def _seconds(ms: int) -> str:
    """
    >>> _seconds(80), _seconds(1500), _seconds(90_000)
    ('80 ms', '1.5 s', '90 s')
    """
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms // 1000} s"
