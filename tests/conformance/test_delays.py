"""Delayed jobs: never early, never lost, taken back or delivered but not both."""

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from relevo import Job, Queue
from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.engine.duties.promoter import PROMOTE, Promoter
from relevo.engine.service.leader_loop import HOLD_LOCK, RELEASE_LOCK
from relevo.errors import BadArgument, DelayTooLong
from relevo.wire.dead import DeadLetterFields
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.servers.server import Client, Server
from tests.support.runs import Runs

GOOD = Envelope("good", b"\x01", 1).encode()

# What is no delayed member at all: neither a 4-byte length that fits, nor a 1-byte one before an array.
MALFORMED = {
    "empty": b"",
    "one byte": b"\xff",
    "three bytes": b"\x01ab",
    "length beyond the end": b"\xff\xff\xff\xff" + GOOD,
    "name without envelope": b"\x04\x00\x00\x00send",
    "nothing after the length": b"\x00\x00\x00\x00",
    "text": b"this was never a job",
}

# Members whose envelope or name is spoilt: they are promoted, and the reader finds out.
SPOILT = {
    "envelope is no msgpack": (DelayedMember("send", b"\xc1\xc1").encode(), "decode_failed"),
    "envelope is a map of nothing": (DelayedMember("send", b"\x80").encode(), "decode_failed"),
    "name is not UTF-8": (b"\x02\x00\x00\x00\xff\xfe" + GOOD, "malformed"),
}


async def scores(raw: Client, keys: QueueKeys) -> list[int]:
    return [int(score) for _, score in await raw.zrange(keys.delayed, 0, -1, withscores=True)]


async def test_a_delayed_job_runs_and_not_before_its_time(queue: Queue, worker_of: WorkerOf) -> None:
    started: list[float] = []
    runs = Runs(lambda _: started.append(time.time()))
    async with worker_of(runs) as worker:
        job = await queue.add("later", {"n": 1}, delay_ms=300)
        await worker.until(done=1)
    assert started[0] * 1000 >= job.created_at_ms + 300
    assert [(run.id, run.name, run.data, run.attempt) for run in runs.jobs] == [(job.id, "later", {"n": 1}, 0)]


@pytest.mark.parametrize(
    "options",
    [
        {"delay_ms": 0},
        {"delay_ms": 0.5},
        {"delay": timedelta(0)},
        {"delay_ms": datetime(2001, 1, 1, tzinfo=UTC)},
    ],
    ids=str,
)
async def test_a_time_that_has_come_puts_the_job_straight_into_the_stream(
    queue: Queue, keys: QueueKeys, raw: Client, options: dict[str, Any]
) -> None:
    await queue.add("now", 1, **options)
    assert await raw.xlen(keys.stream) == 1
    assert await raw.exists(keys.delayed) == 0


