"""A run leaves no process behind, however it ends."""

import signal
from pathlib import Path

import pytest

from tests.harness.child import Child
from tests.servers.process import wait_until

# What it starts is as `relevo up` or a JVM: in a session of its own, and deaf to what ends most programs.
STARTS = """
    import os, pathlib, subprocess, sys, threading

    PROGRAM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(3600)"

    def start():
        started = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, start_new_session=True)
        started.stdout.readline()
        pathlib.Path("new").write_text(str(started.pid))
        pathlib.Path("new").rename("started")
        return started

    def test_starts():
        started = start()
        END
"""

WAITS = """
    import pathlib, threading

    def test_waits_for_the_end_of_it():
        between = threading.Event()
        while not pathlib.Path("started").exists():
            between.wait(0.01)
        process = pathlib.Path("/proc", pathlib.Path("started").read_text())
        while process.exists() and "(zombie)" not in (process / "status").read_text():
            between.wait(0.01)
"""


def lives(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "(zombie)" not in status.read_text()


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_stopped_run_had_started_ends_with_it(tmp_path: Path, processes: int, stop: signal.Signals) -> None:
    child = Child(tmp_path)
    child.write("test_starts.py", STARTS.replace("END", "threading.Event().wait()"))
    run = child.start("--timeout=0", processes=processes)
    try:
        wait_until(lambda: (tmp_path / "started").exists() or run.poll() is not None, "the test to begin")
        pid = int((tmp_path / "started").read_text())
        assert lives(pid)
        run.send_signal(stop)
        run.communicate()
    finally:
        run.kill()

    wait_until(lambda: not lives(pid), "the end of what the test had started")


def test_a_process_that_dies_takes_along_what_its_test_had_started_while_the_run_goes_on(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write("test_starts.py", STARTS.replace("END", "os._exit(3)"))
    child.write("test_waits.py", WAITS)

    ran = child.run("--timeout=30", "--timeout-method=signal")

    assert ran.counts == {"passed": 1, "failed": 1}, ran.said
    assert "DIED: the process that ran test_starts.py::test_starts" in ran.said


def test_a_run_that_ends_as_usual_leaves_nothing_either(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write("test_starts.py", STARTS.replace("END", "assert started"))

    ran = child.run(processes=1)

    assert ran.counts == {"passed": 1}, ran.said
    assert not lives(int((tmp_path / "started").read_text()))
