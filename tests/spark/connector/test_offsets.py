"""Offsets: ids compared as numbers, and the round trip through Spark's JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.errors import BadArgument
from relevo.pipeline.connector.offsets import NOTHING, EntryId, Offset, last_of
from relevo.pipeline.connector.ranges import ranges

A, B = "{chasqui:a}:events", "{chasqui:b}:events"
ids = st.builds(EntryId, st.integers(0, 2**63), st.integers(0, 2**64 - 1))


@given(ids, ids)
def test_ids_are_compared_as_numbers(one: EntryId, other: EntryId) -> None:
    assert (one < other) == ((one.ms, one.seq) < (other.ms, other.seq))
    assert EntryId.parse(str(one)) == one


@given(st.dictionaries(st.text(min_size=1), ids), st.dictionaries(st.text(min_size=1), st.lists(ids, min_size=1)))
def test_an_offset_survives_the_checkpoint(found: dict[str, EntryId], cuts: dict[str, list[EntryId]]) -> None:
    found.pop("cuts", None)
    offset = Offset(found, {stream: tuple(places) for stream, places in cuts.items()})
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
    assert found == [False, False, True]


def test_a_stream_that_has_nothing_new_has_no_range() -> None:
    assert list(ranges(Offset({A: EntryId(9)}), Offset({A: EntryId(9), B: NOTHING}))) == []
