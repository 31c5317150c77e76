"""Batches: many jobs in one call, an outcome for each."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest

from relevo import BackoffSpec, Batch, Job, Queue, UnrecoverableError
from relevo.errors import BadArgument, WrongType
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.patience import until


class Calls:
    """A batch handler that remembers its calls; `answer` makes the outcomes."""

    def __init__(self, answer: Callable[[list[Job]], Any] | None = None) -> None:
        self.calls: list[list[Any]] = []
        self.cut = 0
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._answer = answer

    async def __call__(self, jobs: list[Job]) -> Sequence[Any] | None:
        self.calls.append([job.data for job in jobs])
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cut += 1
            raise
        return None if self._answer is None else self._answer(jobs)


def numbered(count: int, **options: Any) -> list[dict[str, Any]]:
    return [{"name": "row", "data": at, **options} for at in range(count)]


async def test_a_batch_goes_when_it_is_full(queue: Queue, worker_of: WorkerOf) -> None:
    calls = Calls()
    await queue.add_bulk(numbered(12))
    async with worker_of(Batch(calls, size=4, linger_ms=60_000), concurrency=12) as worker:
        await worker.until(done=12)
    assert [len(call) for call in calls.calls] == [4, 4, 4]
    assert sorted(chain(*calls.calls)) == list(range(12))


async def test_a_batch_that_does_not_fill_goes_after_its_time(queue: Queue, worker_of: WorkerOf) -> None:
    calls = Calls()
    await queue.add_bulk(numbered(3))
    async with worker_of(Batch(calls, size=100, linger_ms=50)) as worker:
        await worker.until(done=3)
    assert sorted(chain(*calls.calls)) == [0, 1, 2]


async def test_each_job_has_an_outcome_of_its_own(queue: Queue, worker_of: WorkerOf) -> None:
    def answer(jobs: list[Job]) -> list[Any]:
        outcomes = {
            0: "fine",
            1: UnrecoverableError("never"),
            2: ValueError("again") if jobs[0].attempt == 0 else "late",
        }
        return [outcomes[job.data] for job in jobs]

    calls = Calls(answer)
    async with worker_of(Batch(calls, size=3, linger_ms=30), store_results=True) as worker:
        jobs = await queue.add_bulk(numbered(3, backoff=BackoffSpec.fixed(1)))
        await worker.until(done=2, dead=1, retried=1)
        assert await queue.get_job_result_bulk([job.id for job in jobs]) == ["fine", None, "late"]
    assert [letter["detail"] for letter in await queue.peek_dlq()] == ["relevo.errors.UnrecoverableError: never"]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ([1], "returned 1 outcomes for 2 jobs"),
        ([1, 2, 3], "returned 3 outcomes for 2 jobs"),
        (ZeroDivisionError("division by zero"), "division by zero"),
    ],
    ids=["too few", "too many", "raises"],
)
async def test_a_call_without_outcomes_fails_all_its_jobs(
    queue: Queue, worker_of: WorkerOf, answer: Any, detail: str
) -> None:
    def give(_: list[Job]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with worker_of(Batch(Calls(give), size=2, linger_ms=60_000)) as worker:
        await queue.add_bulk(numbered(2, attempts=1))
        await worker.until(dead=2)
    assert all(detail in letter["detail"] for letter in await queue.peek_dlq())


async def test_a_call_that_ends_as_cancelled_fails_its_jobs_and_blocks_nobody(
    queue: Queue, worker_of: WorkerOf
) -> None:
    def answer(jobs: list[Job]) -> None:
        if jobs[0].name == "row":
            raise asyncio.CancelledError

    async with worker_of(Batch(Calls(answer), size=2, linger_ms=10), concurrency=2) as worker:
        await queue.add_bulk(numbered(2, attempts=1))
        await worker.until(dead=2)
        await queue.add("other", {})
        await worker.until(done=1)


async def test_a_job_cancelled_while_it_waits_for_company_is_not_in_the_batch(
    queue: Queue, worker_of: WorkerOf
) -> None:
    calls = Calls()
    async with worker_of(Batch(calls, size=3, linger_ms=60_000), concurrency=3) as worker:
        jobs = await queue.add_bulk(numbered(2))
        await until(lambda: len(worker.runner.running) == 2)
        await queue.cancel(jobs[0].id)
        await worker.until(done=1)
        await queue.add_bulk([{"name": "row", "data": at} for at in (2, 3)])
        await worker.until(done=4)
    assert [sorted(call) for call in calls.calls] == [[1, 2, 3]]


async def test_one_cancelled_job_does_not_end_the_others_of_its_batch(queue: Queue, worker_of: WorkerOf) -> None:
    calls = Calls()
    calls.gate.clear()
    async with worker_of(Batch(calls, size=2, linger_ms=60_000), store_results=True) as worker:
        jobs = await queue.add_bulk(numbered(2))
        await calls.begun.wait()
        await queue.cancel(jobs[0].id)
        await worker.until(done=1)
        calls.gate.set()
        await worker.until(done=2)
    assert calls.cut == 0


async def test_a_batch_cut_short_by_a_shutdown_is_ended_and_handed_back(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    calls = Calls()
    calls.gate.clear()
    async with worker_of(Batch(calls, size=3, linger_ms=60_000), shutdown_deadline_s=0.05):
        await queue.add_bulk(numbered(3))
        await calls.begun.wait()
    assert calls.cut == 1  # it does not go on beside those who have its jobs now
    assert await group.length() == 3
    again = Calls()
    async with worker_of(Batch(again, size=3, linger_ms=60_000)) as worker:
        await worker.until(done=3)
    assert sorted(again.calls[0]) == [0, 1, 2]


async def test_a_shutdown_waits_for_a_batch_that_ends_in_time(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    calls = Calls()
    async with worker_of(Batch(calls, size=100, linger_ms=100)) as worker:
        await queue.add_bulk(numbered(3))
        await until(lambda: len(worker.runner.running) == 3)
    assert (worker.total.done, await group.length()) == (3, 0)


@pytest.mark.parametrize(("options", "error"), [({"size": 0}, BadArgument), ({"size": 2.5}, WrongType)])
def test_a_batch_has_a_size(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="size="):
        Batch(Calls(), **options)


def test_a_linger_may_be_none_at_all_but_not_less() -> None:
    Batch(Calls(), size=1, linger_ms=0)
    with pytest.raises(BadArgument, match="linger_ms="):
        Batch(Calls(), size=1, linger_ms=-1)
