"""A row of the outbox says what its events share once, and gives each of them back as it was told."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.work.store.outbox import EVENTS, OutboxRow, PackedEvents, WorkEvent, decode, encode, encode_each

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_VALUES = st.one_of(st.integers(0, 2**53), _TEXTS)


@st.composite
def packed(draw: st.DrawFn) -> tuple[PackedEvents, list[WorkEvent]]:
    """Packed events, and what they were made of."""
    event, queue_id = draw(st.sampled_from(EVENTS)), draw(st.integers(1, 3))
    count = draw(st.integers(1, 4))
    ids = draw(st.lists(_TEXTS, min_size=count, max_size=count))
    types, correlations = ([draw(_TEXTS) for _ in ids] for _ in range(2))
    if draw(st.booleans()):
        correlations = ids
    columns = {name: [draw(_VALUES) for _ in ids] for name in draw(st.lists(_TEXTS, max_size=3, unique=True))}
    alone = [
        WorkEvent(event, queue_id, *told, {name: values[at] for name, values in columns.items()} or None)
        for at, told in enumerate(zip(ids, [5] * count, types, correlations, strict=True))
    ]
    return PackedEvents.of(event, queue_id, 5, ids, types, correlations, columns), alone  # pyright: ignore[reportArgumentType]


@given(st.lists(packed(), max_size=4))
def test_a_row_gives_each_event_back_as_it_was_told(told: list[tuple[PackedEvents, list[WorkEvent]]]) -> None:
    every = [event for _, alone in told for event in alone]
    text = encode([each for each, _ in told])
    assert decode(text) == every
    assert decode(encode_each(every)) == every


@given(st.lists(packed(), max_size=4))
def test_what_is_given_to_the_stream_of_a_queue_has_its_places_in_the_whole_row(
    told: list[tuple[PackedEvents, list[WorkEvent]]],
) -> None:
    row = OutboxRow(3, 5, encode([each for each, _ in told]), copied=False)
    assert row.count == len(row.events)
    for queue_id in (1, 2, 3):
        given = msgspec.json.decode(row.packed_of(queue_id), type=list[PackedEvents])
        places = [at for each in given for at in range(each.place, each.place + each.count)]
        assert [row.events[at] for at in places] == [event for event in row.events if event.queue_id == queue_id]


def test_a_thousand_plain_messages_are_said_in_their_ids() -> None:
    ids = [f"01J9ZZZZZZZZZZZZZZZZZZ{n:04}" for n in range(1_000)]
    text = encode([PackedEvents.of("published", 7, 1_700_000_000_000, ids, ["invoice"] * 1_000, list(ids))])
    assert len(text) < 1_000 * len('"",') + sum(map(len, ids)) + 100


def test_a_row_of_a_later_version_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\[0\]"):
        decode("[2,[]]")
