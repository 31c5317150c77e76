"""Jobs that fail: retried, dead-lettered and replayed across the two libraries."""

import asyncio
from typing import Any

import msgpack
import pytest

from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop


def fails_first(job: Any) -> Exception | None:
    return ValueError("not yet") if job.attempt == 0 else None


async def test_a_retry_scheduled_by_one_side_is_promoted_and_run_by_the_other(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    failing = Runs(fail=fails_first)
    added = await giver.queue().add("flaky", {"x": 1}, attempts=3, backoff=1)
    async with giver.worker(failing, delayed_enabled=False):
        await until(lambda: redis86.call("ZCARD", keys.delayed) == 1)
    runs = Runs(fail=fails_first)
    async with taker.worker(runs):
        (job,) = await runs.until(1)
    assert (job.id, job.name, job.data, job.attempt) == (added.id, "flaky", {"x": 1}, 1)


async def test_the_attempts_of_both_sides_count_together(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    always = Runs(fail=lambda _: ValueError("always"))
    await giver.queue().add("doomed", 1, attempts=3, backoff=1)
    async with giver.worker(always, delayed_enabled=False):
        await until(lambda: redis86.call("ZCARD", keys.delayed) == 1)
    async with taker.worker(always):
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    assert [job.attempt for job in always.jobs] == [0, 1, 2]


@pytest.mark.parametrize("reason", ["retries_exhausted", "unrecoverable"])
async def test_a_dead_letter_of_one_side_is_peeked_by_the_other(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until, reason: str
) -> None:
    errors = {"retries_exhausted": ValueError("no"), "unrecoverable": giver.module.UnrecoverableError("never")}
    added = await giver.queue().add("doomed", {"x": 1}, attempts=1)
    (source_id, fields), *_ = redis86.call("XRANGE", keys.stream, "-", "+")
    async with giver.worker(Runs(fail=lambda _: errors[reason])):
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    (letter,) = await taker.queue().peek_dlq()
    assert (letter["reason"], letter["name"]) == (reason, "doomed")
    assert letter["source_id"] == source_id.decode()
    assert letter["payload"] == fields[1]  # the envelope, byte for byte as it was added
    assert msgpack.unpackb(letter["payload"])[0] == added.id


async def test_both_sides_peek_the_same_dead_letters(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    for name in ("a", "", "ñ"):
        await giver.queue().add(name, 1)
    redis86.call("XADD", keys.stream, "*", "x", "no job")
    redis86.call("XADD", keys.stream, "*", "d", "no envelope", "n", "named")
    async with giver.worker(Runs(fail=lambda _: giver.module.UnrecoverableError("never"))):
        await until(lambda: redis86.call("XLEN", keys.dead) == 5)
    letters = await taker.queue().peek_dlq()
    assert letters == await giver.queue().peek_dlq()
    assert len(letters) == 5


async def test_a_dead_letter_of_one_side_is_replayed_by_the_other_with_a_new_budget(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    added = await giver.queue().add("doomed", {"x": 1}, attempts=2, backoff=1)
    (_, before), *_ = redis86.call("XRANGE", keys.stream, "-", "+")
    always = Runs(fail=lambda _: ValueError("always"))
    async with giver.worker(always):
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    assert await taker.queue().replay_dlq() == 1
    (_, after), *_ = redis86.call("XRANGE", keys.stream, "-", "+")
    assert after == before  # id, creation time, override and name are kept, and the attempt is 0 again
    runs = Runs()
    async with giver.worker(runs):
        (job,) = await runs.until(1)
    assert (job.id, job.attempt) == (added.id, 0)


async def test_concurrent_replays_of_both_sides_move_each_letter_once(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    await ours.queue().add_bulk([{"name": "doomed", "data": i} for i in range(100)])
    async with ours.worker(Runs(fail=lambda _: ours.module.UnrecoverableError("never"))):
        await until(lambda: redis86.call("XLEN", keys.dead) == 100)
    queues = [side.queue() for side in (theirs, ours, theirs, ours)]
    moved = await asyncio.gather(*(queue.replay_dlq(100) for queue in queues))
    assert sum(moved) == 100
    ids = {msgpack.unpackb(fields[1])[0] for _, fields in redis86.call("XRANGE", keys.stream, "-", "+")}
    assert (redis86.call("XLEN", keys.stream), len(ids)) == (100, 100)


async def test_a_stalled_job_of_ours_is_peeked_and_replayed_by_them(
    ours: Side, theirs: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    """They do not know the reason `stalled`: it must not be in their way."""
    await ours.queue().add("killer", 1)
    redis86.call("XGROUP", "CREATE", keys.stream, "default", "0")
    for _ in range(2):  # two consumers that took it and died
        redis86.call("XREADGROUP", "GROUP", "default", "dead", "STREAMS", keys.stream, ">")
        for entry, *_ in redis86.call("XPENDING", keys.stream, "default", "-", "+", 10):
            redis86.call("XCLAIM", keys.stream, "default", "dead", 0, entry, "RETRYCOUNT", 2)
    async with ours.worker(Runs(), claim_min_idle_ms=200):
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    queue = theirs.queue()
    assert [letter["reason"] for letter in await queue.peek_dlq()] == ["stalled"]
    assert await queue.replay_dlq() == 1


async def test_a_frame_that_chasquimq_reads_is_dead_with_all_its_jobs_and_a_replay_brings_them_back(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    """Frames are ours alone: the other side must run nothing of one, and lose nothing of it."""
    wrong, right = Runs(), Runs()
    queue = ours.queue()
    jobs = await queue.add_bulk([{"name": "framed", "data": at} for at in range(20)], frame=20)
    async with theirs.worker(wrong):
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    (letter,) = await queue.peek_dlq()
    assert (wrong.jobs, letter["reason"]) == ([], "decode_failed")
    assert await queue.replay_dlq(10) == 1
    async with ours.worker(right):
        await right.until(20)
    assert sorted(right.ids) == sorted(job.id for job in jobs)
