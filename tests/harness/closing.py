"""The end of a run names every test that hung or did not run, and why, also when a process died or somebody stopped the run.

pytest itself names those that failed. A run in which a test did not run is red.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

_BY_NAME = 200
"""So many are named one by one; of more the screen shows the files, and a file has the names."""


class Closing:
    """Keeps what was collected and what was reported; the difference did not run."""

    def __init__(self, config: pytest.Config, hung: Mapping[str, str], *, why: Callable[[], str | None]) -> None:
        self._config = config
        self._hung = hung
        self._why = why
        self._collected: dict[str, None] = {}
        self._reported: set[str] = set()
        self._stopped: str | None = None
        self._asked_to_stop = False
        self._said = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected.update(dict.fromkeys(ids))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self._config.getoption("collectonly"):
            self._collected.update(dict.fromkeys(item.nodeid for item in session.items))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when in ("teardown", "???"):
            self._reported.add(report.nodeid)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._stopped = str(excinfo.value) or "the run was interrupted"

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._stopped = f"the run broke: {excinfo.exconly()}"

    @property
    def not_run(self) -> list[str]:
        return [nodeid for nodeid in self._collected if nodeid not in self._reported]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        stop = session.shouldfail or session.shouldstop
        if isinstance(stop, str):
            self._stopped = self._stopped or stop
        self._asked_to_stop = bool(self._config.getoption("maxfail"))
        if self.not_run and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._say(terminalreporter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """After an internal error pytest makes no summary."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            self._say(reporter)

    def _say(self, reporter: pytest.TerminalReporter) -> None:
        if self._said:
            return
        self._said = True
        if self._hung:
            reporter.write_sep("=", f"HUNG: {_tests(len(self._hung))}", red=True, bold=True)
            for name in self._hung:
                reporter.write_line(f"HUNG {name}", red=True)
        missing = self.not_run
        if not missing:
            return
        reporter.write_sep("=", f"DID NOT RUN: {_tests(len(missing))}", red=True, bold=True)
        reporter.write_line(f"because {self._stopped or self._why() or 'no process was left to run them'}", red=True)
        if self._asked_to_stop:
            return  # `-x`: whoever says it knows that the rest is left out
        if len(missing) <= _BY_NAME:
            for name in missing:
                reporter.write_line(f"NOT RUN {name}", red=True)
            return
        for file, count in Counter(name.partition("::")[0] for name in missing).items():
            reporter.write_line(f"NOT RUN {file}: {_tests(count)}", red=True)
        listed = Path(self._config.cache.mkdir("not-run") if self._config.cache else ".") / "names.txt"
        listed.write_text("\n".join(missing) + "\n")
        reporter.write_line(f"their names: {listed}", red=True)


def _tests(count: int) -> str:
    return f"{count} {'test' if count == 1 else 'tests'}"
