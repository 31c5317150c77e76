"""The bytes: what is written is what `msgpack` writes, what is read is what was written, and rubbish is only ever refused."""

from __future__ import annotations

import string
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from relevo.broker.capabilities import Capabilities
from relevo.engine.duties.promoter import PROMOTE
from relevo.errors import Undecodable
from relevo.wire.dead import DeadLetterFields, decode_raw, encode_raw
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import decode_payload, encode_payload
from relevo.wire.retry import Backoff, RetryDefaults, RetryOverride
from tests.servers.server import Server


def _packed(value: Any) -> bytes:
    packed = msgpack.packb(value, use_bin_type=True)
    assert isinstance(packed, bytes)
    return packed


U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
NAMES = st.text(st.characters(codec="utf-8"), max_size=64).filter(lambda name: len(name.encode()) <= 256)
IDS = st.one_of(TEXT.filter(bool), st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26))

BACKOFFS = st.builds(
    Backoff,
    kind=st.one_of(st.sampled_from(["fixed", "exponential"]), TEXT),
    delay_ms=U64,
    max_delay_ms=st.none() | U64,
    multiplier=st.none() | st.floats(allow_nan=False),
    jitter_ms=st.none() | U64,
)
RETRIES = st.builds(RetryOverride, max_attempts=st.none() | U64, backoff=st.none() | BACKOFFS)
ENVELOPES = st.builds(
    Envelope, id=IDS, payload=st.binary(max_size=600), created_at_ms=U64, attempt=U64, retry=st.none() | RETRIES
)
DATA = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False),
        TEXT,
        st.binary(max_size=40),
    ),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)

# Rubbish with a grain of sense in it: whole rubbish is refused at the first byte and tests little.
MSGPACK = DATA.map(_packed)


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.one_of(ENVELOPES.map(lambda envelope: envelope.encode()), MSGPACK)))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[draw(st.integers(0, 3)) : draw(st.integers(0, len(data)))])


RUBBISH = st.one_of(st.binary(max_size=80), _damaged())


def _as_list(retry: RetryOverride) -> list[Any]:
    backoff = retry.backoff
    if backoff is None:
        return [retry.max_attempts, None]
    slots = [backoff.kind, backoff.delay_ms, backoff.max_delay_ms, backoff.multiplier, backoff.jitter_ms]
    return [retry.max_attempts, slots]


# --- what is written ----------------------------------------------------------------------------------------------


@given(ENVELOPES)
def test_an_envelope_has_the_bytes_msgpack_writes_for_the_same_list(envelope: Envelope) -> None:
    items: list[Any] = [envelope.id, envelope.payload, envelope.created_at_ms, envelope.attempt]
    if envelope.retry is not None:
        items.append(_as_list(envelope.retry))
    assert envelope.encode() == _packed(items)


@given(ENVELOPES)
def test_an_envelope_comes_back_as_it_was(envelope: Envelope) -> None:
    assert Envelope.decode(envelope.encode()) == envelope


@given(ENVELOPES, U64)
def test_another_attempt_changes_the_attempt_and_nothing_else(envelope: Envelope, attempt: int) -> None:
    again = Envelope.decode(envelope.with_attempt(attempt).encode())
    assert again.attempt == attempt
    assert again.with_attempt(envelope.attempt) == envelope


@given(ENVELOPES)
def test_an_envelope_written_as_a_map_reads_the_same(envelope: Envelope) -> None:
    by_name: dict[str, Any] = {
        "id": envelope.id,
        "payload": envelope.payload,
        "created_at_ms": envelope.created_at_ms,
        "attempt": envelope.attempt,
        "retry": None if envelope.retry is None else _as_list(envelope.retry),
    }
    assert Envelope.decode(_packed(by_name)) == envelope


@given(ENVELOPES)
def test_a_payload_written_as_an_array_of_bytes_reads_the_same(envelope: Envelope) -> None:
    bare = Envelope(envelope.id, envelope.payload, envelope.created_at_ms, envelope.attempt)
    assert Envelope.decode(_packed([bare.id, list(bare.payload), bare.created_at_ms, bare.attempt])) == bare


@given(ENVELOPES, st.lists(st.none(), min_size=1, max_size=3))
def test_an_envelope_with_too_many_elements_is_refused(envelope: Envelope, more: list[None]) -> None:
    items = [envelope.id, envelope.payload, envelope.created_at_ms, envelope.attempt, None, *more]
    with pytest.raises(Undecodable):
        Envelope.decode(_packed(items))


@given(DATA)
def test_a_payload_comes_back_as_it_was(data: object) -> None:
    encoded = encode_payload(data, "job")
    assert encoded == _packed(data)
    assert decode_payload(encoded) == data


@given(NAMES, ENVELOPES)
def test_a_delayed_member_comes_back_as_it_was(name: str, envelope: Envelope) -> None:
    member = DelayedMember(name, envelope.encode())
    assert member.encode() == len(name.encode()).to_bytes(4, "little") + name.encode() + envelope.encode()
    assert DelayedMember.decode(member.encode()) == member


