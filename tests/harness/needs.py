"""What a test shares with others, and how heavy it is, told from where it stands.

A Spark session is shared by all that ask for one, since each process would start a JVM of its own; a module's `relevo serve`
and its browser by the tests of that file. The process that leads a run knows the names of tests only, so both are told from
the file a test is in, and from the servers in its name.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

CAPACITY = 12
"""How much may run at once on two cores. Beside a JVM: two tests with processes, or a browser; no second JVM."""

JVM, BROWSER, PROCESSES, DATABASE, LIGHT = 6, 4, 3, 1, 0

_ASKS_FOR_SPARK = re.compile(r"\bspark: SparkSession\b")
_STARTS_JVM = re.compile(
    r"StandaloneCluster|\bmaster: str\b|driver\.py|doomed_archive|SparkSession\.builder|\bsession\("
)
_OPENS_BROWSER = re.compile(r"\bbrowser: |\bpage: Page\b")
_PAGE_EXAMPLE = re.compile(r"::test_every_python_example_of_a_page_runs_in_order\[(?P<page>.+)\]$")
_DATABASE_LANE = re.compile(r"\[.*\b(postgres|mariadb)")

_SERVED = (
    "tests/acceptance/test_finding_up.py",
    "tests/acceptance/test_up.py",
    "tests/acceptance/test_work_",
    "tests/console/",
)
"""Files that start one `relevo serve` or `relevo up` for all their tests."""

_JVM_FILES = (
    "tests/acceptance/test_demo.py",
    "tests/acceptance/test_pipeline_commands.py",
    "tests/acceptance/test_spark_example.py",
    "tests/acceptance/test_spark_script.py",
)
"""Files outside tests/spark whose tests start Spark in a process of their own."""

_PROCESS_FILES = (
    "tests/acceptance/test_bench.py",
    "tests/acceptance/test_finding_up.py",
    "tests/acceptance/test_story.py",
    "tests/acceptance/test_up.py",
    "tests/acceptance/test_work_",
    "tests/acceptance/test_worker_command.py",
    "tests/agents/test_kills.py",
    "tests/api/test_schemathesis.py",
    "tests/api/test_serve.py",
    "tests/harness/test_hangs.py",
    "tests/harness/test_leftovers.py",
    "tests/harness/test_progress.py",
    "tests/harness/test_turns.py",
    "tests/integration/",
    "tests/people/test_kills.py",
    "tests/routing/test_kills.py",
    "tests/work/test_crashes.py",
)
"""Files whose tests start, and often kill, several processes of relevo."""


class Needs(NamedTuple):
    """What a test shares (its own name when it shares nothing), and how much of the machine it takes."""

    group: str
    weight: int


def needs_of(nodeid: str) -> Needs:
    return Needs(group_of(nodeid), weight_of(nodeid))


def group_of(nodeid: str) -> str:
    """The name of what a test shares with others; its own when it shares nothing."""
    if shares_spark(nodeid):
        return "spark"
    return nodeid.partition("::")[0] if nodeid.startswith(_SERVED) else nodeid


def weight_of(nodeid: str) -> int:
    file = nodeid.partition("::")[0]
    if shares_spark(nodeid) or file in _JVM_FILES or (file.startswith("tests/spark/") and _says(file, _STARTS_JVM)):
        return JVM
    if _says(file, _OPENS_BROWSER):
        return BROWSER
    if nodeid.startswith(_PROCESS_FILES):
        return PROCESSES
    return DATABASE if _DATABASE_LANE.search(nodeid) else LIGHT


def shares_spark(nodeid: str) -> bool:
    """Whether a test may ask for the session: its file has one that does, or it runs a page about Spark."""
    if example := _PAGE_EXAMPLE.search(nodeid):
        return page_on_spark(ROOT / example["page"])
    return _says(nodeid.partition("::")[0], _ASKS_FOR_SPARK)


def page_on_spark(page: Path) -> bool:
    return page.is_file() and "relevo.spark" in page.read_text()


def longest_first(item: pytest.Item) -> float:
    """Sorts tests by the time they ask for: whoever needs minutes begins while the others have enough to do, so that nobody
    waits for one of them at the end."""
    asked = item.get_closest_marker("timeout")
    return 0.0 if asked is None else -float(asked.args[0])


@cache
def _says(file: str, what: re.Pattern[str]) -> bool:
    path = ROOT / file
    return path.suffix == ".py" and path.is_file() and what.search(path.read_text()) is not None
