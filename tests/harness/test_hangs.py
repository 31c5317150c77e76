"""A test that hangs, or takes its process with it, costs itself only, and the end of the run names it."""

import signal
from pathlib import Path

import pytest

from tests.harness.child import Child

QUICK = ("--timeout=1", "--timeout-method=signal", "--grace=1")

FINE = """
    import pytest

    @pytest.mark.parametrize("number", range(12))
    def test_fine(number):
        pass
"""

# Signals are blocked in every thread, the GIL is held: nothing inside the process can end it.
DEAF = """
    import ctypes, signal, threading

    def test_deaf():
        assert threading.active_count() >= 1
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        mutex = (ctypes.c_byte * 64)()
        for _ in range(2):  # the second time it waits for itself, with the interpreter's lock, and no signal wakes it
            ctypes.PyDLL(None).pthread_mutex_lock(mutex)
"""

WOKEN = """
    import ctypes, signal

    def test_woken():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        ctypes.PyDLL(None).sleep(600)  # any signal ends it, also the one that asks for stacks
"""


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


def test_a_test_over_its_limit_fails_alone_and_shows_where_its_threads_are(child: Child) -> None:
    child.write("test_fine.py", FINE)
    child.write(
        "test_slow.py",
        """
        import threading

        def waits_elsewhere():
            threading.Event().wait()

        def test_slow():
            threading.Thread(target=waits_elsewhere, daemon=True).start()
            threading.Event().wait()
        """,
    )

    ran = child.run(*QUICK)

    assert ran.counts == {"passed": 12, "failed": 1}, ran.said
    assert "TOOK TOO LONG: more than 1 s" in ran.said
    assert "waits_elsewhere" in ran.said
    assert "replacing crashed worker" not in ran.said, "its process goes on"


def test_a_test_that_no_signal_can_end_is_killed_and_named_and_the_others_run(child: Child) -> None:
    child.write("test_fine.py", FINE)
    child.write("test_deaf.py", DEAF)

    ran = child.run(*QUICK)

    assert ran.code == 1
    assert ran.counts == {"passed": 12, "failed": 1}, ran.said
    assert ran.named("HUNG") == ["test_deaf.py::test_deaf"]
    assert "HUNG: test_deaf.py::test_deaf" in ran.said
    assert 'test_deaf.py", line' in ran.said, "the stack is shown though Python could not run"


@pytest.mark.whole  # a run of its own for a rare case
def test_a_process_that_the_look_at_its_stacks_sets_free_goes_on(child: Child) -> None:
    child.write("test_fine.py", FINE)
    child.write("test_woken.py", WOKEN)

    ran = child.run(*QUICK)

    assert ran.counts == {"passed": 12, "failed": 1}, ran.said
    assert ran.named("HUNG") in ([], ["test_woken.py::test_woken"]), "whichever was first"
    assert "FAILED test_fine.py" not in ran.said


def test_a_process_that_ends_in_the_middle_costs_its_test_only(child: Child) -> None:
    child.write("test_fine.py", FINE)
    child.write("test_gone.py", "import os\n\ndef test_gone():\n    os._exit(3)\n")

    ran = child.run(*QUICK)

    assert ran.counts == {"passed": 12, "failed": 1}, ran.said
    assert "DIED: the process that ran test_gone.py::test_gone" in ran.said


@pytest.mark.whole  # a run of its own for a rare case
def test_a_run_of_one_process_that_dies_again_and_again_comes_to_its_end(child: Child) -> None:
    """pytest-xdist's own group scheduler waits for ever here: what takes the place of a dead process gets one test."""
    child.write(
        "test_gone.py",
        """
        import os, pytest

        @pytest.mark.parametrize("number", range(6))
        def test_gone(number):
            if number % 2:
                os._exit(3)
        """,
    )

    ran = child.run(*QUICK, processes=1)

    assert ran.counts == {"passed": 3, "failed": 3}, ran.said


def test_tests_that_did_not_run_are_named_and_make_the_run_red(child: Child) -> None:
    child.write("test_fine.py", FINE)
    child.write("test_gone.py", "import os\n\ndef test_gone():\n    os._exit(3)\n")

    ran = child.run(*QUICK, "--max-worker-restart=0", "test_gone.py", "test_fine.py", processes=1)

    assert ran.code != 0
    assert len(ran.named("NOT RUN")) == 12, ran.said
    assert "because worker gw0 crashed and worker restarting disabled" in ran.said


@pytest.mark.parametrize(
    ("processes", "stop"),
    [
        pytest.param(0, signal.SIGINT),
        pytest.param(0, signal.SIGTERM, marks=pytest.mark.whole),
        pytest.param(2, signal.SIGINT, marks=pytest.mark.whole),
        pytest.param(2, signal.SIGTERM),
    ],
)
def test_a_run_that_is_stopped_names_what_did_not_run(child: Child, processes: int, stop: signal.Signals) -> None:
    child.write(
        "test_stopped.py",
        """
        import os, pathlib, threading

        def test_first():
            pathlib.Path("began").touch()
            os.mkfifo("never") if not os.path.exists("never") else None
            open("never").read()

        def test_second():
            open("never2").read() if os.path.exists("never2") else threading.Event().wait()

        def test_third():
            pass

        def test_fourth():
            pass
        """,
    )
    started = child.start("--timeout=0", "-q", "-q", processes=processes)
    try:
        while not (child.folder / "began").exists():
            assert started.poll() is None, started.communicate()[0]
        started.send_signal(stop)
        said, _ = started.communicate()
    finally:
        started.kill()

    assert started.returncode == pytest.ExitCode.INTERRUPTED
    assert "DID NOT RUN: 4 tests" in said, said
    for name in ("first", "second", "third", "fourth"):
        assert f"NOT RUN test_stopped.py::test_{name}" in said


@pytest.mark.whole  # as a run that is stopped
def test_a_run_over_its_limit_stops_and_names_the_rest(child: Child) -> None:
    child.write(
        "test_long.py",
        """
        import threading, pytest

        @pytest.mark.parametrize("number", range(400))
        def test_long(number):
            threading.Event().wait(0.5)
        """,
    )

    ran = child.run("--run-limit=1")

    assert ran.code == pytest.ExitCode.INTERRUPTED
    assert "because the run took longer than its limit of 1 s" in ran.said
    assert "DID NOT RUN" in ran.said
