"""Whatever is passed in or found in Redis: a named error or a dead letter, nothing half done, and no neighbour harmed."""

import asyncio
import math
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from relevo import BackoffSpec, Queue, UnrecoverableError
from relevo.errors import (
    BadArgument,
    DelayTooLong,
    NameTooLong,
    NotEncodable,
    PayloadTooLarge,
    RelevoError,
    ServerRefused,
    WrongType,
)
from relevo.wire.dead import DeadLetterFields, decode_raw
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.servers.process import wait_until
from tests.servers.server import Client
from tests.support.runs import Runs


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


BAD_ADDS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"name": None}, WrongType),
    ({"name": b"bytes"}, WrongType),
    ({"name": 7}, WrongType),
    ({"name": "x" * 257}, NameTooLong),
    ({"name": "ü" * 129}, NameTooLong),
    ({"name": "\ud800"}, BadArgument),
    ({"data": {1, 2}}, NotEncodable),
    ({"data": object()}, NotEncodable),
    ({"data": datetime.now(UTC)}, NotEncodable),
    ({"data": Decimal("1.5")}, NotEncodable),
    ({"data": uuid.uuid4()}, NotEncodable),
    ({"data": 2**64}, NotEncodable),
    ({"data": -(2**63) - 1}, NotEncodable),
    ({"data": "\ud800"}, NotEncodable),
    ({"data": nested(2000)}, NotEncodable),
    ({"data": b"x" * 1_048_576}, PayloadTooLarge),
    ({"delay_ms": -1}, BadArgument),
    ({"delay_ms": math.nan}, BadArgument),
    ({"delay_ms": math.inf}, BadArgument),
    ({"delay_ms": "5"}, WrongType),
    ({"delay_ms": True}, WrongType),
    ({"delay_ms": 10**15}, DelayTooLong),
    ({"delay": timedelta(seconds=-1)}, BadArgument),
    ({"delay": 5}, WrongType),
    ({"delay": timedelta(days=31)}, DelayTooLong),
    ({"delay_ms": 1, "delay": timedelta(1)}, BadArgument),
    ({"attempts": -1}, BadArgument),
    ({"attempts": 2**32}, BadArgument),
    ({"attempts": True}, WrongType),
    ({"attempts": 2.0}, WrongType),
    ({"attempts": "3"}, WrongType),
    ({"backoff": -1}, BadArgument),
    ({"backoff": True}, WrongType),
    ({"backoff": "fast"}, WrongType),
    ({"backoff": {"delay_ms": 5}}, BadArgument),
    ({"backoff": {"kind": "fixed", "delay_ms": 5, "colour": "red"}}, BadArgument),
    ({"backoff": BackoffSpec("linear", 5)}, BadArgument),
    ({"backoff": BackoffSpec.exponential(5, multiplier=math.inf)}, BadArgument),
    ({"backoff": BackoffSpec.exponential(5, multiplier=math.nan)}, BadArgument),
    ({"backoff": BackoffSpec.fixed(5, jitter_ms=-1)}, BadArgument),
    ({"job_id": ""}, BadArgument),
    ({"job_id": "  "}, BadArgument),
    ({"job_id": 7}, WrongType),
    ({"job_id": "\ud800"}, BadArgument),
]


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("bad", "error"), BAD_ADDS, ids=[f"{at}-{'-'.join(bad)}" for at, (bad, _) in enumerate(BAD_ADDS)]
)
async def test_a_bad_argument_is_named_and_nothing_is_written(
    queue: Queue, keys: QueueKeys, raw: Client, bad: dict[str, Any], error: type[Exception]
) -> None:
    job: dict[str, Any] = {"name": "good", "data": 1, **bad}
    with pytest.raises(error):
        await queue.add(job.pop("name"), job.pop("data"), **job)
    with pytest.raises(error):
        await queue.add_bulk([{"name": "good", "data": 1}, {"name": "good", "data": 1, **bad}])
    assert await raw.exists(keys.stream, keys.delayed) == 0