async def test_a_delay_in_milliseconds_is_counted_from_the_add(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    job = await queue.add("later", 1, delay_ms=90_000)
    assert await scores(raw, keys) == [job.created_at_ms + 90_000]


async def test_a_timedelta_is_counted_from_the_add(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    job = await queue.add("later", 1, delay=timedelta(hours=2, milliseconds=7))
    assert await scores(raw, keys) == [job.created_at_ms + 7_200_007]


async def test_a_datetime_is_the_instant_it_names(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    instant = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    await queue.add("later", 1, delay_ms=instant.astimezone(timezone(timedelta(hours=-7))))
    assert await scores(raw, keys) == [int(instant.timestamp()) * 1000]


async def test_a_datetime_without_a_time_zone_is_refused(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    with pytest.raises(BadArgument, match=r"no time zone\. Use datetime\.now\(UTC\), or call \.astimezone\(\)"):
        await queue.add("later", 1, delay_ms=datetime(2001, 1, 1))  # noqa: DTZ001 - naive on purpose
    assert await raw.exists(keys.delayed, keys.stream) == 0


async def test_a_delay_over_the_limit_is_refused_and_not_shortened(
    queue_of: QueueOf, keys: QueueKeys, raw: Client
) -> None:
    queue = queue_of(max_delay_secs=60)
    await queue.add("at the limit", 1, delay_ms=60_000)
    with pytest.raises(DelayTooLong, match="max_delay_secs"):
        await queue.add("over", 1, delay_ms=61_000)
    with pytest.raises(DelayTooLong):
        await queue.add("over", 1, delay_ms=datetime.now(UTC) + timedelta(days=2))
    assert await raw.zcard(keys.delayed) == 1


async def test_a_limit_of_zero_allows_any_delay(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    await queue_of(max_delay_secs=0).add("far", 1, delay=timedelta(days=3650))
    assert await raw.zcard(keys.delayed) == 1


async def test_a_delayed_job_survives_the_worker_that_was_to_run_it(queue: Queue, worker_of: WorkerOf) -> None:
    first, second = Runs(), Runs()
    async with worker_of(first):
        job = await queue.add("later", 1, delay_ms=500)
    async with worker_of(second):
        await second.until(1)
    assert (first.ids, second.ids) == ([], [job.id])


async def test_due_jobs_are_promoted_in_the_order_of_their_times(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.add_bulk([{"name": "later", "data": wait, "delay_ms": wait} for wait in (40, 10, 30, 20)])
    runs = Runs()
    async with worker_of(runs, concurrency=1):
        await runs.until(4)
    assert runs.data == [10, 20, 30, 40]


async def test_more_due_jobs_than_one_batch_are_all_promoted(queue: Queue, worker_of: WorkerOf) -> None:
    jobs = await queue.add_bulk([{"name": "later", "data": number, "delay_ms": 50} for number in range(600)])
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=600)
    assert runs.by_id == {job.id: 1 for job in jobs}


# --- taking back -----------------------------------------------------------------------------------------------------


async def test_a_cancelled_job_is_gone_with_its_marks(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("later", 1, delay_ms=60_000, job_id="mine")
    assert await queue.cancel_delayed("mine") is True
    assert await raw.exists(keys.delayed, keys.once("mine"), keys.member_of("mine")) == 0


async def test_a_job_can_be_cancelled_by_another_process(queue: Queue, queue_of: QueueOf) -> None:
    await queue.add("later", 1, delay_ms=60_000, job_id="mine")
    assert await queue_of().cancel_delayed("mine") is True


async def test_a_second_cancel_says_that_there_is_nothing(queue: Queue) -> None:
    await queue.add("later", 1, delay_ms=60_000, job_id="mine")
    await queue.cancel_delayed("mine")
    assert await queue.cancel_delayed("mine") is False


async def test_of_many_cancels_at_once_one_succeeds(queue: Queue, queue_of: QueueOf) -> None:
    await queue.add("later", 1, delay_ms=60_000, job_id="mine")
    others = [queue, queue_of(), queue_of()]
    answers = await asyncio.gather(*(each.cancel_delayed("mine") for each in others for _ in range(5)))
    assert answers.count(True) == 1


async def test_an_unknown_id_cannot_be_cancelled(queue: Queue) -> None:
    assert await queue.cancel_delayed("never added") is False


async def test_a_job_that_was_never_delayed_cannot_be_cancelled(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("now", 1, job_id="mine")
    assert await queue.cancel_delayed("mine") is False
    assert await raw.xlen(keys.stream) == 1


async def test_a_promoted_job_cannot_be_cancelled(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs):
        await queue.add("later", 1, delay_ms=20, job_id="mine")
        await runs.until(1)
        assert await queue.cancel_delayed("mine") is False


async def test_a_job_is_cancelled_or_delivered_and_never_both(queue: Queue, worker_of: WorkerOf) -> None:
    ids = [f"own-{number}" for number in range(120)]
    runs, cancelled = Runs(), set[str]()

    async def cancel(at: float, job_id: str) -> None:
        await asyncio.sleep(at)
        if await queue.cancel_delayed(job_id):
            cancelled.add(job_id)

    async with worker_of(runs):
        # Due over 120 ms; each cancel is aimed at about the moment of its job's promotion.
        await queue.add_bulk(
            [{"name": "race", "data": at, "delay_ms": 100 + at, "job_id": job_id} for at, job_id in enumerate(ids)]
        )
        await asyncio.gather(*(cancel((100 + at) / 1000, job_id) for at, job_id in enumerate(ids)))
        await runs.until(len(ids) - len(cancelled))
        await queue.add(
            "the end", 0
        )  # behind every promoted one: had a cancelled job slipped through, it would be here
        await runs.until(len(ids) - len(cancelled) + 1)
    ran = set(runs.ids[:-1])
    assert not ran & cancelled
    assert ran | cancelled == set(ids)


# --- promotion -------------------------------------------------------------------------------------------------------


async def test_promotion_frees_the_member_and_keeps_the_id(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    runs = Runs()
    async with worker_of(runs):
        await queue.add("later", 1, delay_ms=20, job_id="mine")
        await runs.until(1)
    assert await raw.exists(keys.member_of("mine")) == 0
    assert await raw.exists(keys.once("mine")) == 1


@pytest.mark.parametrize("kind", MALFORMED)
async def test_a_malformed_member_goes_to_the_dead_letters_with_its_bytes_and_stops_nobody(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client, kind: str
) -> None:
    await raw.zadd(keys.delayed, {MALFORMED[kind]: 1})
    await queue.add("later", "good", delay_ms=1)
    runs = Runs()
    async with worker_of(runs):
        await runs.until(1)
    assert runs.data == ["good"]
    ((_, fields),) = await raw.xrange(keys.dead)
    letter = DeadLetterFields.decode(fields)
    assert (letter.d, letter.reason) == (MALFORMED[kind], "malformed")
    assert await raw.zcard(keys.delayed) == 0


@pytest.mark.parametrize("kind", SPOILT)
async def test_a_spoilt_member_ends_in_the_dead_letters_and_stops_nobody(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client, kind: str
) -> None:
    member, reason = SPOILT[kind]
    await raw.zadd(keys.delayed, {member: 1})
    await queue.add("later", "good", delay_ms=1)
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=1, dead=1)
    assert runs.data == ["good"]
    ((_, fields),) = await raw.xrange(keys.dead)
    assert fields[b"reason"] == reason.encode()
    assert fields[b"d"] == member[6 if reason == "malformed" else 8 :]


@pytest.mark.parametrize("name", ["", "a", "send", "n" * 255])
async def test_a_member_with_the_older_one_byte_length_is_promoted(
    worker_of: WorkerOf, keys: QueueKeys, raw: Client, name: str
) -> None:
    await raw.zadd(keys.delayed, {bytes([len(name)]) + name.encode() + GOOD: 1})
    runs = Runs()
    async with worker_of(runs):
        await runs.until(1)
    assert [(run.id, run.name, run.data) for run in runs.jobs] == [("good", name, 1)]


@pytest.mark.parametrize("score", ["-inf", -5, 0, 1.5])
async def test_an_odd_score_in_the_past_is_due(
    worker_of: WorkerOf, keys: QueueKeys, raw: Client, score: float | str
) -> None:
    await raw.zadd(keys.delayed, {DelayedMember("odd", GOOD).encode(): score})
    runs = Runs()
    async with worker_of(runs):
        await runs.until(1)
    assert runs.names == ["odd"]


async def test_a_full_stream_leaves_due_jobs_where_they_are(
    queue: Queue, server: Server, keys: QueueKeys, raw: Client
) -> None:
    jobs = await queue.add_bulk([{"name": "later", "data": number, "delay_ms": 1} for number in range(5)])
    scripts = (HOLD_LOCK, RELEASE_LOCK, PROMOTE)
    link = Link(Address.parse(server.url), keys.tag, purpose="control", scripts=scripts)
    promoter = Promoter(link, keys, "p-test", every=0.02, stream_cap=3)
    full = asyncio.ensure_future(promoter.promoted.wait_for(lambda tick: tick.depth == 2))
    for place, member in enumerate(await raw.zrange(keys.delayed, 0, -1)):
        await raw.zadd(keys.delayed, {member: place})  # due by any clock, in the order they had
    promoter.start()
    await full
    again = await promoter.promoted.wait_for()
    assert (again.promoted, again.depth, await raw.xlen(keys.stream)) == (0, 2, 3)
    await raw.xtrim(keys.stream, maxlen=0, approximate=False)
    await promoter.promoted.wait_for(lambda tick: tick.depth == 0)
    await promoter.stop()
    await link.close()
    left = [Envelope.decode(fields[b"d"]).id for _, fields in await raw.xrange(keys.stream)]
    assert left == [job.id for job in jobs[3:]]


async def test_two_workers_promote_a_job_once(queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client) -> None:
    runs = Runs()
    jobs: list[Job] = []
    async with worker_of(runs), worker_of(runs):
        for burst in range(5):
            jobs += await queue.add_bulk([{"name": "later", "data": burst, "delay_ms": 10}] * 20)
        await runs.until(len(jobs))
    assert runs.by_id == {job.id: 1 for job in jobs}
    assert (await raw.xlen(keys.stream), await raw.zcard(keys.delayed)) == (0, 0)
