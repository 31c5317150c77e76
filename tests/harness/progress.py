"""Says how far a run of several processes is: one line that is written over in a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.harness.needs import BROWSER, DATABASE, JVM, LIGHT, PROCESSES, weight_of

_IN_LOG_EVERY = 15.0
_IN_TERMINAL_EVERY = 0.2
_LONG = 30.0
_REASON = 200

_SECONDS = {JVM: 4.0, BROWSER: 3.0, PROCESSES: 3.0, DATABASE: 0.5, LIGHT: 0.2}
"""What a test takes by its weight, roughly: heavy ones begin first, and by their number alone the end would seem far away."""


class Progress:
    """Counts what is done. `running` tells what runs now, the longest first; it is asked for what takes long."""

    def __init__(self, reporter: pytest.TerminalReporter, running: Callable[[], list[tuple[str, float]]]) -> None:
        self._reporter = reporter
        self._running = running
        self._in_terminal = bool(reporter.isatty)
        self._total = 0
        self._done: set[str] = set()
        self._work = self._work_done = 0.0
        self._failed: set[str] = set()
        self._began = time.monotonic()
        self._said = self._began
        setattr(reporter, "_show_progress_info", False)  # noqa: B010 - its percentages are this line's

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        if not self._total:
            self._began = time.monotonic()
            self._total = len(ids)
            self._work = sum(_SECONDS[weight_of(nodeid)] for nodeid in ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> Generator[None, object, object]:
        """Counted and named as ever, without the letter."""
        found = yield
        return (found[0], "", found[2]) if isinstance(found, tuple) else found  # pyright: ignore[reportUnknownVariableType]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self._failed:
            self._failed.add(report.nodeid)
            hung = str(report.longrepr).startswith("HUNG")
            self._clear()
            self._reporter.write_line(f"{'HUNG' if hung else 'FAILED'} {report.nodeid}{_reason(report)}", red=True)
        if report.when in ("teardown", "???") and report.nodeid not in self._done:
            self._done.add(report.nodeid)
            self._work_done += _SECONDS[weight_of(report.nodeid)]
            self.tick()

    def tick(self) -> None:
        now = time.monotonic()
        if self._total and now - self._said >= (_IN_TERMINAL_EVERY if self._in_terminal else _IN_LOG_EVERY):
            self._said = now
            if self._in_terminal:
                width = self._reporter._tw.fullwidth - 1  # pyright: ignore[reportPrivateUsage]
                self._reporter.rewrite(self.line()[:width], erase=True, bold=True)
            else:
                self._reporter.write_line(self.line())

    def line(self) -> str:
        """`1,210 of 5,803 tests · 20 % · 2:03 · about 7:50 left · 1 failed`."""
        done, total = len(self._done), self._total
        elapsed = time.monotonic() - self._began
        parts = [f"{done:,} of {total:,} tests", f"{100 * done // total if total else 0} %", _clock(elapsed)]
        if 10 * self._work_done > self._work and done < total:  # a guess from less would be off by hours
            parts.append(f"about {_clock(elapsed * (self._work - self._work_done) / self._work_done)} left")
        if self._failed:
            parts.append(f"{len(self._failed)} failed")
        slow = [(name, seconds) for name, seconds in self._running() if seconds > _LONG]
        if slow:
            name, seconds = slow[0]
            parts.append(f"{name.rpartition('/')[2]} for {_clock(seconds)}")
        return " · ".join(parts)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._clear()
        if self._total:
            self._reporter.write_line(self.line())

    def _clear(self) -> None:
        if self._in_terminal:
            self._reporter.rewrite("", erase=True)
            self._reporter._tw.write("\r")  # pyright: ignore[reportPrivateUsage]


def _reason(report: pytest.TestReport) -> str:
    """Where it failed and of what, in a line: a log that is cut off before the end still says it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return ""
    first = str(crash.message).partition("\n")[0][:_REASON]
    return f" at {Path(crash.path).name}:{crash.lineno}: {first}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
