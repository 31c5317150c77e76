"""Failed jobs: tried again as often and as late as asked for, and dead-lettered with all they had when that is over."""

import asyncio
import itertools
import time

import pytest

from relevo import BackoffSpec, Job, Queue, RetryDefaults, UnrecoverableError
from relevo.engine.settling.tracebacks import type_name
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.servers.server import Client
from tests.support.runs import Runs

QUICK = RetryDefaults(initial_ms=1, jitter_ms=0)


class Overdrawn(UnrecoverableError):
    pass


def always(job: Job) -> Exception:
    return RuntimeError(f"no luck with {job.name}")


async def test_a_handler_sees_its_attempts_from_zero_on(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(fail=lambda job: RuntimeError("again") if job.attempt < 2 else None)
    async with worker_of(runs, retry=QUICK) as worker:
        job = await queue.add("job", {"n": 1})
        total = await worker.until(done=1)
    assert [(run.id, run.attempt, run.data, run.created_at_ms) for run in runs.jobs] == [
        (job.id, attempt, {"n": 1}, job.created_at_ms) for attempt in range(3)
    ]
    assert (total.retried, total.dead) == (2, 0)


async def test_a_failed_job_waits_at_least_its_backoff_which_doubles(queue: Queue, worker_of: WorkerOf) -> None:
    began: list[float] = []

    async def fail(job: Job) -> None:
        began.append(time.monotonic())
        raise RuntimeError("again")

    async with worker_of(fail, max_attempts=3, retry=RetryDefaults(initial_ms=100, jitter_ms=0)) as worker:
        await queue.add("job", {})
        await worker.until(dead=1)
    first, second = began[1] - began[0], began[2] - began[1]
    assert first > 0.095
    assert second > 0.195


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (BackoffSpec.fixed(120), [0.12, 0.12]),
        (BackoffSpec.exponential(60, multiplier=3.0), [0.06, 0.18]),
        (80, [0.08, 0.08]),
    ],
    ids=["fixed", "exponential", "milliseconds"],
)
async def test_a_job_brings_its_own_backoff(
    backoff: BackoffSpec | int, waits: list[float], queue: Queue, worker_of: WorkerOf
) -> None:
    began: list[float] = []

    async def fail(job: Job) -> None:
        began.append(time.monotonic())
        raise RuntimeError("again")

    # The worker's own settings would make it wait for a minute: only the job's can bring it to its end in time.
    slow = RetryDefaults(initial_ms=60_000, max_ms=60_000, jitter_ms=0)
    async with worker_of(fail, retry=slow) as worker:
        await queue.add("job", {}, attempts=3, backoff=backoff)
        await worker.until(dead=1)
    gaps = [after - before for before, after in itertools.pairwise(began)]
    assert len(gaps) == 2
    assert all(gap > wait - 0.005 for gap, wait in zip(gaps, waits, strict=True))


@pytest.mark.parametrize(("attempts", "runs_wanted"), [(1, 1), (2, 2), (5, 5)])
async def test_a_job_brings_its_own_number_of_attempts(
    attempts: int, runs_wanted: int, queue: Queue, worker_of: WorkerOf
) -> None:
    runs = Runs(fail=always)
    async with worker_of(runs, max_attempts=3, retry=QUICK) as worker:
        await queue.add("job", {}, attempts=attempts)
        await worker.until(dead=1)
    assert len(runs.jobs) == runs_wanted


async def test_a_worker_may_allow_one_attempt(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(fail=always)
    async with worker_of(runs, max_attempts=1, retry=QUICK) as worker:
        await queue.add("job", {})
        await worker.until(dead=1)
        (letter,) = await queue.peek_dlq()
    assert len(runs.jobs) == 1
    assert letter["reason"] == "retries_exhausted"


async def test_a_dead_letter_says_what_was_raised_last(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(fail=always), max_attempts=2, retry=QUICK) as worker:
        job = await queue.add("payment", {"n": 1})
        await worker.until(dead=1)
        (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["name"], letter["detail"]) == (
        "retries_exhausted",
        "payment",
        "RuntimeError: no luck with payment",
    )
    envelope = Envelope.decode(letter["payload"])
    assert (envelope.id, envelope.attempt) == (job.id, 1)


async def test_a_job_whose_attempts_are_used_up_on_arrival_does_not_run(
    worker_of: WorkerOf, queue: Queue, group: Group
) -> None:
    await group.make()
    await group.put("used-up", attempt=3)
    runs = Runs()
    async with worker_of(runs, max_attempts=3) as worker:
        await worker.until(dead=1)
        (letter,) = await queue.peek_dlq()
    assert runs.jobs == []
    assert (letter["reason"], letter["detail"]) == ("retries_exhausted", "3 runs, 3 allowed")


@pytest.mark.parametrize("error", [UnrecoverableError("closed"), Overdrawn("closed")], ids=["itself", "a subclass"])
async def test_an_unrecoverable_error_dead_letters_at_once(error: Exception, queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(fail=lambda _: error)
    async with worker_of(runs, retry=QUICK) as worker:
        await queue.add("job", {}, attempts=10)
        total = await worker.until(dead=1)
        (letter,) = await queue.peek_dlq()
    assert (len(runs.jobs), total.retried) == (1, 0)
    assert (letter["reason"], letter["detail"]) == ("unrecoverable", f"{type_name(type(error))}: closed")


async def test_a_cancelled_error_of_the_handlers_own_is_a_failure(queue: Queue, worker_of: WorkerOf) -> None:
    """Some library's task was cancelled, not we: the slot must live on and the job be tried again."""
    runs = Runs()

    async def cancelled(job: Job) -> None:
        await runs(job)
        if job.attempt == 0:
            raise asyncio.CancelledError

    async with worker_of(cancelled, concurrency=1, retry=QUICK) as worker:
        await queue.add("job", {})
        total = await worker.until(done=1)
    assert [run.attempt for run in runs.jobs] == [0, 1]
    assert total.retried == 1


async def test_poison_does_not_stop_its_neighbours(
    worker_of: WorkerOf, queue: Queue, group: Group, raw: Client, keys: QueueKeys
) -> None:
    await group.make()
    jobs: list[Job] = []
    for poison in ({"x": "1"}, {"d": b"\xc1"}, {"d": b""}):
        jobs.append(await queue.add("good", {}))
        await raw.xadd(keys.stream, poison)
    jobs.append(await queue.add("good", {}))
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=4, dead=3)
    assert sorted(runs.ids) == sorted(job.id for job in jobs)
    assert await group.length() == 0


async def test_an_oversized_job_is_dead_at_once_with_its_bytes(
    worker_of: WorkerOf, queue: Queue, queue_name: str
) -> None:
    runs = Runs()
    async with worker_of(runs, max_payload_bytes=100) as worker:
        await queue.add("big", {"text": "x" * 200})
        await worker.until(dead=1)
        (letter,) = await queue.peek_dlq()
    assert runs.jobs == []
    assert letter["reason"] == "oversize_payload"
    assert len(letter["payload"]) > 200
