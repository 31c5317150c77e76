"""Kills the process of a test that nothing inside it can end, from the process that leads the run.

Each process notes in a file what it runs, since when, and how long that may take. The leading process looks at the notes every
second. For a test that is over its limit and was not ended by `limits.py` (it blocks in C, or ignores the signal) it asks for
the stacks of the process, which a handler in C writes without Python, kills the process, and reports the test as hung.
pytest-xdist starts a process in its place, and `turns.py` gives it the tests that are left.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness.limits import AGAIN
from tests.pace import limit

FOLDER = "RELEVO_TEST_RUN"
"""The environment variable that names the folder of notes."""

COLD = "RELEVO_TEST_COLD"
"""The environment variable that says that no test was rewritten yet: one process does it, and the others wait for it."""

COLLECTING, ENDING = "(collecting its tests)", "(ending)"
_FIRST = "gw0"
_COLLECTS_FOR, _ENDS_WITHIN = 300.0, 120.0
GRACE = 2 * AGAIN
"""Seconds between the limit of a test and the end of its process."""
_STACKS_WITHIN = 3.0
_STACKS = signal.SIGUSR1


class Noted:
    """In a process that runs tests: writes down what it does."""

    def __init__(self, folder: Path, process: str) -> None:
        self._note = folder / f"{process}.json"
        self._new = folder / f"{process}.new"
        self._limit = 0.0
        self._first = folder / f"{_FIRST}.json"
        self._waits = COLD in os.environ and process != _FIRST
        self._written = (folder / f"{process}.stacks").open("w")
        faulthandler.register(_STACKS, file=self._written, all_threads=True)
        self._say(COLLECTING, _COLLECTS_FOR)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """The asserts of all tests are rewritten, which takes as long as all else that finding them takes, and kept. In a new
        checkout each process would do that anew, at the same time."""
        if self._waits:
            while _collects(self._first):
                time.sleep(0.05)
            self._say(COLLECTING, _COLLECTS_FOR)

    def pytest_collection_finish(self) -> None:
        self._say(None, 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        self._limit = settings.timeout
        self._say(item.nodeid, self._limit)

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends it
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that was woken by the request for its stacks fails by itself: killed now it would be reported twice."""
        if report.when != "teardown":
            self._say(report.nodeid, self._limit)

    def pytest_runtest_logfinish(self) -> None:
        self._say(None, 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._say(ENDING, _ENDS_WITHIN)

    def pytest_unconfigure(self) -> None:
        faulthandler.unregister(_STACKS)
        self._written.close()

    def _say(self, doing: str | None, seconds: float) -> None:
        note = {"pid": os.getpid(), "doing": doing, "since": time.monotonic(), "limit": seconds}
        self._new.write_text(json.dumps(note))
        self._new.replace(self._note)  # nobody reads half a note


class Watch:
    """In the leading process: reads the notes, kills who hangs, and remembers why."""

    def __init__(self, folder: Path, *, grace: float) -> None:
        self._folder = folder
        self._grace = grace
        self._killed: set[int] = set()
        self.hung: dict[str, str] = {}
        """What hung, and where its threads were."""

    def look(self) -> None:
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                note = json.loads(file.read_text())
                over = time.monotonic() - note["since"] - limit(note["limit"] + self._grace)
                if note["doing"] is not None and over > 0 and note["pid"] not in self._killed:
                    self._kill(file, note)

    def running(self) -> list[tuple[str, float]]:
        """What runs now, and for how many seconds; the longest first."""
        found: list[tuple[str, float]] = []
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                note = json.loads(file.read_text())
                if note["doing"] is not None and note["pid"] not in self._killed and _lives(note["pid"]):
                    found.append((note["doing"], time.monotonic() - note["since"]))
        return sorted(found, key=lambda each: -each[1])

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        if crashitem in self.hung:
            report.longrepr = f"HUNG: {crashitem}\n{self.hung[crashitem]}"
        else:
            report.longrepr = f"DIED: the process that ran {crashitem} ended in the middle of it ({report.longrepr})"

    def _kill(self, file: Path, note: dict[str, Any]) -> None:
        pid: int = note["pid"]
        took = time.monotonic() - note["since"]
        written = file.with_suffix(".stacks")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, _STACKS)
            until = time.monotonic() + limit(_STACKS_WITHIN)
            while time.monotonic() < until and not written.read_text().endswith("\n"):
                time.sleep(0.05)
            os.kill(pid, signal.SIGSTOP)  # from here on its note is true
            if json.loads(file.read_text()) != note:  # the signal woke it, and it goes on
                os.kill(pid, signal.SIGCONT)
                return
            self._killed.add(pid)
            self.hung[note["doing"]] = (
                f"It ran for {took:.0f} s, could not be interrupted, and its process was killed. Its limit is "
                f"{note['limit']:g} s on a quiet machine.\n{written.read_text() or 'It gave no stacks.'}"
            )
            os.kill(pid, signal.SIGKILL)


def _collects(note: Path) -> bool:
    """Whether the process with this note looks for its tests; what has not begun yet is about to."""
    try:
        noted = json.loads(note.read_text())
    except FileNotFoundError:
        return True
    return noted["doing"] == COLLECTING and _lives(noted["pid"])


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
