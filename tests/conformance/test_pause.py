from relevo import Queue
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.servers.acl import AclUser
from tests.servers.server import Client, Server
from tests.support.held import WARM_UP, HeldRuns
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker


async def paused(worker: WatchedWorker, *, now: bool = True) -> None:
    """Until the worker has stopped reading and given back what it had (or, with now=False, reads again)."""
    if worker.pausing.changed.last is not now:
        await worker.pausing.changed.wait_for(lambda value: value is now, timeout=limit(20))


async def test_a_paused_queue_is_said_to_be_paused_until_it_is_resumed(queue: Queue) -> None:
    said = [await queue.is_paused()]
    for _ in range(2):
        await queue.pause()
        said.append(await queue.is_paused())
    for _ in range(2):
        await queue.resume()
        said.append(await queue.is_paused())
    assert said == [False, True, True, False, False]


async def test_a_running_worker_of_a_paused_queue_takes_nothing_until_the_queue_is_resumed(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    runs = Runs()
    async with worker_of(runs, read_block_ms=5000) as worker:
        await queue.pause()
        await paused(worker)
        await queue.add("job", 1)
        assert await Group(raw, keys).pending() == []
        assert await queue.get_job_counts("waiting", "active", "paused") == {"waiting": 1, "active": 0, "paused": 1}
        await queue.resume()
        await worker.until(done=1)
    assert runs.data == [1]


async def test_a_worker_that_starts_on_a_paused_queue_takes_nothing(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    await queue.pause()
    await queue.add_bulk([{"name": "job", "data": number} for number in range(5)])
    runs = Runs()
    async with worker_of(runs) as worker:
        await paused(worker)
        assert await Group(raw, keys).pending() == []
        assert worker.reader.batches.count == 0
    assert runs.jobs == []


async def test_a_paused_worker_finishes_what_runs_and_hands_back_what_it_had_read_ahead(
    queue: Queue, worker_of: WorkerOf
) -> None:
    runs = HeldRuns()
    async with worker_of(runs, concurrency=1) as worker:
        jobs, ahead = await runs.prefetch(queue, worker, 20)
        assert ahead
        worker.pause()
        await paused(worker)
        assert len(worker.held) == 1
        assert await queue.get_job_counts("waiting", "active") == {"waiting": 19, "active": 1}
        runs.let_go()
        await worker.until(done=WARM_UP + 1)
        assert len(runs.jobs) == 1
        worker.resume()
        await worker.until(done=WARM_UP + 20)
    assert sorted(runs.ids) == sorted(job.id for job in jobs)


async def test_what_a_paused_worker_hands_back_is_run_by_another(queue: Queue, worker_of: WorkerOf) -> None:
    runs, others = HeldRuns(), Runs()
    async with worker_of(runs, concurrency=1) as worker:
        jobs, _ = await runs.prefetch(queue, worker, 10)
        worker.pause()
        await paused(worker)
        async with worker_of(others) as other:
            await other.until(done=9)
        runs.let_go()
        await worker.until(done=WARM_UP + 1)
    assert sorted([*runs.ids, *others.ids]) == sorted(job.id for job in jobs)


async def test_a_job_that_arrives_with_the_pause_is_handed_back_and_not_run(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        # The worst moment there is: the answer of the read has come, and its jobs are not with the handlers yet.
        stop = worker.reader.batches.listen(lambda _: worker.pausing.pause())
        job = await queue.add("job", 1)
        await paused(worker)
        while worker.held:
            await worker.pausing.ticked.wait_for(timeout=limit(20))
        stop()
        assert await queue.get_job_state(job.id) == "waiting"
        assert runs.jobs == []
        worker.resume()
        await worker.until(done=1)


async def test_a_pause_of_the_worker_is_its_own(queue: Queue, worker_of: WorkerOf) -> None:
    runs, others = Runs(), Runs()
    async with worker_of(runs) as worker, worker_of(others) as other:
        worker.pause()
        await paused(worker)
        await queue.add_bulk([{"name": "job", "data": number} for number in range(10)])
        await other.until(done=10)
        assert (worker.is_paused(), other.is_paused(), await queue.is_paused()) == (True, False, False)
    assert runs.jobs == []


async def test_a_resumed_worker_of_a_paused_queue_stays_paused(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs()) as worker:
        worker.pause()
        await queue.pause()
        for _ in range(2):  # the first look may have begun before the queue was paused
            await worker.pausing.ticked.wait_for(timeout=limit(20))
        worker.resume()
        await worker.pausing.ticked.wait_for(timeout=limit(20))
        assert worker.is_paused()
        assert worker.run_queue.paused


async def test_a_worker_may_be_paused_before_it_runs(queue: Queue, worker_of: WorkerOf, server: Server) -> None:
    worker = WatchedWorker(queue.name, Runs(), redis_url=server.url)
    for _ in range(2):
        worker.pause()
    assert worker.is_paused()
    for _ in range(2):
        worker.resume()
    assert not worker.is_paused()
    worker.pause()
    async with worker:
        await queue.add("job", 1)
        await paused(worker)
        assert worker.reader.batches.count == 0
        worker.resume()
        await worker.until(done=1)


async def test_a_paused_worker_is_healthy_and_says_that_it_is_paused(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.pause()
    async with worker_of(Runs()) as worker:
        await paused(worker)
        while not worker.health().can_claim:
            await worker.pausing.ticked.wait_for(timeout=limit(20))
        health = worker.health()
        assert (health.can_claim, health.paused, health.reason) == (True, True, "paused")
        await queue.resume()
        await paused(worker, now=False)
        health = worker.health()
    assert (health.can_claim, health.paused, health.reason) == (True, False, "")


async def test_a_paused_worker_ends_at_once_and_leaves_the_group(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    await queue.pause()
    async with worker_of(Runs(), shutdown_deadline_s=30) as worker:
        await paused(worker)
    assert await Group(raw, keys).consumers() == set()


async def test_a_worker_that_may_not_ask_for_the_pause_works(queue: Queue, server: Server, queue_name: str) -> None:
    runs = Runs()
    with AclUser(server, rules=("~*", "&*", "+@all", "-exists")) as user:
        worker = WatchedWorker(queue_name, runs, redis_url=user.url, read_block_ms=100)
        async with worker:
            await queue.add("job", 1)
            await worker.until(done=1)
    assert runs.data == [1]
