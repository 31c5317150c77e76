"""Events as Arrow: the fast way and the slow way give the same rows, and nothing odd is lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.pipeline.connector import event_rows
from relevo.pipeline.connector.event_rows import EventRows
from relevo.wire.events import EventFields
from tests.spark.connector.filled import arrow_schema

STREAM = "{chasqui:mail}:events"
Fields = list[bytes]


def rows_of(*entries: tuple[str, Fields], columns: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    made = EventRows(STREAM, arrow_schema("events", *columns))
    return made.batch([[entry_id.encode(), fields] for entry_id, fields in entries]).to_pylist()


def event(name: str = "active", **extras: int | str) -> Fields:
    return EventFields(name, "job-1", 1_700_000_000_000, "mail", extras).encode()


def test_an_event_becomes_typed_columns() -> None:
    (row,) = rows_of(("1700000000000-3", event("failed", attempt=2, reason="no route", duration_us=1500)))
    assert (row["queue"], row["e"], row["n"], row["id"]) == ("mail", "failed", "mail", "job-1")
    assert (row["attempt"], row["reason"], row["duration_us"]) == (2, "no route", 1500)
    assert (row["_stream"], row["_id"]) == (STREAM, "1700000000000-3")
    assert row["_ts"].timestamp() == 1_700_000_000
    assert (row["bad"], row["rest"], row["progress"]) == (None, None, None)


def test_events_of_several_shapes_keep_their_order() -> None:
    entries = [(f"1700000000000-{at}", event("active", attempt=at) if at % 3 else event("drained")) for at in range(9)]
    assert [row["_id"] for row in rows_of(*entries)] == [entry_id for entry_id, _ in entries]


def test_an_unknown_field_stands_in_the_rest() -> None:
    (row,) = rows_of(("1-0", event("active", attempt=1, worker="w-7")))
    assert (row["rest"], row["bad"], row["attempt"]) == ([("worker", "w-7")], None, 1)


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ([b"e", b"active", b"id", b"", b"ts", b"soon"], "ts is not a number"),
        ([b"e", b"active", b"id", b"a", b"ts", b"9" * 30], "ts is not a number"),
        ([b"e", b"act\xff", b"id", b"a", b"ts", b"1"], "e is not UTF-8"),
        ([b"id", b"a", b"ts", b"1"], "e is missing"),
        ([b"e", b"active", b"e", b"failed", b"id", b"a", b"ts", b"1"], "e is there twice"),
        ([b"x", b"y"], "e is missing; id is missing; ts is missing"),
    ],
)
def test_a_malformed_event_is_a_row_with_a_reason(fields: Fields, bad: str) -> None:
    good = event("active", attempt=1)
    rows = rows_of(("1-0", good), ("1-1", fields), ("1-2", good))
    assert [row["bad"] for row in rows] == [None, bad, None]
    assert [row["_id"] for row in rows] == ["1-0", "1-1", "1-2"]


def test_one_malformed_event_does_not_spoil_its_neighbours_of_the_same_shape() -> None:
    rows = rows_of(("1-0", event(attempt=1)), ("1-1", event(attempt="one")), ("1-2", event(attempt=3)))
    assert [(row["attempt"], row["rest"]) for row in rows] == [(1, None), (None, [("attempt", "one")]), (3, None)]


def test_only_the_columns_that_are_asked_for_are_made() -> None:
    (row,) = rows_of(("5-0", event(attempt=1)), columns=("e", "_ts"))
    assert set(row) == {"e", "_ts"}


texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
odd = st.dictionaries(
    st.sampled_from(["e", "id", "ts", "n", "attempt", "reason", "prev", "worker", "queue", "seq"]),
    st.one_of(
        texts.map(str.encode), st.integers(-(2**70), 2**70).map(lambda n: str(n).encode()), st.binary(max_size=5)
    ),
    min_size=1,
)


@given(st.lists(st.tuples(odd, st.integers(0, 2**53), st.integers(0, 2**64 - 1)), min_size=1, max_size=12))
def test_the_fast_way_and_the_slow_way_give_the_same_rows(entries: list[tuple[dict[str, bytes], int, int]]) -> None:
    page = [
        (f"{ms}-{seq}", [part for name, value in fields.items() for part in (name.encode(), value)])
        for fields, ms, seq in entries
    ]
    slow = EventRows(STREAM, arrow_schema("events"))
    slow._fast = lambda _entries: None  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    raw = [[entry_id.encode(), fields] for entry_id, fields in page]
    assert rows_of(*page) == slow.batch(raw).to_pylist()


def test_ids_outside_thirteen_digits_have_their_time_too() -> None:
    rows = rows_of(("5-0", event(attempt=1)), ("1700000000000-0", event(attempt=1)))
    assert [row["_ts"].timestamp() for row in rows] == [0.005, 1_700_000_000]
    assert event_rows.micros(2**64 - 1) is None
