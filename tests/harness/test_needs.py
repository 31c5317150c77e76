"""Tests that share a Spark session, or a server of their file, are told apart from the others."""

import pytest

from tests.harness.needs import (
    BROWSER,
    DATABASE,
    JVM,
    LIGHT,
    PROCESSES,
    group_of,
    longest_first,
    shares_spark,
    weight_of,
)

_EXAMPLE = "tests/acceptance/test_pages.py::test_every_python_example_of_a_page_runs_in_order"


@pytest.mark.parametrize(
    ("nodeid", "shares"),
    [
        ("tests/spark/connector/test_story.py::test_what_happened_becomes_rows_and_rows_become_work", True),
        ("tests/spark/connector/test_spark.py::test_filters_give_the_same_rows_pushed_down_or_not[true]", True),
        (f"{_EXAMPLE}[docs/how-to/spark.md]", True),
        (f"{_EXAMPLE}[docs/tutorial.md]", False),
        ("tests/spark/connector/test_offsets.py::test_ids_are_compared_as_numbers", False),
        ("tests/spark/connector/test_feed.py::test_rows_become_jobs_in_their_order[redis86]", False),
        ("tests/no_such_file.py::test_nothing", False),
    ],
)
def test_only_tests_that_may_ask_for_the_session_share_it(nodeid: str, shares: bool) -> None:
    assert shares_spark(nodeid) is shares


def test_tests_of_a_file_with_one_server_are_a_group() -> None:
    first, second = (f"tests/console/test_look.py::test_{name}" for name in ("light", "dark"))
    assert group_of(first) == group_of(second) == "tests/console/test_look.py"
    assert group_of("tests/harness/test_needs.py::test_a") == "tests/harness/test_needs.py::test_a"


def test_whoever_asks_for_most_time_begins_first(request: pytest.FixtureRequest) -> None:
    usual = request.node
    assert longest_first(usual) == 0
    usual.add_marker(pytest.mark.timeout(500))
    assert longest_first(usual) == -500


@pytest.mark.parametrize(
    ("nodeid", "weight"),
    [
        ("tests/spark/connector/test_story.py::test_what_happened_becomes_rows_and_rows_become_work", JVM),
        ("tests/spark/connector/test_standalone_cluster.py::test_any", JVM),
        ("tests/acceptance/test_demo.py::test_any", JVM),
        ("tests/spark/lake/test_report.py::test_every_section_and_chart_is_drawn", BROWSER),
        ("tests/console/test_look.py::test_any", BROWSER),
        ("tests/acceptance/test_up.py::test_any", PROCESSES),
        ("tests/integration/test_crashes.py::test_any[valkey]", PROCESSES),
        ("tests/audit/test_writers.py::test_any[postgres]", DATABASE),
        ("tests/work/test_settling.py::test_any[mariadb-sql]", DATABASE),
        ("tests/audit/test_writers.py::test_any[sqlite]", LIGHT),
        ("tests/spark/connector/test_offsets.py::test_ids_are_compared_as_numbers", LIGHT),
        ("tests/unit/wire/test_keys.py::test_any", LIGHT),
    ],
)
def test_a_test_weighs_what_it_starts(nodeid: str, weight: int) -> None:
    assert weight_of(nodeid) == weight
