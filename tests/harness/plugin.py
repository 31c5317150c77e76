"""The pytest plugin that puts the parts of the harness together: `tests/conftest.py` loads it, and so do its own tests."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.workermanage import parse_tx_spec_config

from tests.harness.closing import Closing
from tests.harness.leftovers import Warden, end_marked, mark, mark_part, unmark
from tests.harness.limits import Limits
from tests.harness.needs import CAPACITY, longest_first
from tests.harness.progress import Progress
from tests.harness.sample import BACKENDS, Sample
from tests.harness.turns import Process, Turns
from tests.harness.watch import COLD, FOLDER, GRACE, Noted, Watch
from tests.pace import Pacemaker, limit
from tests.servers.spark_classes import start_options

_LED = pytest.StashKey[contextlib.ExitStack]()
_RUN = pytest.StashKey[Path]()

RUN_LIMIT = 3600.0
"""Seconds until a run is stopped, on a quiet machine; whatever is left is named."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("relevo")
    group.addoption(
        "--sample", action="store_true", help="run each test on some of its servers and databases, picked by its name"
    )
    group.addoption("--backend", choices=BACKENDS, help="run only tests of stream queues, on this server")
    group.addoption(
        "--run-limit", type=float, default=RUN_LIMIT, help="seconds until the run is stopped, on a quiet machine"
    )
    group.addoption(
        "--grace", type=float, default=GRACE, help="seconds between the limit of a test and the end of its process"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Limits(), "limits")
    backend: str | None = config.getoption("backend")
    if backend is not None or config.getoption("sample"):
        config.pluginmanager.register(Sample(backend), "sample")
    os.environ.setdefault("SPARK_SUBMIT_OPTS", start_options(short_lived=bool(config.getoption("sample"))))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background, where a shell makes its children deaf to Ctrl-C: ours are to hear it, as at a terminal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        process: str = getattr(config, "workerinput")["workerid"]  # noqa: B009 - pytest-xdist puts it there
        config.pluginmanager.register(Noted(Path(os.environ[FOLDER]), process), "noted")
        mark_part(process)
        return
    _tidy_up_after(config)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends the run is told what did not run
    if config.getoption("tx", None) and config.getoption("dist", "no") != "no":
        _lead(config)
    else:
        config.pluginmanager.register(Closing(config, {}, why=lambda: None), "closing")


@pytest.hookimpl(trylast=True)  # after servers, databases and sessions have been closed as they like it
def pytest_unconfigure(config: pytest.Config) -> None:
    if _LED in config.stash:
        config.stash[_LED].close()
    gc.unfreeze()  # else nothing of it is tidied up at the end, and libraries that count say so in a hundred lines


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A process that died leaves nothing behind for the rest of the run. One that ends as it should is still tidying up."""
    if error is not None:
        end_marked(f"{node.config.stash[_RUN]}/{node.gateway.id}")


@pytest.hookimpl(trylast=True)  # after the shuffle, and after others have set their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=longest_first)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: looking for garbage meanwhile takes a fifth of the time and finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # only there with pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config) -> Turns | None:
    if config.getoption("dist") != "loadgroup":
        return None

    def differs(first: Process, other: Process) -> None:
        said = f"{first.gateway.id} and {other.gateway.id} collected different tests: a name depends on the process"
        report = pytest.CollectReport(other.gateway.id, "failed", longrepr=said, result=[])
        config.hook.pytest_collectreport(report=report)

    capacity = int(os.environ.get("RELEVO_TEST_CAPACITY", CAPACITY))
    return Turns(len(parse_tx_spec_config(config)), capacity=capacity, collection_differs=differs)


class Lead:
    """What the leading process does every second, between what the others tell it."""

    def __init__(self, config: pytest.Config, watch: Watch) -> None:
        self._config = config
        self._watch = watch
        self._progress: Progress | None = None
        self._began: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticks", daemon=True)
        self.stopped: str | None = None

    @property
    def _session(self) -> Any:
        return self._config.pluginmanager.get_plugin("dsession")

    def pytest_sessionstart(self) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._config.get_verbosity() == 0:
            self._progress = Progress(reporter, self._watch.running)
            self._config.pluginmanager.register(self._progress, "progress")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        self._began = self._began or time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        session = self._session
        if session is None:
            return (yield)
        # pytest-xdist's loop calls `worker_<name>` for whatever is put into its queue, in the main thread.
        session.worker_tick = self.tick
        self._thread.start()
        try:
            return (yield)
        finally:
            self._over.set()

    def why(self) -> str | None:
        session = self._session
        return self.stopped or getattr(session, "_summary_report", None)

    def tick(self) -> None:
        self._watch.look()
        if self._progress is not None:
            self._progress.tick()
        allowed: float = self._config.option.run_limit
        if self.stopped is None and self._began is not None and time.monotonic() - self._began > limit(allowed):
            self.stopped = f"the run took longer than its limit of {allowed:g} s (on a quiet machine)"
            self._session.shouldstop = self.stopped

    def _run(self) -> None:
        while not self._over.wait(1.0):
            self._session.queue.put(("tick", {}))


def _tidy_up_after(config: pytest.Config) -> None:
    """The folder of the run, and the end of what it leaves behind."""
    led = config.stash[_LED] = contextlib.ExitStack()
    folder = config.stash[_RUN] = Path(led.enter_context(tempfile.TemporaryDirectory(prefix="relevo-tests-")))
    led.callback(Warden(str(folder)).close)
    mark(str(folder))
    led.callback(unmark)
    led.callback(end_marked, str(folder))


def _lead(config: pytest.Config) -> None:
    led, folder = config.stash[_LED], config.stash[_RUN]
    led.enter_context(Pacemaker(folder / "pace").running())
    os.environ[FOLDER] = str(folder)
    if not sys.dont_write_bytecode and next(config.rootpath.rglob("test_*-pytest-*.pyc"), None) is None:
        os.environ[COLD] = "1"
        led.callback(os.environ.pop, COLD, None)
    watch = Watch(folder, grace=config.option.grace)
    lead = Lead(config, watch)
    config.pluginmanager.register(watch, "watch")
    config.pluginmanager.register(lead, "lead")
    config.pluginmanager.register(Closing(config, watch.hung, why=lead.why), "closing")
