"""Offsets: ids compared as numbers, and the round trip through Spark's JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.errors import BadArgument
from relevo.pipeline.connector.offsets import NOTHING, EntryId, Offset, last_of
from relevo.pipeline.connector.ranges import ranges, tasks

A, B = "{chasqui:a}:events", "{chasqui:b}:events"
ids = st.builds(EntryId, st.integers(0, 2**63), st.integers(0, 2**64 - 1))


@given(ids, ids)
def test_ids_are_compared_as_numbers(one: EntryId, other: EntryId) -> None:
    assert (one < other) == ((one.ms, one.seq) < (other.ms, other.seq))
    assert EntryId.parse(str(one)) == one


streams = st.text().map(lambda name: f"{{{name}")  # as the key of every queue begins
numbers = st.integers(0, 2**53)


@given(
    st.builds(
        Offset,
        st.dictionaries(streams, ids),
        st.dictionaries(streams, st.lists(ids, min_size=1).map(tuple)),
        source=st.text(),
        witnesses=st.dictionaries(streams, ids),
        rows=st.dictionaries(streams, numbers),
        added=st.dictionaries(streams, numbers),
        guessed=st.frozensets(streams),
        task_rows=numbers,
    )
)
def test_an_offset_survives_the_checkpoint(offset: Offset) -> None:
    assert Offset.parse(json.loads(json.dumps(offset.json()))) == offset


@given(ids)
def test_the_id_before_is_the_greatest_below(at: EntryId) -> None:
    assert at.before() < at or at == NOTHING


@pytest.mark.parametrize("text", ["", "x", "1-x", "-1", "1-2-3", "1" * 30, "\u0661-0"])
def test_what_is_no_id_is_named(text: str) -> None:
    with pytest.raises(BadArgument, match="not an entry id"):
        EntryId.parse(text)


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', '{"cuts": 3}'])
def test_what_is_no_offset_is_named(text: str) -> None:
    with pytest.raises(BadArgument):
        Offset.parse(text)


def test_a_batch_is_cut_where_its_end_says() -> None:
    end = Offset({A: EntryId(9), B: EntryId(3)}, {A: (EntryId(1), EntryId(5), EntryId(20))})
    found = [(part.stream, str(part.start), str(part.end)) for part in ranges(Offset({A: EntryId(2)}), end)]
    assert found == [(A, "2-0", "5-0"), (A, "5-0", "9-0"), (B, "0-0", "3-0")]


def test_only_an_entry_can_be_a_witness() -> None:
    starts = [NOTHING, last_of(7), EntryId(7, 3)]
    found = [next(ranges(Offset({A: start}), Offset({A: EntryId(9)}))).witness for start in starts]
    assert found == [None, None, EntryId(7, 3)]


def test_a_range_that_begins_at_a_mere_place_has_the_witness_its_plan_found() -> None:
    end = Offset({A: EntryId(9)}, {A: (EntryId(5),)}, witnesses={A: EntryId(2)})
    assert [part.witness for part in ranges(Offset({}), end)] == [EntryId(2), EntryId(5)]


def test_small_streams_share_tasks_and_large_ones_do_not() -> None:
    names = [f"{{{letter}}}" for letter in "abcdef"]
    rows = dict(zip(names, (4, 4, 30, 4, 4, 4), strict=True))
    end = Offset(dict.fromkeys(names, EntryId(9)), {names[2]: (EntryId(3), EntryId(6))}, rows=rows, task_rows=10)
    found = [[part.stream for part in parts] for parts in tasks(ranges(Offset({}), end), end)]
    assert sorted(found) == sorted([names[:2], *[[names[2]]] * 3, names[3:5], names[5:]])


def test_a_stream_that_has_nothing_new_has_no_range() -> None:
    assert list(ranges(Offset({A: EntryId(9)}), Offset({A: EntryId(9), B: NOTHING}))) == []