# Printable: with a NUL as its third byte a name makes a 4-byte length that a long member can hold.
PLAIN_NAMES = st.text(string.ascii_letters + string.digits + "-_.:/é", max_size=100)


@given(PLAIN_NAMES, ENVELOPES)
def test_a_member_with_the_published_one_byte_length_is_read_too(name: str, envelope: Envelope) -> None:
    member = bytes([len(name.encode())]) + name.encode() + envelope.encode()
    assert DelayedMember.decode(member) == DelayedMember(name, envelope.encode())


DEAD_LETTERS = st.builds(
    DeadLetterFields,
    d=st.binary(max_size=200),
    name=NAMES,
    source_id=TEXT,
    reason=TEXT,
    detail=TEXT,
    raw=st.binary(max_size=60),
    attempts=st.none() | st.integers(0, 999_999_999),
    traceback=TEXT,
)


@given(DEAD_LETTERS)
def test_a_dead_letter_comes_back_as_it_was(letter: DeadLetterFields) -> None:
    flat = letter.encode()
    assert DeadLetterFields.decode(dict(zip(flat[::2], flat[1::2], strict=True))) == letter


@given(st.lists(st.binary(max_size=50), max_size=12))
def test_the_fields_of_a_malformed_entry_come_back_as_they_were(fields: list[bytes]) -> None:
    assert encode_raw(fields) == _packed(fields)
    assert decode_raw(encode_raw(fields)) == fields


EXTRAS = st.dictionaries(
    st.sampled_from(["attempt", "backoff_ms", "delay_ms", "duration_us", "progress", "wait_ms"]), U64
)
WORDS = st.dictionaries(st.sampled_from(["reason", "prev", "note"]), TEXT)


def _event(event: str, job_id: str, ts: int, name: str, numbers: dict[str, int], words: dict[str, str]) -> EventFields:
    return EventFields(event, job_id, ts, name, {**numbers, **words})


EVENTS = st.builds(_event, TEXT.filter(bool), TEXT, U64, NAMES, EXTRAS, WORDS)


@given(EVENTS)
def test_an_event_comes_back_as_it_was(event: EventFields) -> None:
    assert EventFields.decode(event.encode()) == event


@given(EVENTS)
def test_an_event_has_its_fields_in_the_published_order(event: EventFields) -> None:
    keys = event.encode()[::2]
    named = [b"n"] if event.name else []
    assert keys == [b"e", b"id", b"ts", *named, *(key.encode() for key in event.extras)]


# --- what is read -------------------------------------------------------------------------------------------------


@settings(max_examples=400)
@given(RUBBISH)
@example(b"\x94\xa1\xff\xc4\x00\x01\x02")
@example(b"\x94\xa1a\xc4\x01\x00\x01\x02".replace(b"\x94", b"\xdd\xff\xff\xff\xff"))
@example(b"\x83\xa2id\x01\x90\xc0\xc1")
def test_bytes_are_an_envelope_or_undecodable(data: bytes) -> None:
    try:
        envelope = Envelope.decode(data)
    except Undecodable:
        return
    assert Envelope.decode(envelope.encode()) == envelope


@settings(max_examples=400)
@given(RUBBISH)
@example(b"\xd6\xff\xff\xff\xff\xff")
@example(b"\xc7\x0c\xff" + b"\xff" * 12)
@example(b"\x81\x80\x01")
@example(b"\x91" * 5000)
@example(b"\xa1\xff")
def test_bytes_are_data_or_undecodable(data: bytes) -> None:
    try:
        decode_payload(data)
    except Undecodable:
        return


@settings(max_examples=400)
@given(RUBBISH)
@example(b"")
@example(b"\x01\x00\x00\x00\xff")
def test_bytes_are_a_delayed_member_or_undecodable(data: bytes) -> None:
    try:
        member = DelayedMember.decode(data)
    except Undecodable:
        return
    assert data.endswith(member.envelope)
    assert len(data) - len(member.envelope) - len(member.name.encode()) in (1, 4)


@given(
    st.dictionaries(
        st.sampled_from([b"d", b"n", b"source_id", b"reason", b"detail", b"raw", b"attempts", b"x"]), st.binary()
    )
)
def test_any_fields_make_a_dead_letter(fields: dict[bytes, bytes]) -> None:
    letter = DeadLetterFields.decode(fields)
    assert letter.d == fields.get(b"d", b"")
    assert letter.raw == fields.get(b"raw", b"")
    letter.encode()


FIELD = st.one_of(st.sampled_from([b"e", b"id", b"ts", b"n", b"attempt"]), st.binary(max_size=20))


@given(st.lists(FIELD, max_size=13))
@example([b"attempt", b"9" * 5000])
@example([b"ts", b"9" * 5000])
@example([b"attempt", "\u0667".encode()])
def test_any_fields_make_an_event(fields: list[bytes]) -> None:
    EventFields.decode(fields).encode()