@pytest.mark.refusal
@pytest.mark.parametrize(
    "jobs", [[1], ["text"], [None], [{}], [{"name": "a"}], [{"data": 1}], [[("name", "a")]]], ids=str
)
async def test_a_bulk_of_what_is_no_job_is_refused(queue: Queue, keys: QueueKeys, raw: Client, jobs: Any) -> None:
    with pytest.raises((BadArgument, WrongType), match=r"jobs\[0\]"):
        await queue.add_bulk(jobs)
    assert await raw.exists(keys.stream) == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_stream_len": 0}, BadArgument),
        ({"max_stream_len": -1}, BadArgument),
        ({"max_stream_len": 1.5}, WrongType),
        ({"max_stream_len": True}, WrongType),
        ({"max_delay_secs": -1}, BadArgument),
        ({"max_payload_bytes": -1}, BadArgument),
    ],
    ids=str,
)
def test_a_queue_with_a_bad_setting_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        Queue("emails", **options)


@pytest.mark.parametrize(
    ("name", "error"), [("", BadArgument), (" ", BadArgument), ("a{b}", BadArgument), (None, WrongType), (7, WrongType)]
)
def test_a_queue_with_a_bad_name_is_refused(name: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="queue name"):
        Queue(name)


async def test_the_limit_of_a_payload_is_the_queues_own(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    queue = queue_of(max_payload_bytes=100)
    await queue.add("small", b"x" * 40)
    with pytest.raises(PayloadTooLarge, match="max_payload_bytes"):
        await queue.add("large", b"x" * 100)
    assert await raw.xlen(keys.stream) == 1


# --- odd bytes in the keys -------------------------------------------------------------------------------------------

GOOD = Envelope("good", b"\x01", 1).encode()

ODD_ENTRIES: dict[str, tuple[dict[bytes, bytes], str]] = {
    "no field d": ({b"x": b"y"}, "malformed"),
    "an empty field name": ({b"": b""}, "malformed"),
    "an empty envelope": ({b"d": b""}, "decode_failed"),
    "random bytes": ({b"d": bytes(range(256))}, "decode_failed"),
    "text": ({b"d": b"hello", b"n": b"send"}, "decode_failed"),
    "half an envelope": ({b"d": GOOD[:-2], b"n": b"send"}, "decode_failed"),
    "six elements": ({b"d": b"\x96\xa1a\xc4\x01\x01\x01\x00\xc0\xc0"}, "decode_failed"),
    "a payload that is text": ({b"d": b"\x94\xa1a\xa1a\x01\x00"}, "decode_failed"),
    "a payload that is no msgpack": ({b"d": Envelope("a", b"\xc1", 1).encode()}, "decode_failed"),
    "a name that is not UTF-8": ({b"d": GOOD, b"n": b"\xff\xfe"}, "malformed"),
    "too large": ({b"d": b"x" * 2_000_000}, "oversize_payload"),
}


@pytest.mark.parametrize("kind", ODD_ENTRIES)
async def test_an_odd_entry_becomes_a_dead_letter_with_its_bytes_and_harms_no_neighbour(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client, kind: str
) -> None:
    fields, reason = ODD_ENTRIES[kind]
    await queue.add("before", 1)
    entry_id = await raw.xadd(keys.stream, fields)
    await queue.add("after", 2)
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=2, dead=1)
    assert sorted(runs.names) == ["after", "before"]
    ((_, stored),) = await raw.xrange(keys.dead)
    letter = DeadLetterFields.decode(stored)
    assert (letter.reason, letter.source_id, letter.d) == (reason, entry_id.decode(), fields.get(b"d", b""))
    if reason == "malformed":
        flat = decode_raw(letter.raw)
        assert dict(zip(flat[::2], flat[1::2], strict=True)) == fields
    assert await raw.xlen(keys.stream) == 0


# --- keys of another type --------------------------------------------------------------------------------------------


