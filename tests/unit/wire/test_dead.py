"""The fields of a dead letter."""

from relevo.wire.dead import DeadLetterFields, Reason, decode_raw, encode_raw


def test_what_is_empty_is_left_out() -> None:
    letter = DeadLetterFields(b"d", "", "1-0", Reason.STALLED, "")
    assert letter.encode() == [b"d", b"d", b"source_id", b"1-0", b"reason", b"stalled"]


def test_all_fields_stand_in_the_order_of_the_wire() -> None:
    flat = DeadLetterFields(b"d", "send", "1-0", "stalled", "why", b"raw").encode()
    assert flat[::2] == [b"d", b"n", b"source_id", b"reason", b"detail", b"raw"]


def test_fields_are_read_as_they_were_written() -> None:
    letter = DeadLetterFields(b"\xff\x00", "größe", "1-0", "malformed", "wörum", b"\x90")
    flat = letter.encode()
    assert DeadLetterFields.decode(dict(zip(flat[::2], flat[1::2], strict=True))) == letter


def test_a_letter_of_any_shape_is_read() -> None:
    assert DeadLetterFields.decode({}) == DeadLetterFields(b"", "", "", "", "")
    assert DeadLetterFields.decode({b"n": b"\xff", b"x": b"y"}).name == "\ufffd"


def test_a_detail_that_is_not_utf8_costs_no_letter() -> None:
    assert DeadLetterFields(b"", "", "", "", "\ud800").encode()[-1] == b"?"


def test_the_fields_of_a_malformed_entry_are_kept_in_order() -> None:
    fields = [b"x", b"\xff", b"", b"", b"x", b"again"]
    assert decode_raw(encode_raw(fields)) == fields


def test_the_reasons_are_those_of_the_wire() -> None:
    wire = {"retries_exhausted", "unrecoverable", "stalled", "decode_failed", "malformed", "oversize_payload"}
    assert wire <= set(Reason)
