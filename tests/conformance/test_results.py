"""Results: stored while they are wanted, and pushed to whoever waits."""

import asyncio
import time
from typing import Any

import pytest

from relevo import Job, Queue, UnrecoverableError
from relevo.errors import BadArgument, JobCancelled, JobDead, NoQueue, ResultTimeout, Undecodable
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.pace import limit
from tests.patience import until
from tests.servers.process import wait_until
from tests.servers.server import Client, Server
from tests.support.runs import Runs

NEVER_POLL = 60.0
"""A poll interval longer than any timeout here: what arrives was pushed."""


async def test_what_a_handler_returns_can_be_read_by_id(queue: Queue, queue_of: QueueOf, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(lambda job: {"sum": sum(job.data)}), store_results=True) as worker:
        job = await queue.add("sum", [1, 2, 3])
        await worker.until(done=1)
    assert await queue.get_job_result(job.id) == {"sum": 6}
    assert await queue_of().get_job_result(job.id) == {"sum": 6}


@pytest.mark.parametrize("value", [0, False, "", b"", [], {}, "text", [1, {"a": b"\xff"}]], ids=repr)
async def test_every_value_but_none_is_a_result(queue: Queue, worker_of: WorkerOf, value: Any) -> None:
    async with worker_of(Runs(lambda _: value), store_results=True):
        job = await queue.add("give", 1)
        assert await job.wait_for_result(timeout=limit(20), poll_interval=NEVER_POLL) == value