# --- what is computed from it -------------------------------------------------------------------------------------

ANY_BACKOFF = st.builds(
    Backoff,
    kind=TEXT | st.sampled_from(["fixed", "exponential"]),
    delay_ms=U64,
    max_delay_ms=st.none() | U64,
    multiplier=st.none() | st.floats(),
    jitter_ms=st.none() | U64,
)


@given(ANY_BACKOFF, st.integers(0, 2**64))
@example(Backoff("exponential", 1, None, 2.0), 5000)
@example(Backoff("exponential", 0, None, float("inf")), 3)
def test_a_wait_is_never_negative_and_never_above_cap_and_jitter(backoff: Backoff, retry: int) -> None:
    defaults = RetryDefaults()
    cap = defaults.max_ms if backoff.max_delay_ms is None else backoff.max_delay_ms
    jitter = defaults.jitter_ms if backoff.jitter_ms is None else backoff.jitter_ms
    assert 0 <= backoff.wait_ms(retry, defaults) <= cap + jitter


# --- what the server makes of it ----------------------------------------------------------------------------------


def _with_long_prefix(name: str, envelope: Envelope) -> bytes:
    return DelayedMember(name, envelope.encode()).encode()


def _with_short_prefix(name: str, envelope: Envelope) -> bytes:
    return bytes([len(name.encode())]) + name.encode() + envelope.encode()


MEMBERS = st.one_of(
    st.builds(_with_long_prefix, NAMES, ENVELOPES), st.builds(_with_short_prefix, PLAIN_NAMES, ENVELOPES), RUBBISH
)


class _Promoted:
    """What promote.lua made of some members: the stream, the dead letters and the events it wrote."""

    def __init__(self, server: Server, queue: str, members: list[bytes]) -> None:
        keys = QueueKeys(queue)
        call = server.call
        call("DEL", keys.stream, keys.delayed, keys.dead, keys.events)
        call("SET", keys.promoter_lock, "me", "EX", 60)
        for member in members:
            call("ZADD", keys.delayed, 1, member)
        text = PROMOTE.text(Capabilities(ack_delete=False, read_claim=False))
        names = [keys.promoter_lock, keys.delayed, keys.stream, keys.dead, keys.events]
        self.moved: int = call("EVAL", text, len(names), *names, "me", 256, 1000, 1000, 1000)[0]
        self.left: int = call("ZCARD", keys.delayed)
        self.stream: list[list[bytes]] = [fields for _, fields in call("XRANGE", keys.stream, "-", "+")]
        self.dead: list[list[bytes]] = [fields for _, fields in call("XRANGE", keys.dead, "-", "+")]
        self.events = [EventFields.decode(fields) for _, fields in call("XRANGE", keys.events, "-", "+")]


def _split(member: bytes) -> DelayedMember | None:
    """As Python reads it; None where the job can only be dead-lettered."""
    try:
        decoded = DelayedMember.decode(member)
    except Undecodable:
        return None
    return decoded if decoded.envelope else None


def _has_plain_name(member: bytes) -> bool:
    """A name that is not UTF-8 is promoted as it is: the reader dead-letters it, with all its fields."""
    try:
        DelayedMember.decode(member)
    except Undecodable as error:
        return "UTF-8" not in error.reason
    return True


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(members=st.lists(MEMBERS.filter(_has_plain_name), max_size=12, unique=True))
@example(members=[b"", b"\x00", b"\x00\x00\x00\x00", b"\x00\x94", b"\x05abc", b"\x02ab\x94", b"\x02ab\xdc"])
def test_promotion_reads_members_as_python_does(valkey: Server, queue_name: str, members: list[bytes]) -> None:
    promoted = _Promoted(valkey, queue_name, members)
    expected: list[list[bytes]] = []
    dead: list[bytes] = []
    for member in sorted(members):
        split = _split(member)
        if split is None:
            dead.append(member)
        else:
            expected.append([b"d", split.envelope, *([b"n", split.name.encode()] if split.name else [])])
    assert promoted.stream == expected
    assert [fields[1] for fields in promoted.dead] == dead
    assert (promoted.moved, promoted.left) == (len(members), 0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, envelope=ENVELOPES, longer=st.integers(0, 400))
def test_promotion_tells_the_jobs_own_id_and_forgets_its_member(
    redis7: Server, queue_name: str, name: str, envelope: Envelope, longer: int
) -> None:
    envelope.id += "x" * longer  # all three ways msgpack has to write the length of such a text
    index = QueueKeys(queue_name).member_of(envelope.id)
    redis7.call("SET", index, b"member", "EX", 60)
    promoted = _Promoted(redis7, queue_name, [DelayedMember(name, envelope.encode()).encode()])
    assert [(event.event, event.id, event.name) for event in promoted.events] == [("waiting", envelope.id, name)]
    assert redis7.call("EXISTS", index) == 0
