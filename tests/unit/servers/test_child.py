"""What waits for a program notices that it died or hangs, and shows what it said."""

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.pace import limit
from tests.servers.child import Child, ChildFailed

DIES = "import sys; print('began', flush=True); print('Python worker failed to connect', file=sys.stderr); sys.exit(3)"
HANGS = (
    "import sys; print('began', flush=True); print('stuck in a lock', file=sys.stderr, flush=True); sys.stdin.read()"
)
MOMENT = 20.0
"""Far less than the limit of who waits, and enough for an interpreter on a busy machine."""


def python(program: str, *, logs: tuple[Path, ...] = ()) -> Child:
    return Child(sys.executable, "-c", program, logs=logs)


def test_one_that_dies_before_its_line_is_noticed_with_its_code_and_all_it_said(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("WARN: the JVM's own words\n")
    began = time.monotonic()
    with python(DIES, logs=(log,)) as child:
        assert child.line() == "began"
        with pytest.raises(ChildFailed) as failed:
            child.line(timeout=600)
    assert time.monotonic() - began < limit(MOMENT)
    told = str(failed.value)
    assert "ended with 3 while the test waited for a line" in told
    assert "began" in told
    assert "Python worker failed to connect" in told
    assert "--- spark.log:\nWARN: the JVM's own words" in told


def test_one_that_dies_while_something_else_is_waited_for_is_noticed() -> None:
    began = time.monotonic()
    with python(DIES) as child, pytest.raises(ChildFailed, match=r"ended with 3 while the test waited for a port"):
        child.wait_until(lambda: False, "a port", timeout=600)
    assert time.monotonic() - began < limit(MOMENT)


async def test_one_that_dies_while_a_test_in_a_loop_waits_is_noticed() -> None:
    async def never() -> bool:
        return False

    with python(DIES) as child, pytest.raises(ChildFailed, match=r"ended with 3 while .* for a row"):
        await child.until(never, "a row", timeout=600)


def test_one_that_is_killed_is_told_by_its_signal() -> None:
    with python(HANGS) as child:
        child.wait_for("stuck")
        child.process.kill()
        with pytest.raises(ChildFailed, match="ended with -9"):
            child.wait_for("never said", timeout=600)


def test_one_that_hangs_ends_at_the_limit_with_what_it_said() -> None:
    with python(HANGS) as child:
        child.wait_for("stuck")
        with pytest.raises(ChildFailed, match=r"(?s)reached its limit without a line with 'ready'.*stuck in a lock"):
            child.wait_for("ready", timeout=0.2)
        with pytest.raises(ChildFailed, match=r"(?s)reached its limit without an end.*stuck in a lock"):
            child.ended(timeout=0.2)
    assert not child.alive


def test_a_run_that_hangs_is_killed_and_told() -> None:
    with pytest.raises(ChildFailed, match=r"(?s)without an end.*half way"):
        Child.run(sys.executable, "-c", "import time; print('half way', flush=True); time.sleep(600)", timeout=2)


def test_what_it_did_before_it_ended_counts(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with python(f"open({str(done)!r}, 'w').close(); print('last words')") as child:
        child.wait_until(done.exists, "its file")
        assert child.line() == "last words"
        assert child.ended() == 0


def test_a_run_gives_the_code_and_both_outputs() -> None:
    assert Child.run(sys.executable, "-c", DIES) == (3, "began\n", "Python worker failed to connect\n")


def test_more_than_a_pipe_holds_stops_nobody() -> None:
    done = Child.run(sys.executable, "-c", "import sys; [print('x' * 1000, file=sys.stderr) for _ in range(2000)]")
    assert (done.code, len(done.err)) == (0, 2_002_000)


def test_a_group_is_killed_whole(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()']).pid, flush=True); input()"
    )
    with Child(sys.executable, "-c", program, group=True) as child:
        grandchild = Path("/proc") / child.line()
        assert grandchild.exists()
    assert not grandchild.exists() or "Z" in (grandchild / "stat").read_text().rpartition(")")[2].split()[0]


def test_a_kill_waits_for_the_last_of_its_group() -> None:
    """Much memory takes a while to be given back. Seen red before `kill` waited for more than the pipes."""
    holds = "x = bytearray(b'x') * 200_000_000; print(flush=True); input()"
    program = (
        "import sys; from subprocess import PIPE, Popen\n"
        f"children = [Popen([sys.executable, '-c', {holds!r}], stdin=PIPE, stdout=PIPE, stderr=PIPE) for _ in range(3)]\n"
        "for child in children: child.stdout.readline()\n"
        "print('all', flush=True); input()"
    )
    with Child(sys.executable, "-c", program, group=True) as child:
        assert child.line() == "all"
        child.kill()
        states = [
            stat.read_text().rpartition(")")[2].split() for stat in Path("/proc").glob("[0-9]*/stat") if stat.exists()
        ]
    assert [state for state, _, group, *_ in states if int(group) == child.pid and state != "Z"] == []


def test_a_signal_ends_it_with_its_code() -> None:
    with python(
        "import signal; signal.signal(15, lambda *_: exit(7)); print('up', flush=True); signal.pause()"
    ) as child:
        child.line()
        assert child.end(signal.SIGTERM) == 7