async def test_a_worker_stores_nothing_unless_it_is_told_to(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    async with worker_of(Runs(lambda _: 1)) as worker:
        job = await queue.add("give", 1)
        await worker.until(done=1)
    assert await queue.get_job_result(job.id) is None
    assert await raw.exists(keys.result(job.id)) == 0


async def test_a_handler_that_returns_none_stores_nothing(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    async with worker_of(Runs(), store_results=True) as worker:
        job = await queue.add("nothing", 1)
        await worker.until(done=1)
    assert await queue.get_job_result(job.id) is None
    assert await raw.exists(keys.result(job.id)) == 0


@pytest.mark.parametrize(("ttl_ms", "longest"), [(None, 3600), (90_000, 90), (1, 1)])
async def test_a_result_is_kept_as_long_as_the_worker_says(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client, ttl_ms: int | None, longest: int
) -> None:
    async with worker_of(Runs(lambda _: 1), store_results=True, result_ttl_ms=ttl_ms) as worker:
        job = await queue.add("give", 1)
        await worker.until(done=1)
    assert max(1, longest - 10) * 1000 - 1000 < await raw.pttl(keys.result(job.id)) <= longest * 1000


async def test_results_of_many_jobs_come_in_the_order_of_their_ids(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(lambda job: job.data), store_results=True) as worker:
        jobs = await queue.add_bulk([{"name": "give", "data": number} for number in range(10)])
        await worker.until(done=10)
    ids = [job.id for job in jobs]
    assert await queue.get_job_result_bulk([*ids[5:], "nobody", *ids[:5]]) == [5, 6, 7, 8, 9, None, 0, 1, 2, 3, 4]
    assert await queue.get_job_result_bulk([]) == []


async def test_an_unknown_job_has_no_result(queue: Queue) -> None:
    assert await queue.get_job_result("nobody") is None


async def test_a_result_that_is_no_msgpack_is_said_to_be_so(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await raw.set(keys.result("odd"), b"\xc1", ex=60)
    with pytest.raises(Undecodable, match="msgpack"):
        await queue.get_job_result("odd")


# --- waiting ---------------------------------------------------------------------------------------------------------


async def test_a_wait_is_answered_by_the_jobs_end_and_not_by_polling(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(lambda job: job.data), store_results=True):
        job = await queue.add("give", 7, delay_ms=200)
        assert await job.wait_for_result(timeout=limit(20), poll_interval=NEVER_POLL) == 7


async def test_a_wait_for_a_job_that_has_ended_is_answered_at_once(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(lambda job: job.data), store_results=True) as worker:
        job = await queue.add("give", 7)
        await worker.until(done=1)
    assert await job.wait_for_result(timeout=limit(20), poll_interval=NEVER_POLL) == 7


async def test_a_worker_without_events_answers_a_wait_too(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(lambda job: job.data), store_results=True, events_enabled=False):
        job = await queue.add("give", 7, delay_ms=100)
        assert await job.wait_for_result(timeout=limit(20)) == 7


async def test_a_wait_outlives_the_retries_of_its_job(queue: Queue, worker_of: WorkerOf) -> None:
    failures = [RuntimeError("once"), RuntimeError("twice")]
    runs = Runs(lambda job: job.attempt, fail=lambda _: failures.pop() if failures else None)
    async with worker_of(runs, store_results=True):
        job = await queue.add("give", 7, backoff=1)
        assert await job.wait_for_result(timeout=limit(20), poll_interval=NEVER_POLL) == 2


async def test_a_wait_for_a_job_that_dies_says_so_and_why(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(fail=lambda _: UnrecoverableError("no")), store_results=True):
        job = await queue.add("doomed", 1, delay_ms=100)
        with pytest.raises(JobDead, match=r"unrecoverable; relevo\.errors\.UnrecoverableError: no") as dead:
            await job.wait_for_result(timeout=limit(20), poll_interval=NEVER_POLL)
    assert (dead.value.reason, dead.value.detail) == ("unrecoverable", "relevo.errors.UnrecoverableError: no")
    assert "in __call__" in dead.value.traceback
    assert dead.value.__notes__ == [dead.value.traceback], "Python prints it with the error"


@pytest.mark.parametrize("told", [True, False], ids=["events", "no events"])
async def test_a_wait_for_a_job_that_is_dead_already_says_so_at_once(
    queue: Queue, worker_of: WorkerOf, told: bool
) -> None:
    async with worker_of(Runs(fail=lambda _: KeyError("email")), events_enabled=told) as worker:
        job = await queue.add("doomed", 1, attempts=1)
        await worker.until(dead=1)
    started = time.monotonic()
    with pytest.raises(JobDead, match="KeyError: 'email'") as dead:
        await job.wait_for_result(timeout=limit(60), poll_interval=NEVER_POLL)
    assert dead.value.traceback is not None
    assert time.monotonic() - started < NEVER_POLL


async def test_a_wait_for_a_dead_job_whose_letter_is_gone_says_what_the_event_said(
    queue: Queue, worker_of: WorkerOf
) -> None:
    async with queue.events() as events, worker_of(Runs(fail=lambda _: KeyError("email"))):
        job = await queue.add("doomed", 1, attempts=1)
        async for event in events:
            if event.name == "dlq":
                break
    await queue.dead_letters.purge()
    with pytest.raises(JobDead, match="retries_exhausted"):
        await job.wait_for_result(timeout=limit(60), poll_interval=NEVER_POLL)


@pytest.mark.parametrize("store", [True, False], ids=["results stored", "results not stored"])
async def test_a_wait_for_a_job_that_ends_without_a_result_ends_with_none(
    queue: Queue, worker_of: WorkerOf, store: bool
) -> None:
    async with worker_of(Runs(lambda _: None if store else 7), store_results=store):
        job = await queue.add("give", 7, delay_ms=100)
        assert await job.wait_for_result(timeout=limit(60), poll_interval=NEVER_POLL) is None


async def test_a_wait_that_begins_after_a_job_ended_without_a_result_ends_with_none(
    queue: Queue, worker_of: WorkerOf
) -> None:
    async with queue.events() as events, worker_of(Runs()):
        jobs = await queue.add_bulk([{"name": "give", "data": n} for n in range(20)])
        ended = 0
        async for event in events:
            ended += event.name == "completed"
            if ended == len(jobs):
                break
    assert await jobs[3].wait_for_result(timeout=limit(60), poll_interval=NEVER_POLL) is None


async def test_a_job_that_was_there_and_is_gone_has_ended_even_where_no_event_tells(
    queue: Queue, worker_of: WorkerOf
) -> None:
    job = await queue.add("give", 7)
    wait = asyncio.ensure_future(job.wait_for_result(timeout=limit(60)))
    await until(lambda: bool(queue._open().results.seen))  # pyright: ignore[reportPrivateUsage]
    async with worker_of(Runs(), events_enabled=False):
        assert await wait is None


async def test_a_wait_for_a_job_that_was_cancelled_says_so(queue: Queue) -> None:
    job = await queue.add("give", 7, delay_ms=60_000)
    await queue.cancel(job.id)
    with pytest.raises(JobCancelled):
        await job.wait_for_result(timeout=limit(60), poll_interval=NEVER_POLL)


async def test_a_wait_that_is_over_says_what_may_be_the_reason(queue: Queue) -> None:
    job = await queue.add("nobody works", 1)
    started = time.monotonic()
    with pytest.raises(ResultTimeout, match="it waits or runs") as over:
        await job.wait_for_result(timeout=0.2)
    assert isinstance(over.value, TimeoutError)
    assert 0.2 <= time.monotonic() - started < limit(10)


async def test_many_waits_share_one_subscription(queue: Queue, worker_of: WorkerOf, server: Server) -> None:
    jobs = await queue.add_bulk([{"name": "give", "data": number, "delay_ms": 400} for number in range(100)])
    waits = [asyncio.ensure_future(job.wait_for_result(timeout=limit(20), poll_interval=NEVER_POLL)) for job in jobs]
    waits += [
        asyncio.ensure_future(job.wait_for_result(timeout=limit(20), poll_interval=NEVER_POLL)) for job in jobs[:10]
    ]
    async with worker_of(Runs(lambda job: job.data), store_results=True):
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        assert subscriptions(server) <= 1
        assert await asyncio.gather(*waits) == [*range(100), *range(10)]


@pytest.mark.parametrize("timeout", [0.001, 0.01, 0.3])
async def test_a_wait_that_is_over_leaves_no_subscription_behind(queue: Queue, server: Server, timeout: float) -> None:
    job = await queue.add("nobody works", 1)
    with pytest.raises(ResultTimeout):
        await job.wait_for_result(timeout=timeout)
    await gone(server)
    assert [task.get_name() for task in asyncio.all_tasks() if "events" in task.get_name()] == []


async def test_a_cancelled_wait_leaves_no_subscription_behind(queue: Queue, server: Server) -> None:
    job = await queue.add("nobody works", 1)
    wait = asyncio.ensure_future(job.wait_for_result(timeout=limit(20)))
    await asyncio.to_thread(wait_until, lambda: subscriptions(server) == 1, "the wait to subscribe")
    wait.cancel()
    await asyncio.wait([wait])
    await gone(server)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"poll_interval": 0}])
async def test_a_wait_of_no_time_is_refused(queue: Queue, options: dict[str, float]) -> None:
    job = await queue.add("give", 1)
    with pytest.raises(BadArgument, match=next(iter(options))):
        await job.wait_for_result(**options)


async def test_a_job_that_came_from_no_queue_cannot_wait() -> None:
    with pytest.raises(NoQueue, match=r"Queue\.add"):
        await Job("a", "b", None, 0, 0).wait_for_result()


def subscriptions(server: Server) -> int:
    """Connections that read events."""
    return sum(process.call("CLIENT", "LIST").count(b"name=relevo-events") for process in server.processes)


async def gone(server: Server) -> None:
    """Returns when no subscription is left; the server notices a closed connection a moment later."""
    await asyncio.to_thread(wait_until, lambda: subscriptions(server) == 0, "the subscription to end")
