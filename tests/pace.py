"""How slow this machine is just now, and limits that follow it: `limit(20)` is 20 seconds when it is quiet, more when busy.

A limit in a test is there to end what hangs. What it measures otherwise is the machine and its other work, and a slow
machine may make a run slow, never red. So a limit is written as what is enough on a quiet machine, and goes through here.

The pace is how long a fixed piece of work takes by the wall clock, beside what it takes on two quiet cores. In a run of several
processes the one that leads it measures for all of them (`Pacemaker`); any other run measures by itself when it is asked.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path

PACE_FILE = "RELEVO_TEST_PACE_FILE"
"""The environment variable that names the file where the leading process writes the pace."""

QUIET = 0.025
"""Seconds that the piece of work takes on a quiet machine of 2024."""

SLOWEST = 40.0
"""A machine that was asleep for an hour is not to lend its hour to whatever hangs next."""

_FRESH = 5.0
_REMEMBERED = 8


class Pace:
    """The average slowness over the last few measures; 1 is a quiet machine, and it is never less."""

    def __init__(self) -> None:
        self._measures: deque[float] = deque(maxlen=_REMEMBERED)
        self._measured = 0.0
        self._lock = threading.Lock()

    def slowness(self) -> float:
        """What the last measures say; measures anew when they are older than five seconds."""
        with self._lock:
            if not self._measures or time.monotonic() - self._measured > _FRESH:
                self.measure()
            return bounded(sum(self._measures) / len(self._measures))

    def measure(self) -> None:
        self._measures.append(work() / QUIET)
        self._measured = time.monotonic()


class Pacemaker:
    """Measures every few seconds in a thread of the leading process, and writes the pace where the others read it."""

    def __init__(self, file: Path, *, every: float = 2.0) -> None:
        self._file = file
        self._every = every
        self._pace = Pace()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pacemaker", daemon=True)

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        self.tick()
        os.environ[PACE_FILE] = str(self._file)
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            os.environ.pop(PACE_FILE, None)

    def tick(self) -> None:
        self._pace.measure()
        new = self._file.with_suffix(".new")
        new.write_text(f"{self._pace.slowness():.3f}")
        new.replace(self._file)  # nobody reads half a number

    def _run(self) -> None:
        while not self._over.wait(self._every):
            self.tick()


def limit(seconds: float) -> float:
    """What ends a hang after `seconds` on a quiet machine, at the pace of this one; never less than `seconds`."""
    return seconds * slowness()


def slowness() -> float:
    """How many times longer than on a quiet machine things take here just now; at least 1."""
    told = os.environ.get(PACE_FILE)
    if told is not None:
        with contextlib.suppress(OSError, ValueError):  # the leading process has ended: this one measures
            return bounded(float(Path(told).read_text()))
    return _OWN.slowness()


def bounded(slowness: float) -> float:
    return min(max(slowness, 1.0), SLOWEST)


def work() -> float:
    """Does the piece of work, and says how long it took by the wall clock."""
    began = time.perf_counter()
    total = 0
    for number in range(600_000):
        total += number * number
    return time.perf_counter() - began


_OWN = Pace()
