"""Which tests begin first, and which share something that is slow to start: with `--dist loadgroup` one process runs them all.

A Spark session is shared by all that ask for one, since each process would start a JVM of its own; a module's `relevo serve`
by the tests of that file.

The mark `xdist_group` would say the same, but with pytest 9.2 pytest-xdist 3.8 passes it over without a word
(github.com/pytest-dev/pytest-xdist/issues/1386). So the group is told from the file a test is in.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadGroupScheduling

ROOT = Path(__file__).parents[1]
_ASKS = re.compile(r"\bspark: SparkSession\b")
_PAGE_EXAMPLE = re.compile(r"::test_every_python_example_of_a_page_runs_in_order\[(?P<page>.+)\]$")


_SERVED = ("tests/console/", "tests/acceptance/test_work_")
"""Files that start one `relevo serve` for all their tests."""


class BySession(LoadGroupScheduling):
    """Tests that share a session are one group; every other test goes where there is room."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def longest_first(item: pytest.Item) -> float:
    """Sorts tests by the time they ask for: whoever needs minutes begins while the others have enough to do, so that nobody
    waits for one of them at the end."""
    asked = item.get_closest_marker("timeout")
    return 0.0 if asked is None else -float(asked.args[0])


def group_of(nodeid: str) -> str:
    """The name of what a test shares with others; its own when it shares nothing."""
    if shares_spark(nodeid):
        return "spark"
    return nodeid.partition("::")[0] if nodeid.startswith(_SERVED) else nodeid


def shares_spark(nodeid: str) -> bool:
    """Whether a test may ask for the session: its file has one that does, or it runs a page about Spark."""
    if example := _PAGE_EXAMPLE.search(nodeid):
        return page_on_spark(ROOT / example["page"])
    return _file_asks(nodeid.partition("::")[0])


def page_on_spark(page: Path) -> bool:
    return page.is_file() and "relevo.pipeline" in page.read_text()


@cache
def _file_asks(file: str) -> bool:
    path = ROOT / file
    return path.suffix == ".py" and path.is_file() and _ASKS.search(path.read_text()) is not None
