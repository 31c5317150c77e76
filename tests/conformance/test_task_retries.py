"""How often a task is tried, and how late: said once, where it is defined, and true for every way its jobs are added."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from relevo import BackoffSpec, Flow, Queue, RepeatPattern, RetryDefaults, Tasks
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.servers.server import Client

QUICK = RetryDefaults(initial_ms=1, jitter_ms=0)
# A worker that waits for a minute before it tries again: only what a task says brings a job to its end in time.
SLOW = RetryDefaults(initial_ms=60_000, max_ms=60_000, jitter_ms=0)

Way = Callable[[Queue], Awaitable[Any]]


async def by_add(queue: Queue) -> None:
    await queue.add("charge", {"amount": 5})


async def by_id(queue: Queue) -> None:
    await queue.add("charge", {"amount": 5}, job_id="invoice-7")


async def by_delay(queue: Queue) -> None:
    await queue.add("charge", {"amount": 5}, delay_ms=5)


async def by_bulk(queue: Queue) -> None:
    await queue.add_bulk([{"name": "charge", "data": {"amount": 5}}])


async def by_frame(queue: Queue) -> None:
    await queue.add_bulk([{"name": "charge", "data": {"amount": 5}}], frame=8)


async def by_lane(queue: Queue) -> None:
    await queue.add("charge", {"amount": 5}, lane="tenant-7")


async def by_flow(queue: Queue) -> None:
    flow = Flow()
    flow.add("charge", {"amount": 5})
    await queue.start_flow(flow)


async def by_schedule(queue: Queue) -> None:
    await queue.upsert_repeatable_job("charge", {"amount": 5}, repeat=RepeatPattern.every(5), limit=1)


WAYS: list[Way] = [by_add, by_id, by_delay, by_bulk, by_frame, by_lane, by_flow, by_schedule]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_task_of_one_attempt_runs_once_however_its_job_was_added(
    queue: Queue, worker_of: WorkerOf, way: Way
) -> None:
    tasks: Tasks[None] = Tasks()
    runs: list[int] = []

    @tasks.task(attempts=1)
    async def charge(amount: int) -> None:
        runs.append(amount)
        raise ValueError("declined")

    async with worker_of(tasks, retry=QUICK, scheduler_tick_ms=20) as worker:
        await way(queue)
        total = await worker.until(dead=1)
    assert (runs, total.retried) == ([5], 0)


@pytest.mark.parametrize("way", [by_add, by_frame, by_flow], ids=lambda way: way.__name__)
async def test_the_backoff_of_a_task_is_its_own_too(queue: Queue, worker_of: WorkerOf, way: Way) -> None:
    tasks: Tasks[None] = Tasks()
    began: list[float] = []

    @tasks.task(attempts=2, backoff=BackoffSpec.fixed(40, jitter_ms=0))
    async def charge(amount: int) -> None:
        began.append(time.monotonic())
        raise ValueError("declined")

    async with worker_of(tasks, retry=SLOW) as worker:
        await way(queue)
        await worker.until(dead=1)
    assert len(began) == 2
    assert began[1] - began[0] > 0.038


async def test_what_the_job_brings_wins_then_the_task_then_the_worker(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()
    runs: list[str] = []

    @tasks.task(attempts=2)
    async def strict(label: str) -> None:
        runs.append(label)
        raise ValueError("no")

    @tasks.task(backoff=1)
    async def plain(label: str) -> None:
        runs.append(label)
        raise ValueError("no")

    async with worker_of(tasks, max_attempts=4, retry=QUICK) as worker:
        await queue.add("strict", {"label": "job's"}, attempts=3)
        await queue.add("strict", {"label": "job's backoff"}, backoff=2)
        await queue.add("strict", {"label": "task's"})
        await queue.add("plain", {"label": "worker's"})
        await worker.until(dead=4)
    counts = {label: runs.count(label) for label in sorted(set(runs))}
    assert counts == {"job's": 3, "job's backoff": 2, "task's": 2, "worker's": 4}


async def test_a_job_that_comes_with_all_attempts_of_its_task_used_up_does_not_run(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    """As after a deploy that lowers `attempts` while retries wait."""
    tasks: Tasks[None] = Tasks()
    runs: list[int] = []

    @tasks.task(attempts=2)
    async def charge(amount: int) -> None:
        runs.append(amount)

    await queue.add("charge", {"amount": 5})
    ((_, fields),) = await raw.xrange(keys.stream)
    used_up = Envelope.decode(fields[b"d"]).with_attempt(2).encode()
    await raw.delete(keys.stream)
    await raw.xadd(keys.stream, {"d": used_up, "n": "charge"})
    async with worker_of(tasks) as worker:
        await worker.until(dead=1)
    (letter,) = await queue.peek_dlq()
    assert (runs, letter["reason"]) == ([], "retries_exhausted")
    assert "2 runs, 2 allowed" in letter["detail"]
