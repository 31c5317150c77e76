"""A job is its worker's for as long as that worker lives, however long the handler takes; and no longer."""

import asyncio
import threading
import time

from relevo import Job, Queue, Worker
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.conformance.held import WARM_UP, HeldRuns
from tests.conformance.runs import Runs
from tests.servers.server import Client, Server

IDLE_MS = 400
LONG_S = 3 * IDLE_MS / 1000


async def test_a_long_handler_is_not_taken_over_by_a_second_worker(queue: Queue, worker_of: WorkerOf) -> None:
    held, other = HeldRuns(), Runs()
    idle_ms = 1000
    async with worker_of(held, claim_min_idle_ms=idle_ms) as worker:
        await queue.add("report", {})
        await held.until(1)
        async with worker_of(other, claim_min_idle_ms=idle_ms) as second:
            since = time.monotonic()
            # Long enough for the second to have asked for abandoned jobs after the idle limit, again and again.
            while time.monotonic() - since < 2 * idle_ms / 1000:
                await second.stalled_detector.scanned.wait_for() if second.stalled_detector.lock.held else (
                    await worker.stalled_detector.scanned.wait_for()
                )
            held.let_go()
            await worker.until(done=1)
    assert other.jobs == []
    assert len(held.jobs) == 1


async def test_a_handler_that_blocks_the_loop_longer_than_the_idle_limit_runs_once(
    queue: Queue, worker_of: WorkerOf, server: Server, queue_name: str, plain_transport: bool
) -> None:
    """The blocked worker has a loop and a thread of its own, so that a second one can look for abandoned jobs."""
    idle_ms, began, runs = 1000, threading.Event(), list[str]()

    async def block(job: Job) -> None:
        runs.append(job.id)
        began.set()
        time.sleep(2 * idle_ms / 1000)  # noqa: ASYNC251 - the subject
        worker.close()

    worker = Worker(
        queue_name,
        block,
        redis_url=server.url,
        plain_transport=plain_transport,
        claim_min_idle_ms=idle_ms,
        concurrency=1,
    )
    blocked = asyncio.ensure_future(asyncio.to_thread(asyncio.run, worker.run()))
    job = await queue.add("report", {})
    assert await asyncio.to_thread(began.wait, 20)
    other = Runs()
    async with worker_of(other, claim_min_idle_ms=idle_ms):
        await blocked
    assert runs == [job.id]
    assert other.jobs == []


async def test_prefetched_jobs_that_have_not_started_are_renewed_too(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=IDLE_MS, concurrency=1, read_count=4) as worker:
        _, unstarted = await held.prefetch(queue, worker, 6)
        since = time.monotonic()
        while time.monotonic() - since < LONG_S:
            await worker.leases.renewed.wait_for()
        pending = {each.entry_id: each for each in await group.pending()}
        for delivery in unstarted:
            entry = pending[delivery.entry_id]
            assert (entry.consumer, entry.deliveries) == (worker.consumer_id, 1)
            assert entry.idle_ms < IDLE_MS
        held.let_go()
        await worker.until(done=WARM_UP + 6)
    assert len(held.jobs) == 6


async def test_renewal_does_not_count_as_a_delivery(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=IDLE_MS) as worker:
        await queue.add("report", {})
        await held.until(1)
        for _ in range(4):
            await worker.leases.renewed.wait_for(lambda renewal: renewal.kept == 1)
        (entry,) = await group.pending()
        held.let_go()
        await worker.until(done=1)
    assert (entry.deliveries, entry.consumer) == (1, worker.consumer_id)
    assert entry.idle_ms < IDLE_MS


async def test_a_dead_workers_jobs_come_back_within_about_the_idle_limit(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    await group.make()
    jobs = await queue.add_bulk([{"name": "job", "data": at} for at in range(3)])
    await group.die_with(3)
    died = time.monotonic()
    runs = Runs()
    async with worker_of(runs, claim_min_idle_ms=IDLE_MS) as worker:
        await worker.until(done=3)
        waited = time.monotonic() - died
    assert sorted(runs.ids) == sorted(job.id for job in jobs)
    assert waited >= IDLE_MS / 1000 - 0.05
    assert waited < 5


async def test_more_abandoned_jobs_than_one_read_takes_all_come_back(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    await group.make()
    jobs = await queue.add_bulk([{"name": "job", "data": at} for at in range(120)])
    await group.die_with(120)
    runs = Runs()
    async with worker_of(runs, claim_min_idle_ms=200, read_count=7) as worker:
        await worker.until(done=120)
    assert sorted(runs.ids) == sorted(job.id for job in jobs)


async def test_a_lease_that_was_lost_is_not_stolen_back(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=IDLE_MS, stalled_detector_enabled=False) as worker:
        await queue.add("report", {})
        await held.until(1)
        (delivery,) = worker.holdings.values()
        await group.take_over("c-other", [delivery.entry_id])
        await worker.leases.renewed.wait_for(lambda renewal: renewal.lost == 1)
        (entry,) = await group.pending()
        assert entry.consumer == "c-other"
        assert delivery.lost
        held.let_go()
        await worker.until(lost=1)


async def test_the_settle_of_a_worker_that_lost_its_job_writes_nothing(
    queue: Queue, worker_of: WorkerOf, group: Group, raw: Client, keys: QueueKeys
) -> None:
    answers = {"ok": None, "again": RuntimeError("again"), "never": RuntimeError("never")}
    gate = asyncio.Event()
    began = Runs()

    async def handler(job: Job) -> str:
        await began(job)
        await gate.wait()
        if error := answers[job.name]:
            raise error
        return "an answer"

    # The idle limit is long: the other owner keeps its jobs, and ours are made doubtful by hand.
    async with worker_of(handler, store_results=True) as worker:
        jobs = [
            await queue.add("ok", {}),
            await queue.add("again", {}),
            await queue.add("never", {}, attempts=1),
        ]
        await began.until(3)
        for delivery in worker.holdings.values():
            delivery.leased_at -= worker.holdings.idle_s
        await group.take_over("c-other", list(worker.holdings))
        gate.set()
        total = await worker.until(lost=3)
        assert (total.done, total.retried, total.dead) == (0, 0, 0)
        assert [entry.consumer for entry in await group.pending()] == ["c-other"] * 3
        assert await raw.exists(keys.result(jobs[0].id)) == 0
        assert await raw.zcard(keys.delayed) == 0
        assert await raw.xlen(keys.dead) == 0


async def test_a_job_taken_over_before_it_started_here_is_not_run(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=10_000, concurrency=1, read_count=4) as worker:
        jobs, unstarted = await held.prefetch(queue, worker, 3)
        taken = unstarted[-1]
        await group.take_over("c-other", [taken.entry_id])
        taken.lost = True  # what the lease keeper finds out in its next round
        held.let_go()
        await worker.until(done=WARM_UP + 2)
        assert taken.entry_id not in worker.holdings
        (entry,) = await group.pending()
    assert entry.consumer == "c-other"
    assert sorted(held.ids) == sorted(job.id for job in jobs if job.id != taken.envelope.id)
