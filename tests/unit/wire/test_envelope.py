"""The envelope: its exact bytes, and every form that must still be read."""

from typing import Any

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import pytest

from relevo.errors import Undecodable
from relevo.wire.envelope import Envelope
from relevo.wire.retry import Backoff, RetryOverride

JOB = Envelope("01J9", b"\xc0", 1_700_000_000_000, 2)


def packed(value: object) -> bytes:
    return msgpack.packb(value, use_bin_type=True)


def test_without_a_retry_it_has_four_elements() -> None:
    assert JOB.encode() == packed(["01J9", b"\xc0", 1_700_000_000_000, 2])


def test_a_retry_is_a_fifth_element_with_all_its_slots() -> None:
    job = Envelope("a", b"", 1, 0, RetryOverride(None, Backoff("fixed", 5)))
    assert job.encode() == packed(["a", b"", 1, 0, [None, ["fixed", 5, None, None, None]]])


READ: list[tuple[Any, Envelope]] = [
    (["a", b"p", 1], Envelope("a", b"p", 1, 0)),
    (["a", b"p", 1, 2], Envelope("a", b"p", 1, 2)),
    (["a", b"p", 1, 2, None], Envelope("a", b"p", 1, 2)),
    (["a", b"p", 1, 2, [3, None]], Envelope("a", b"p", 1, 2, RetryOverride(3))),
    (["a", [112, 255], 1, 2], Envelope("a", b"p\xff", 1, 2)),
    (["a", [], 1, 2], Envelope("a", b"", 1, 2)),
    ({"id": "a", "payload": b"p", "created_at_ms": 1, "attempt": 2}, Envelope("a", b"p", 1, 2)),
    ({"id": "a", "payload": [112], "created_at_ms": 1}, Envelope("a", b"p", 1, 0)),
    ({"id": "a", "payload": b"p", "created_at_ms": 1, "colour": 7}, Envelope("a", b"p", 1, 0)),
    (
        ["a", b"", 1, 0, [9, ["linear", 5, None, 1.5, 0]]],
        Envelope("a", b"", 1, 0, RetryOverride(9, Backoff("linear", 5, None, 1.5, 0))),
    ),
]


@pytest.mark.parametrize(("value", "job"), READ, ids=str)
def test_every_form_of_the_wire_is_read(value: Any, job: Envelope) -> None:
    assert Envelope.decode(packed(value)) == job


OF_ANOTHER_LENGTH: list[Any] = [[], ["a"], ["a", b"p"], ["a", b"p", 1, 2, None, None]]
NO_PAYLOADS: list[Any] = ["text", {}, 7, None, [256], ["x"]]
NO_BYTES: list[Any] = [["a", payload, 1, 2] for payload in NO_PAYLOADS]
NO_ID: list[Any] = [[7, b"p", 1, 2], [None, b"p", 1, 2]]
NO_NUMBERS: list[Any] = [["a", b"p", -1, 2], ["a", b"p", 1, -2], ["a", b"p", "1", 2], ["a", b"p", 1.5, 2]]
NO_RETRY: list[Any] = [["a", b"p", 1, 2, "x"]]
NO_LIST: list[Any] = [{}, {"id": "a"}, "text", b"bytes", 7, None, True, 1.5]


@pytest.mark.parametrize("value", [*OF_ANOTHER_LENGTH, *NO_BYTES, *NO_ID, *NO_NUMBERS, *NO_RETRY, *NO_LIST], ids=repr)
def test_what_is_no_envelope_is_refused(value: Any) -> None:
    with pytest.raises(Undecodable, match="job envelope"):
        Envelope.decode(packed(value))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x94", JOB.encode()[:-1], b"\x94\xa1\xff\xc4\x00\x01\x00"], ids=repr)
def test_bytes_that_are_no_msgpack_are_refused(data: bytes) -> None:
    with pytest.raises(Undecodable, match="job envelope"):
        Envelope.decode(data)


def test_another_attempt_changes_nothing_else() -> None:
    job = Envelope("a", b"p", 1, 2, RetryOverride(3))
    assert job.with_attempt(0) == Envelope("a", b"p", 1, 0, RetryOverride(3))
