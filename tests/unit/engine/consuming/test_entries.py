"""Opening entries: what can run is a delivery, and what never can is a dead letter that says why."""

import pytest

from relevo.engine.consuming.entries import NO_JOB, open_entry, open_frame, stalled_too_often
from relevo.engine.settling.delivery import DeadLettered, Delivery
from relevo.wire.dead import Reason
from relevo.wire.envelope import Envelope
from relevo.wire.frame import encode_frame

JOB = Envelope("job-1", b"\xc0", 1).encode()
FRAME = encode_frame([(JOB, b"first"), (JOB, b"second")])


def entry(before: int = 0) -> Delivery:
    return Delivery(b"1-0", NO_JOB, "", before, 5.0)


@pytest.mark.parametrize(
    "fields", [[b"d", JOB, b"n", b"send"], [b"n", b"send", b"d", JOB], [b"d", JOB, b"x", b"", b"n", b"send"]]
)
def test_a_job_is_found_in_whatever_order_its_fields_come(fields: list[bytes]) -> None:
    opened = open_entry(b"1-0", fields, 2, 5.0, 1000)
    assert isinstance(opened, Delivery)
    assert (opened.envelope.id, opened.name, opened.before, opened.leased_at) == ("job-1", "send", 2, 5.0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([], Reason.MALFORMED),
        ([b"n", b"send"], Reason.MALFORMED),
        ([b"d", JOB, b"n", b"\xff"], Reason.MALFORMED),
        ([b"d", b"\xc1", b"n", b"send"], Reason.DECODE_FAILED),
        ([b"d", JOB + b"x" * 1000, b"n", b"send"], Reason.OVERSIZE_PAYLOAD),
    ],
)
def test_what_is_no_job_is_a_dead_letter(fields: list[bytes], reason: Reason) -> None:
    opened = open_entry(b"1-0", fields, 0, 5.0, 1000)
    assert isinstance(opened, DeadLettered)
    assert (opened.letter.reason, opened.delivery.entry_id) == (reason, b"1-0")


def test_the_jobs_of_a_frame_share_its_lease() -> None:
    opened = open_frame(held := entry(), FRAME, 1000)
    assert isinstance(opened, list)
    assert [each.name for each in opened] == ["first", "second"]
    assert all(each.frame is not None and each.frame.delivery is held for each in opened)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(FRAME[:-1], Reason.DECODE_FAILED), (FRAME + b"x" * 1000, Reason.OVERSIZE_PAYLOAD)],
)
def test_a_frame_that_cannot_be_read_is_one_dead_letter(data: bytes, reason: Reason) -> None:
    opened = open_frame(entry(), data, 1000)
    assert isinstance(opened, DeadLettered)
    assert opened.letter.reason == reason


def test_a_job_whose_workers_died_too_often_is_a_dead_letter() -> None:
    assert stalled_too_often(entry(before=1), 2) is None
    dead = stalled_too_often(entry(before=2), 2)
    assert dead is not None
    assert (dead.letter.reason, dead.letter.detail) == (Reason.STALLED, "its worker died 2 times")