async def test_adds_to_a_key_that_is_no_stream_are_refused(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await raw.set(keys.stream, "mine")
    adds: list[dict[str, Any]] = [{}, {"job_id": "own"}]
    for options in adds:
        with pytest.raises(ServerRefused, match="WRONGTYPE"):
            await queue.add("send", 1, **options)
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await queue.add_bulk([{"name": "send", "data": 1}] * 3)
    assert await raw.exists(keys.once("own")) == 0


async def test_the_fast_path_says_too_that_the_key_is_no_stream(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("send", 1)
    await raw.delete(keys.stream)
    await raw.set(keys.stream, "mine")
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await queue.add("send", 2)
    await raw.delete(keys.stream)
    await queue.add("send", 3)
    assert await raw.xlen(keys.stream) == 1


async def test_delays_in_a_key_that_is_no_set_are_refused_and_use_no_id_up(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    await raw.set(keys.delayed, "mine")
    adds: list[dict[str, Any]] = [{}, {"job_id": "own"}]
    for options in adds:
        with pytest.raises(ServerRefused, match="WRONGTYPE"):
            await queue.add("send", 1, delay_ms=1000, **options)
    await raw.delete(keys.delayed)
    await queue.add("send", 1, delay_ms=1000, job_id="own")
    assert await raw.zcard(keys.delayed) == 1


async def test_reads_of_keys_of_another_type_are_refused(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await raw.set(keys.dead, "mine")
    await raw.set(keys.events, "mine")
    await raw.rpush(keys.result("a"), "mine")
    await raw.expire(keys.result("a"), 60)
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await queue.peek_dlq()
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await queue.replay_dlq()
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await queue.get_job_result("a")
    with pytest.raises(RelevoError, match="WRONGTYPE"):
        async with queue.events():
            pass


async def test_a_worker_outlives_a_stream_of_another_type(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        await raw.delete(keys.stream)
        await raw.set(keys.stream, "mine")
        await asyncio.to_thread(wait_until, lambda: "cannot read" in worker.health().reason, "the worker to notice")
        await raw.delete(keys.stream)
        await queue.add("send", 1)
        await runs.until(1)
    assert runs.data == [1]


async def test_events_of_another_type_keep_no_job_from_running(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    await raw.set(keys.events, "mine")
    runs = Runs()
    async with worker_of(runs) as worker:
        await queue.add("now", 1)
        await queue.add("later", 2, delay_ms=10)
        await worker.until(done=2)
    assert sorted(runs.names) == ["later", "now"]


async def test_a_failed_job_is_not_lost_when_the_delayed_key_is_no_set(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    await raw.set(keys.delayed, "mine")
    failures = [RuntimeError("once"), RuntimeError("twice")]
    runs = Runs(fail=lambda _: failures.pop() if failures else None)
    async with worker_of(runs, claim_min_idle_ms=300, max_stalled_attempts=100) as worker:
        job = await queue.add("send", 1)
        await runs.until(2)  # the first retry could not be written: the job came back by itself
        await raw.delete(keys.delayed)
        await worker.until(done=1)
    assert set(runs.ids) == {job.id}


async def test_a_dead_job_is_not_lost_when_the_dead_letters_are_no_stream(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    await raw.set(keys.dead, "mine")
    runs = Runs(fail=lambda _: UnrecoverableError("no"))
    async with worker_of(runs, claim_min_idle_ms=300, max_stalled_attempts=100) as worker:
        job = await queue.add("send", 1)
        await runs.until(2)
        await raw.delete(keys.dead)
        await worker.until(dead=1)
    (letter,) = await queue.peek_dlq()
    assert Envelope.decode(letter["payload"]).id == job.id


async def test_a_malformed_member_waits_while_the_dead_letters_are_no_stream(
    worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    await raw.set(keys.dead, "mine")
    await raw.zadd(keys.delayed, {b"no member": 1, DelayedMember("good", GOOD).encode(): 2})
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.promoter.failed.wait_for()
        await raw.delete(keys.dead)
        await runs.until(1)
    ((_, fields),) = await raw.xrange(keys.dead)
    assert fields[b"d"] == b"no member"
