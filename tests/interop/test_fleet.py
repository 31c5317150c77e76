"""A mixed fleet: workers of both libraries in one group of one queue."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from relevo.engine.consuming.lease_keeper import Renewal
from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop


def _kept_one(renewal: Renewal) -> bool:
    return renewal.kept == 1


async def test_two_thousand_jobs_of_both_run_once_each_on_workers_of_both(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    shares: dict[str, Runs] = {f"{side}-{i}": Runs() for side in (theirs, ours) for i in range(2)}
    async with AsyncExitStack() as fleet:
        for side in (theirs, ours):
            for i in range(2):
                await fleet.enter_async_context(side.worker(shares[f"{side}-{i}"], concurrency=10, read_count=20))
        await asyncio.gather(
            *(
                side.queue().add_bulk([{"name": f"{side}", "data": i} for i in range(start, start + 250)])
                for side in (theirs, ours)
                for start in range(0, 1000, 250)
            )
        )
        await until(lambda: sum(len(share.jobs) for share in shares.values()) >= 2000, timeout=40)
        await until(lambda: redis86.call("XLEN", keys.stream) == 0)
    ran = Counter((job.name, job.data) for share in shares.values() for job in share.jobs)
    assert ran == Counter({(f"{side}", i): 1 for side in (theirs, ours) for i in range(1000)})
    assert all(share.jobs for share in shares.values())


async def test_one_promoter_leads_and_the_other_side_waits(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    runs = Runs()
    async with giver.worker(runs, consumer_id="first"):
        await until(lambda: redis86.call("GET", keys.promoter_lock) == b"first")
        async with taker.worker(runs, consumer_id="second"):
            await giver.queue().add("later", 1, delay_ms=700)
            await runs.until(1)
            # Their `waiting` may come after `completed`, so the end of the queue's work is what is waited for.
            events = await taker.events_until(lambda event: event.name == "drained")
            assert redis86.call("GET", keys.promoter_lock) == b"first"
    assert Counter(event.name for event in events)["waiting"] == 1
    assert len(runs.jobs) == 1


async def test_the_other_side_leads_as_soon_as_the_leader_has_left(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    runs = Runs()
    async with AsyncExitStack() as first:
        await first.enter_async_context(giver.worker(Runs(), consumer_id="first"))
        await until(lambda: redis86.call("GET", keys.promoter_lock) == b"first")
        async with taker.worker(runs, consumer_id="second"):
            await first.aclose()
            await until(
                lambda: redis86.call("GET", keys.promoter_lock) == b"second", timeout=4
            )  # the lock's TTL is 5 s
            await giver.queue().add("later", 1, delay_ms=10)
            await runs.until(1)
    assert redis86.call("EXISTS", keys.promoter_lock) == 0


async def test_the_other_side_leads_when_the_leader_has_died(
    side: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    redis86.call("SET", keys.promoter_lock, "dead leader")
    runs = Runs()
    async with side.worker(runs):
        await side.queue().add("later", 1, delay_ms=10)
        assert redis86.call("GET", keys.promoter_lock) == b"dead leader"
        redis86.call("PEXPIRE", keys.promoter_lock, 1)  # nobody renews it: it lapses when the test has looked
        await runs.until(1)


async def test_a_burst_of_delayed_jobs_is_promoted_once_by_a_mixed_fleet(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    runs = Runs()
    async with theirs.worker(runs), ours.worker(runs), theirs.worker(runs), ours.worker(runs):
        for side in (theirs, ours):
            jobs = [{"name": "later", "data": i, "delay_ms": 1 + i} for i in range(200)]
            await side.queue().add_bulk(jobs)
        await runs.until(400)
        await until(lambda: redis86.call("XLEN", keys.stream) == 0)
    assert set(runs.by_id.values()) == {1}
    assert len(runs.by_id) == 400


async def test_their_worker_does_not_steal_our_long_job(
    ours: Side, theirs: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    """Their readers claim whatever is idle for 300 ms; our lease is renewed, so it never is."""
    long, stolen, done = Runs(), Runs(), asyncio.Event()

    async def handle(job: Any) -> None:
        await long(job)
        await done.wait()

    async with ours.worker(handle, claim_min_idle_ms=300) as worker:
        await ours.queue().add("long", 1)
        await long.until(1)
        async with theirs.worker(stolen, claim_min_idle_ms=300):
            for _ in range(12):  # at a third of the limit each: four times as long as a job without a lease would last
                await worker.leases.renewed.wait_for(_kept_one)
            done.set()
            await until(lambda: redis86.call("XLEN", keys.stream) == 0)
    assert (len(long.jobs), stolen.jobs) == (1, [])


async def test_a_job_abandoned_by_one_side_is_run_by_the_other(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server
) -> None:
    added = await giver.queue().add("abandoned", {"x": 1})
    redis86.call("XGROUP", "CREATE", keys.stream, "default", "0", "MKSTREAM")
    redis86.call("XREADGROUP", "GROUP", "default", f"c-dead-{giver}", "STREAMS", keys.stream, ">")
    runs = Runs()
    async with taker.worker(runs, claim_min_idle_ms=300):
        (job,) = await runs.until(1)
    assert (job.id, job.data, job.attempt) == (added.id, {"x": 1}, 0)


async def test_what_we_hand_back_at_shutdown_is_run_by_them_at_once(
    ours: Side, theirs: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    first, release = Runs(), asyncio.Event()

    async def handle(job: Any) -> None:
        await first(job)
        await release.wait()

    await ours.queue().add_bulk([{"name": "queued", "data": i} for i in range(5)])
    worker = ours.module.Worker(keys.queue, handle, redis_url=redis86.url, concurrency=1, read_count=5)
    running = asyncio.ensure_future(worker.run())
    await first.until(1)
    await worker.close()
    release.set()
    await running
    runs = Runs()
    async with theirs.worker(runs):  # its idle limit is 30 s: what it gets now was given to it
        await runs.until(4)
        await until(lambda: redis86.call("XLEN", keys.stream) == 0)
    assert sorted(job.data for job in (*first.jobs, *runs.jobs)) == [0, 1, 2, 3, 4]


async def test_what_their_shutdown_swallowed_is_run_by_us_after_the_idle_limit(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    """Their abandoned read takes one more job after `run` has returned; ours finds it."""
    worker = theirs.module.Worker(keys.queue, Runs(), redis_url=redis86.url, read_block_ms=1500)
    running = asyncio.ensure_future(worker.run())
    await until(lambda: b"cmd=xreadgroup" in redis86.call("CLIENT", "LIST"))
    await worker.close()
    await running
    added = await theirs.queue().add("swallowed", 1)
    runs = Runs()
    async with ours.worker(runs, claim_min_idle_ms=300):
        (job,) = await runs.until(1)
    assert job.id == added.id
