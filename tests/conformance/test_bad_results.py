"""A result that cannot be stored: the run ended well and is not repeated."""

import logging
import threading
from typing import Any

import pytest

from relevo import Batch, Flow, Job, Queue, Tasks
from relevo.errors import BadArgument
from tests.conformance.conftest import WorkerOf
from tests.conformance.process_tasks import tasks as process_tasks
from tests.pace import limit
from tests.support.runs import Runs


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        each.getMessage() for each in caplog.records if each.name == "relevo.jobs" and each.levelno == logging.ERROR
    ]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({1, 2}, "result is of type set"),
        ({"rows": [1, {"tags": {1}}]}, 'result["rows"][1]["tags"] is of type set'),
        ([2**70], "result[0] is of type int"),
    ],
)
async def test_a_result_that_cannot_be_stored_is_dropped_and_the_job_is_done(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture, value: Any, where: str
) -> None:
    runs = Runs(lambda _: value)
    async with worker_of(runs, store_results=True) as worker:
        job = await queue.add("job", 1)
        await worker.until(done=1)
        assert await job.wait_for_result(timeout=limit(20)) is None
    assert len(runs.jobs) == 1
    (said,) = errors(caplog)
    assert said.startswith(f"job {job.id} (job) of queue {queue.name} is done, and its result was dropped: ")
    assert where in said


async def test_a_job_whose_result_cannot_be_stored_is_dead_if_the_worker_wants_it_so(
    queue: Queue, worker_of: WorkerOf
) -> None:
    runs = Runs(lambda _: {1, 2})
    async with worker_of(runs, store_results=True, on_bad_result="dead") as worker:
        await queue.add("job", 1)
        await worker.until(dead=1)
    (letter,) = await queue.dead_letters.peek(10)
    assert (len(runs.jobs), letter.reason, letter.attempts_made) == (1, "unrecoverable", 1)
    assert (letter.detail or "").startswith("relevo.errors.BadResult: The result of 'job' cannot be stored")


async def test_an_error_about_data_that_the_handler_itself_met_is_a_failure(queue: Queue, worker_of: WorkerOf) -> None:
    async def forward(job: Job) -> None:
        await queue.add("next", {1, 2})

    async with worker_of(forward, store_results=True) as worker:
        await queue.add("job", 1, attempts=2, backoff=1)
        settled = await worker.until(dead=1)
    assert settled.retried == 1


async def test_jobs_of_a_frame_with_such_results_are_done(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(lambda job: {1} if job.data == 1 else job.data)
    async with worker_of(runs, store_results=True) as worker:
        jobs = await queue.add_bulk([{"name": "job", "data": n} for n in range(3)], frame=3)
        await worker.until(done=3)
    assert [await queue.get_job_result(job.id) for job in jobs] == [0, None, 2]
    assert len(runs.jobs) == 3


async def test_jobs_of_a_batch_with_such_results_are_done(queue: Queue, worker_of: WorkerOf) -> None:
    calls: list[int] = []

    async def many(jobs: list[Job]) -> list[Any]:
        calls.append(len(jobs))
        return [{1} if job.data == 1 else job.data for job in jobs]

    async with worker_of(Batch(many, size=3), store_results=True) as worker:
        jobs = await queue.add_bulk([{"name": "job", "data": n} for n in range(3)])
        await worker.until(done=3)
    assert [await queue.get_job_result(job.id) for job in jobs] == [0, None, 2]
    assert sum(calls) == 3


async def test_what_waits_for_such_a_job_in_a_flow_goes_on_without_its_result(
    queue: Queue, worker_of: WorkerOf
) -> None:
    seen: list[Any] = []

    async def handler(job: Job) -> object:
        if job.name == "first":
            return threading.Lock()
        seen.append({key: (each.state, each.value) for key, each in (await job.parent_results()).items()})
        return None

    flow = Flow()
    flow.add("first", 1)
    flow.add("second", 2, after=["first"])
    async with worker_of(handler) as worker:
        await queue.start_flow(flow)
        await worker.until(done=2)
    assert seen == [{"first": ("done", None)}]


async def test_a_result_that_cannot_leave_its_process_is_dropped_too(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker_of(process_tasks, store_results=True) as worker:
        await queue.add("unpicklable", {})
        await worker.until(done=1, timeout=60)
        await queue.add("square", {"number": 3}, job_id="nine")
        await worker.until(done=2, timeout=60)
    assert (await queue.get_job_result("nine"))[1] == 9
    (said,) = errors(caplog)
    assert "its result was dropped" in said
    assert "is of type function" in said


async def test_a_result_that_is_not_kept_is_not_looked_at(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture
) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def odd() -> object:
        return object()

    async with worker_of(tasks) as worker:
        await odd.enqueue(queue)
        await worker.until(done=1)
    assert errors(caplog) == []


async def test_a_wish_that_nobody_knows_is_refused(worker_of: WorkerOf) -> None:
    with pytest.raises(BadArgument, match="on_bad_result"):
        async with worker_of(Runs(), on_bad_result="again"):
            pass


async def test_the_job_is_found_as_completed_with_what_was_dropped_until_it_is_removed(
    queue: Queue, worker_of: WorkerOf
) -> None:
    async def odd(job: Job) -> object:
        if job.attempt == 0:
            raise KeyError("first")
        return {1, 2}

    async with worker_of(odd, store_results=True) as worker:
        job = await queue.add("odd", 1, backoff=1)
        await worker.until(done=1)
    found = await queue.jobs.find(job.id)
    assert (found.state, found.attempts_made, found.result) == ("completed", 2, False)
    assert found.failure is not None
    assert found.failure.error.startswith("relevo.errors.BadResult: The result of 'odd' cannot be stored")
    assert "in odd" in found.failure.traceback
    removed = await queue.maintenance.remove(job.id)
    assert not removed.running
    assert (await queue.jobs.find(job.id)).state == "unknown"
