"""The fields of an event, read and written."""

import pytest

from relevo.wire.events import EventFields


def test_fields_stand_in_the_order_of_the_wire() -> None:
    fields = EventFields("failed", "01J9", 5, "send", {"attempt": 2, "reason": "no", "duration_us": 7}).encode()
    assert fields[::2] == [b"e", b"id", b"ts", b"n", b"attempt", b"reason", b"duration_us"]


def test_an_empty_name_is_left_out_and_an_empty_id_is_not() -> None:
    assert EventFields("drained", "", 5, "", {}).encode() == [b"e", b"drained", b"id", b"", b"ts", b"5"]


def test_fields_are_read_as_they_were_written() -> None:
    event = EventFields("failed", "01J9", 5, "größe", {"attempt": 2, "reason": "nö", "duration_us": 7})
    assert EventFields.decode(event.encode()) == event


@pytest.mark.parametrize("text", ["", "-1", "1.5", "soon", "٣", "9" * 5000, "0x1"])
def test_a_number_that_is_none_stays_text(text: str) -> None:
    assert EventFields.decode([b"attempt", text.encode()]).extras == {"attempt": text}


@pytest.mark.parametrize("field", ["reason", "colour", "prev"])
def test_text_that_looks_like_a_number_stays_text(field: str) -> None:
    assert EventFields.decode([field.encode(), b"42"]).extras == {field: "42"}


@pytest.mark.parametrize("flat", [[], [b"e"], [b"\xff", b"\xfe"], [b"ts", b"soon"]])
def test_an_event_of_any_shape_is_read(flat: list[bytes]) -> None:
    assert EventFields.decode(flat)[:2] == ("", "")
