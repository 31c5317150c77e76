"""A worker that is told to go: it stops reading, finishes, gives back for free, and leaves no trace."""

import asyncio
import time

import pytest

from relevo import Job, Queue, Worker
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.patience import forever, turn
from tests.servers.server import Client, Server
from tests.support.held import WARM_UP, HeldRuns
from tests.support.runs import Runs

LONG_IDLE_MS = 30_000
"""Whatever comes back well before this was handed back, not reclaimed."""


async def test_a_closed_worker_reads_no_more(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        await queue.add("before", {})
        await worker.until(done=1)
        worker.close()
    await queue.add("after", {})
    assert runs.names == ["before"]
    assert (await group.length(), await group.pending()) == (1, [])


async def test_running_jobs_finish_before_the_worker_ends(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    held = HeldRuns()
    async with worker_of(held) as worker:
        job = await queue.add("job", {})
        await held.until(1)
        worker.close()
        assert not worker.health().can_claim
        asyncio.get_running_loop().call_later(0.2, held.let_go)
    assert held.ended == [job.id]
    assert worker.total.done == 1
    assert await group.length() == 0


async def test_unstarted_jobs_are_handed_back_at_once_and_for_free_when_the_queue_is_empty(
    queue: Queue, worker_of: WorkerOf
) -> None:
    held, other = HeldRuns(), Runs()
    async with worker_of(held, claim_min_idle_ms=LONG_IDLE_MS, concurrency=1, read_count=4) as first:
        jobs, _ = await held.prefetch(queue, first, 3)
        while len(first.held) < 3:
            await first.reader.batches.wait_for()
        async with worker_of(other, claim_min_idle_ms=LONG_IDLE_MS) as second:
            first.close()
            began = time.monotonic()
            await other.until(2)
            assert time.monotonic() - began < limit(10)
            held.let_go()
    assert sorted([*held.ids, *other.ids]) == sorted(job.id for job in jobs)
    assert [job.attempt for job in other.jobs] == [0, 0]
    assert second.total.dead == 0


async def test_unstarted_jobs_are_handed_back_at_once_and_for_free_while_others_wait(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=LONG_IDLE_MS, concurrency=1, read_count=4) as first:
        jobs, unstarted = await held.prefetch(queue, first, 1200)  # more than it may read ahead
        asyncio.get_running_loop().call_later(0.2, held.let_go)
    pending = {entry.entry_id: entry for entry in await group.pending()}
    for delivery in unstarted:
        assert pending[delivery.entry_id].deliveries == 0
    other = Runs()
    async with worker_of(other, claim_min_idle_ms=LONG_IDLE_MS, max_stalled_attempts=1) as second:
        began = time.monotonic()
        await other.until(len(jobs) - len(held.ids))
        assert time.monotonic() - began < limit(10)
        await second.until(done=len(other.ids))
    assert sorted([*held.ids, *other.ids]) == sorted(job.id for job in jobs)
    assert {job.attempt for job in other.jobs} == {0}
    assert second.total.dead == 0


async def test_a_handed_back_job_keeps_its_count_of_crashes(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    """Handing back is free, and no amnesty: a job whose worker died once still has died once."""
    await group.make()
    await queue.add("job", {})
    ids = await group.die_with(1)
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=200, shutdown_deadline_s=0):
        await held.until(1)
    (entry,) = await group.pending()
    assert (entry.entry_id, entry.deliveries) == (ids[0], 1)


async def test_the_deadline_cancels_what_still_runs_and_hands_it_back(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held, other = HeldRuns(), Runs()
    async with worker_of(held, claim_min_idle_ms=LONG_IDLE_MS, shutdown_deadline_s=0.2):
        job = await queue.add("job", {}, attempts=1)
        await held.until(1)
    assert held.cut == [job.id]
    assert await group.length() == 1
    async with worker_of(other, claim_min_idle_ms=LONG_IDLE_MS, max_stalled_attempts=1) as second:
        await second.until(done=1)
    assert [(run.id, run.attempt) for run in other.jobs] == [(job.id, 0)]


async def test_cutting_short_does_not_wait_for_the_deadline(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    held = HeldRuns()
    began = time.monotonic()
    async with worker_of(held, shutdown_deadline_s=1000) as worker:
        job = await queue.add("job", {})
        await held.until(1)
        worker.close()
        worker.runner.cut_short()
    assert held.cut == [job.id]
    assert await group.length() == 1
    assert time.monotonic() - began < limit(30)


async def test_a_handler_that_ends_in_its_cancellation_is_settled_and_not_handed_back(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    began = asyncio.Event()

    async def tidy(job: Job) -> None:
        began.set()
        try:
            await forever()
        except asyncio.CancelledError:
            return  # it had only to clean up

    async with worker_of(tidy, shutdown_deadline_s=0.1) as worker:
        await queue.add("job", {})
        await began.wait()
    assert worker.total.done == 1
    assert await group.length() == 0


async def test_the_consumer_leaves_the_group(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    async with worker_of(Runs()) as worker:
        await queue.add("job", {})
        await worker.until(done=1)
        assert await group.consumers() == {worker.consumer_id}
    assert await group.consumers() == set()


async def test_locks_are_given_up(queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys) -> None:
    async with worker_of(Runs(), claim_min_idle_ms=500) as worker:
        while not (worker.promoter.leads and worker.stalled_detector.leads):
            await worker.promoter.promoted.wait_for()
        assert await raw.exists(keys.promoter_lock, keys.stalled_lock) == 2
    assert await raw.exists(keys.promoter_lock, keys.stalled_lock, keys.scheduler_lock) == 0


async def test_a_job_read_but_never_delivered_to_us_is_handed_back_on_leaving(
    queue: Queue, worker_of: WorkerOf, group: Group, raw: Client, keys: QueueKeys
) -> None:
    """As after an answer that came too late: the group says it is ours, and we know nothing of it."""
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=LONG_IDLE_MS, concurrency=1) as worker:
        await queue.add("running", {})
        await held.until(1)  # its only slot is taken, so it asks for nothing more
        job = await queue.add("job", {})
        assert await raw.xreadgroup("default", worker.consumer_id, {keys.stream: ">"}, count=1)
        held.let_go()
        worker.close()
    assert worker.consumer_id not in await group.consumers()
    other = Runs()
    async with worker_of(other, claim_min_idle_ms=LONG_IDLE_MS):
        await other.until(1)
    assert other.ids == [job.id]


async def test_a_worker_closed_before_it_runs_does_not_run(
    server: Server, queue_name: str, raw: Client, keys: QueueKeys
) -> None:
    worker = Worker(queue_name, Runs(), redis_url=server.url)
    worker.close()
    await worker.run()
    assert worker.is_closed
    assert await raw.exists(keys.stream) == 0


async def test_close_can_be_called_again_and_again(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        await queue.add("job", {})
        await worker.until(done=1)
        worker.close()
        worker.close()
    worker.close()
    assert not worker.is_running


async def test_a_cancelled_run_leaves_in_order(queue: Queue, server: Server, queue_name: str, group: Group) -> None:
    held = HeldRuns()
    worker = Worker(queue_name, held, redis_url=server.url, read_block_ms=100)
    running = asyncio.ensure_future(worker.run())
    job = await queue.add("job", {})
    await held.until(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert held.cut == [job.id]
    assert await group.length() == 1
    assert worker.consumer_id not in await group.consumers()
    assert not worker.is_running


async def test_a_second_run_waits_for_the_first(worker_of: WorkerOf) -> None:
    async with worker_of(Runs()) as worker:
        again = asyncio.ensure_future(worker.run())
        await turn()
        assert not again.done()
        worker.close()
        await again
    assert not worker.is_running


async def test_the_warm_up_of_these_tests_reads_ahead(queue: Queue, worker_of: WorkerOf) -> None:
    held = HeldRuns()
    async with worker_of(held, concurrency=1, read_count=4) as worker:
        jobs, unstarted = await held.prefetch(queue, worker, 5)
        assert {each.envelope.id for each in unstarted} <= {job.id for job in jobs[1:]}
        held.let_go()
        await worker.until(done=WARM_UP + 5)
