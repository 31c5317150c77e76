"""What an entry of the stream is: a job that can run becomes a delivery, what never can becomes a dead letter.

These functions only look at bytes. Whoever reads the stream holds what can run, and hands the dead letters to its settler.
"""

from __future__ import annotations

from functools import lru_cache

from relevo.broker.resp import pairs
from relevo.engine.settling.delivery import DeadLettered, Delivery
from relevo.engine.settling.frame import unpacked
from relevo.errors import Undecodable
from relevo.wire.dead import DeadLetterFields, Reason, encode_raw
from relevo.wire.envelope import Envelope
from relevo.wire.frame import decode_frame

NO_JOB = Envelope("", b"", 0)
"""For an entry that is no job, or more than one."""


def open_entry(
    entry_id: bytes, fields: list[bytes], before: int, leased_at: float, max_payload: int
) -> Delivery | DeadLettered:
    """An entry that holds one job; `before` counts the workers that died with it."""
    if len(fields) == 4 and fields[0] == b"d" and fields[2] == b"n":
        data, raw_name = fields[1], fields[3]  # the usual shape, without a dict
    else:
        values = pairs(fields)
        data, raw_name = values.get(b"d"), values.get(b"n", b"")
    letter: tuple[Reason, str, bytes, bytes]
    if data is None:
        letter = (Reason.MALFORMED, "no field `d`", b"", encode_raw(fields))
    elif len(data) > max_payload:
        letter = (Reason.OVERSIZE_PAYLOAD, f"{len(data)} bytes, the limit is {max_payload}", data, b"")
    else:
        try:
            return Delivery(entry_id, Envelope.decode(data), _name(raw_name), before, leased_at)
        except Undecodable as error:
            letter = (Reason.DECODE_FAILED, error.reason, data, b"")
        except UnicodeDecodeError:
            letter = (Reason.MALFORMED, "the name is not UTF-8", data, encode_raw(fields))
    nobody = Delivery(entry_id, NO_JOB, raw_name.decode(errors="replace"), before, leased_at)
    return _dead(nobody, *letter)


def open_frame(entry: Delivery, data: bytes, max_payload: int) -> list[Delivery] | DeadLettered:
    """An entry that holds many jobs. `entry` has the lease for all of them: it is a delivery with `NO_JOB`."""
    if len(data) > max_payload:
        reason = f"a frame of {len(data)} bytes, the limit is {max_payload}"
        return _dead(entry, Reason.OVERSIZE_PAYLOAD, reason, data)
    try:
        return unpacked(entry, decode_frame(data))
    except Undecodable as error:
        return _dead(entry, Reason.DECODE_FAILED, error.reason, data)


def stalled_too_often(delivery: Delivery, max_stalled: int) -> DeadLettered | None:
    """A job of dead workers that gets no other chance. Crashes are counted by the group, apart from retries."""
    if delivery.before < max_stalled:
        return None
    return _dead(delivery, Reason.STALLED, f"its worker died {delivery.before} times", delivery.envelope.encode())


@lru_cache(1000)  # names are few; a producer who makes them up must not fill our memory
def _name(raw: bytes) -> str:
    return raw.decode()


def _dead(delivery: Delivery, reason: Reason, detail: str, data: bytes, raw: bytes = b"") -> DeadLettered:
    made = delivery.envelope.attempt
    entry_id = delivery.entry_id.decode()
    return DeadLettered(
        delivery, DeadLetterFields(data, delivery.name, entry_id, reason, detail, raw, attempts=made), made
    )
