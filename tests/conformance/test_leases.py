"""A job is its worker's for as long as that worker lives, however long the handler takes; and no longer."""

import asyncio
import threading
import time

from relevo import Job, Queue, Worker
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.servers.server import Server
from tests.support.held import WARM_UP, HeldRuns
from tests.support.runs import Runs
from tests.support.watched import kept_idle_ms

IDLE_MS = 400
LONG_S = 3 * IDLE_MS / 1000


async def test_a_handler_that_blocks_the_loop_longer_than_the_idle_limit_runs_once(
    queue: Queue, worker_of: WorkerOf, server: Server, queue_name: str
) -> None:
    """The blocked worker has a loop and a thread of its own, so that a second one can look for abandoned jobs."""
    idle_ms, began, go_on, runs = kept_idle_ms(), threading.Event(), threading.Event(), list[str]()

    async def block(job: Job) -> None:
        runs.append(job.id)
        began.set()
        go_on.wait(limit(60))
        worker.close()

    worker = Worker(
        queue_name,
        block,
        redis_url=server.url,
        claim_min_idle_ms=idle_ms,
        concurrency=1,
    )
    blocked = asyncio.ensure_future(asyncio.to_thread(asyncio.run, worker.run()))
    job = await queue.add("report", {})
    assert await asyncio.to_thread(began.wait, 20)
    other = Runs()
    async with worker_of(other, claim_min_idle_ms=idle_ms) as looking:
        await looking.outlast_the_idle_limit()
        go_on.set()
        await blocked
    assert runs == [job.id]
    assert other.jobs == []


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
    assert waited < limit(5)


async def test_a_lease_that_was_lost_is_not_stolen_back(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=IDLE_MS, stalled_detector_enabled=False) as worker:
        await queue.add("report", {})
        await held.until(1)
        (delivery,) = worker.held.values()
        await group.take_over("c-other", [delivery.entry_id])
        await worker.leases.renewed.wait_for(lambda renewal: renewal.lost == 1)
        (entry,) = await group.pending()
        assert entry.consumer == "c-other"
        assert delivery.lost
        held.let_go()
        await worker.until(lost=1)


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
        assert taken.entry_id not in worker.held
        (entry,) = await group.pending()
    assert entry.consumer == "c-other"
    assert sorted(held.ids) == sorted(job.id for job in jobs if job.id != taken.envelope.id)
