"""The last lines of a run are its result: what tests imported is tidied up when their process ends, and says nothing."""

from pathlib import Path

import pytest

from tests.harness.child import Child

READS = """
    import duckdb

    def test_reads():
        assert duckdb.connect().sql("SELECT 1").fetchall() == [(1,)]
"""


@pytest.mark.parametrize("processes", [0, 1])
def test_a_library_that_counts_what_is_left_finds_nothing(processes: int, tmp_path: Path) -> None:
    child = Child(tmp_path)
    child.write("test_reads.py", READS)
    ran = child.run(processes=processes)
    assert ran.counts == {"passed": 1}, ran.said
    assert "leaked" not in ran.said, ran.said
    assert "1 passed" in ran.said.splitlines()[-1], ran.said
