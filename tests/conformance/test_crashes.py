"""What dead workers leave behind: counted deaths, jobs that are stopped, and consumers that are swept."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from relevo import Queue
from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.engine.duties.stalled_detector import STALLED, SWEEP_CONSUMERS, StalledDetector
from relevo.engine.events.event_log import EventLog
from relevo.engine.service.leader_loop import HOLD_LOCK, RELEASE_LOCK
from relevo.engine.settling.delivery import HeldDeliveries
from relevo.engine.settling.settle_request import SettleContext
from relevo.engine.settling.settler import Settler
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import GROUP, Group
from tests.pace import limit
from tests.patience import turn
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs

IDLE_MS = 200


async def test_deaths_are_counted_apart_from_retries(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    await group.make()
    await queue.add("job", {}, attempts=1)
    await group.die_with(1, times=2)
    runs = Runs()
    async with worker_of(runs, claim_min_idle_ms=IDLE_MS, max_stalled_attempts=3) as worker:
        await worker.until(done=1)
    assert [run.attempt for run in runs.jobs] == [0]


async def test_the_death_of_a_worker_is_told_as_an_event(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    await group.make()
    job = await queue.add("job", {})
    await group.die_with(1)
    async with queue.events(last_event_id="0") as events, worker_of(Runs(), claim_min_idle_ms=IDLE_MS):
        seen: list[str] = []
        async for event in events:
            if event.job_id == job.id:
                seen.append(event.name)
            if event.name == "completed":
                break
    assert seen == ["stalled", "active", "completed"]


async def test_the_detector_dead_letters_when_no_reader_has_room(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=IDLE_MS, concurrency=1) as worker:
        await queue.add("running", {})
        await held.until(1)  # from here on nothing is read
        killer = await queue.add("killer", {})
        found = asyncio.ensure_future(worker.stalled_detector.scanned.wait_for(lambda tick: tick.relocated == 1))
        await turn()  # it listens before there is anything to find
        await group.die_with(1, times=2)
        tick = await found
        assert tick.scanned == 1
        (letter,) = await queue.dead_letters.peek(1)
        assert (letter.reason, letter.name) == ("stalled", "killer")
        assert letter.envelope is not None
        assert letter.envelope.id == killer.id
        held.let_go()
        await worker.until(done=1)


async def test_more_killers_than_one_scan_takes_are_all_found(
    queue: Queue, worker_of: WorkerOf, group: Group, raw: Client, keys: QueueKeys
) -> None:
    await group.make()
    await queue.add_bulk([{"name": "killer", "data": at} for at in range(300)])
    await group.die_with(300, times=2)
    runs = Runs()
    async with worker_of(runs, claim_min_idle_ms=IDLE_MS, concurrency=1) as worker, asyncio.timeout(limit(20)):
        while await raw.xlen(keys.dead) < 300:
            await worker.stalled_detector.scanned.wait_for()
    assert runs.jobs == []
    assert await group.length() == 0


# --- consumers nobody runs ------------------------------------------------------------------------------------------


@asynccontextmanager
async def detector_of(server: Server, keys: QueueKeys, *, forget_after_s: float) -> AsyncGenerator[StalledDetector]:
    """A detector without a worker, which forgets early."""
    link = Link(
        Address.parse(server.url),
        keys.tag,
        purpose="sweep",
        scripts=[HOLD_LOCK, RELEASE_LOCK, STALLED, SWEEP_CONSUMERS],
    )
    log = EventLog(keys, enabled=False)
    desk = SettleContext(link, keys, GROUP, "c-none", HeldDeliveries(idle_s=1), log, result_ttl_s=1, dlq_cap=10)
    detector = StalledDetector(
        link,
        keys,
        GROUP,
        "sd-test",
        Settler(desk),
        log,
        idle_s=0.05,
        max_stalled=100,
        dlq_cap=10,
        forget_after_s=forget_after_s,
    )
    detector.start()
    try:
        yield detector
    finally:
        await detector.stop()
        await link.close()


async def test_consumers_nobody_runs_are_swept(
    queue: Queue, server: Server, keys: QueueKeys, group: Group, raw: Client
) -> None:
    """Defect 8: dead consumers stayed in the group for ever."""
    await group.make()
    await raw.xgroup_createconsumer(keys.stream, GROUP, "c-long-gone")
    async with detector_of(server, keys, forget_after_s=0.3) as detector:
        await detector.scanned.wait_for(lambda tick: tick.swept == 1)
    assert await group.consumers() == set()


async def test_a_dead_consumer_that_still_holds_jobs_is_not_swept(
    queue: Queue, server: Server, keys: QueueKeys, group: Group, raw: Client
) -> None:
    """Its jobs would go with it."""
    await group.make()
    await queue.add("job", {})
    await group.die_with(1, consumer="c-dead")
    await raw.xgroup_createconsumer(keys.stream, GROUP, "c-long-gone")
    async with detector_of(server, keys, forget_after_s=0.3) as detector:
        await detector.scanned.wait_for(lambda tick: tick.swept == 1)
        await detector.scanned.wait_for()
    assert await group.consumers() == {"c-dead"}
    assert len(await group.pending()) == 1


# Redis 7.0 notes only reads that found something, so there a live worker may be swept: see the next test.
@pytest.mark.parametrize("lane", ["redis86", "valkey", "cluster"], indirect=True)
async def test_a_live_worker_that_finds_nothing_to_do_is_not_swept(
    server: Server, keys: QueueKeys, group: Group, raw: Client, worker_of: WorkerOf
) -> None:
    async with worker_of(Runs(), stalled_detector_enabled=False) as worker:  # it asks every 100 ms
        await raw.xgroup_createconsumer(keys.stream, GROUP, "c-long-gone")
        async with detector_of(server, keys, forget_after_s=2) as detector:
            await detector.scanned.wait_for(lambda tick: tick.swept == 1)
        assert await group.consumers() == {worker.consumer_id}


async def test_a_live_worker_that_was_swept_gets_its_next_job_all_the_same(
    queue: Queue, keys: QueueKeys, raw: Client, worker_of: WorkerOf
) -> None:
    async with worker_of(Runs(), read_block_ms=2000) as worker:
        await raw.xgroup_delconsumer(keys.stream, GROUP, worker.consumer_id)
        await queue.add("job", {})
        await worker.until(done=1)


async def test_a_namesake_that_lives_keeps_its_jobs(queue: Queue, worker_of: WorkerOf) -> None:
    """Two workers by one name are a mistake, and still no job runs twice."""
    held, other = HeldRuns(), Runs()
    async with worker_of(held, claim_min_idle_ms=1000, consumer_id="twin") as first:
        await queue.add("job", {})
        await held.until(1)
        async with worker_of(other, claim_min_idle_ms=1000, consumer_id="twin") as second:
            for _ in range(4):
                await first.leases.renewed.wait_for()
            assert second.reader.batches.count == 0
            held.let_go()
            await first.until(done=1)
    assert other.jobs == []
