"""What a run says of itself: how far it is in few lines, who failed as soon as it is known, and pytest's closing line."""

import os
import pty
import re
from pathlib import Path

import pytest

from tests.harness.child import Child

TESTS = """
    import pytest

    @pytest.mark.parametrize("number", range(40))
    def test_fine(number):
        pass

    def test_bad():
        assert 1 == 2

    def test_skipped():
        pytest.importorskip("a_package_that_nobody_has")
"""
LINE = re.compile(r"^42 of 42 tests · 100 % · \d+:\d\d · 1 failed$", re.MULTILINE)


def test_a_log_has_a_line_now_and_then_and_no_dots(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write("test_all.py", TESTS)

    ran = child.run()

    assert LINE.search(ran.said), ran.said
    assert "...." not in ran.said.partition("created: 2/2 workers")[2].partition("FAILURES")[0].replace("nodes...", "")
    assert ran.said.count("FAILED test_all.py::test_bad") == 2, "when it fails, and at the end"
    assert re.search(r"^FAILED test_all.py::test_bad at test_all.py:\d+: assert 1 == 2$", ran.said, re.MULTILINE)
    assert ran.counts == {"passed": 40, "failed": 1, "skipped": 1}


def test_a_terminal_has_one_line_that_is_written_over(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write("test_all.py", TESTS)
    ours, theirs = pty.openpty()
    started = child.start(stdout=theirs)
    os.close(theirs)
    said = b""
    while chunk := _read(ours):
        said += chunk
    os.close(ours)
    started.wait()

    shown = said.decode()
    assert "42 of 42 tests" in shown
    assert re.search(r"\r(\x1b\[\d+m)*\d+ of 42 tests[^\n]*\r", shown), shown
    assert "1 failed, 40 passed, 1 skipped" in re.sub(r"\x1b\[[0-9;]*m", "", shown)


def test_a_run_of_one_process_looks_as_pytest_always_does(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write("test_all.py", TESTS)

    ran = child.run(processes=0)

    assert "......" in ran.said
    assert ran.counts == {"passed": 40, "failed": 1, "skipped": 1}


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.whole  # a run of its own
def test_who_asks_for_names_gets_them(tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write("test_all.py", TESTS)

    ran = child.run("-v")

    assert re.search(r"PASSED\S* test_all.py::test_fine\[7\]", ran.said), ran.said
