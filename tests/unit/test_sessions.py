"""Tests that share a Spark session, or a server of their file, are told apart from the others."""

import pytest

from tests.sessions import group_of, longest_first, shares_spark

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
    assert group_of("tests/unit/test_sessions.py::test_a") == "tests/unit/test_sessions.py::test_a"


def test_whoever_asks_for_most_time_begins_first(request: pytest.FixtureRequest) -> None:
    usual = request.node
    assert longest_first(usual) == 0
    usual.add_marker(pytest.mark.timeout(500))
    assert longest_first(usual) == -500
