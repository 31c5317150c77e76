"""`drain` runs what is waiting and due, nothing else, and hides no failure."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from relevo import Flow, Job, Queue, RateLimited, TaskContext, Tasks
from relevo.errors import BadArgument, DrainStuck
from relevo.testing import drain


async def echo(job: Job) -> object:
    return job.data


async def test_everything_that_waits_is_run_in_order_and_told(relevo_queue: Queue) -> None:
    for number in range(5):
        await relevo_queue.add("n", number)
    ran = await drain(relevo_queue, echo)
    assert [(run.job.name, run.value, run.outcome) for run in ran] == [("n", number, "done") for number in range(5)]
    assert await relevo_queue.count() == 0


async def test_an_empty_queue_is_drained_at_once(relevo_queue: Queue) -> None:
    assert await drain(relevo_queue, echo) == []


async def test_jobs_that_handlers_enqueue_are_run_too(relevo_queue: Queue) -> None:
    async def count_down(job: Job) -> None:
        if job.data:
            await relevo_queue.add("n", job.data - 1)

    await relevo_queue.add("n", 3)
    assert [run.job.data for run in await drain(relevo_queue, count_down)] == [3, 2, 1, 0]


async def test_tasks_run_with_their_lifespan(relevo_queue: Queue) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[str]:
        yield "pool"

    tasks = Tasks(lifespan)

    @tasks.task()
    async def greet(context: TaskContext[str], name: str) -> str:
        return f"{name} has the {context.resources}"

    await greet.enqueue(relevo_queue, "Ada")
    (run,) = await drain(relevo_queue, tasks)
    assert run.value == "Ada has the pool"


async def test_a_plain_function_runs_as_well(relevo_queue: Queue) -> None:
    await relevo_queue.add("n", 2)
    (run,) = await drain(relevo_queue, lambda job: job.data * 2)
    assert run.value == 4


async def test_a_flow_runs_to_its_end(relevo_queue: Queue) -> None:
    flow = Flow()
    flow.add("first", 1)
    flow.add("second", 2, after=["first"])
    await relevo_queue.start_flow(flow)
    assert [run.job.name for run in await drain(relevo_queue, echo)] == ["first", "second"]


async def test_jobs_in_lanes_are_run(relevo_queue: Queue) -> None:
    for number in range(6):
        await relevo_queue.add("n", number, lane=f"tenant-{number % 2}")
    assert sorted(run.value for run in await drain(relevo_queue, echo)) == list(range(6))


async def test_a_delayed_job_stays_unless_it_is_asked_for(relevo_queue: Queue) -> None:
    await relevo_queue.add("later", 1, delay=timedelta(days=2))
    await relevo_queue.add("much later", 2, delay=timedelta(days=9))
    assert await drain(relevo_queue, echo) == []
    ran = await drain(relevo_queue, echo, with_delayed=True)
    assert [run.job.name for run in ran] == ["later", "much later"]


async def test_what_a_handler_raises_is_raised_with_the_job_it_was(relevo_queue: Queue) -> None:
    async def fail(job: Job) -> None:
        raise KeyError(job.data)

    await relevo_queue.add("n", "first")
    await relevo_queue.add("n", "second")
    with pytest.raises(KeyError, match="first") as raised:
        await drain(relevo_queue, fail)
    notes = " ".join(raised.value.__notes__)
    assert "job 'n'" in notes
    assert "1 more of 2 runs failed" in notes


async def test_retries_can_be_walked_through(relevo_queue: Queue) -> None:
    async def fail_twice(job: Job) -> str:
        if job.attempt < 2:
            raise ValueError(job.attempt)
        return "at last"

    await relevo_queue.add("n", 1, backoff=3_600_000)
    ran = await drain(relevo_queue, fail_twice, with_delayed=True, raise_errors=False)
    assert [(run.outcome, run.job.attempt, run.value) for run in ran] == [
        ("failed", 0, None),
        ("failed", 1, None),
        ("done", 2, "at last"),
    ]


async def test_a_parked_job_is_no_failure(relevo_queue: Queue) -> None:
    async def later(job: Job) -> None:
        raise RateLimited(retry_after_s=3600)

    await relevo_queue.add("n", 1)
    (run,) = await drain(relevo_queue, later)
    assert run.outcome == "parked"


async def test_a_queue_that_never_empties_is_said_with_what_is_left(relevo_queue: Queue) -> None:
    async def again(job: Job) -> None:
        await relevo_queue.add("n", job.data)

    await relevo_queue.add("n", 1)
    with pytest.raises(DrainStuck, match=r"not empty after 0\.3 s and \d+ runs; left: .* waiting"):
        await drain(relevo_queue, again, timeout_s=0.3)


async def test_a_paused_queue_is_refused(relevo_queue: Queue) -> None:
    await relevo_queue.pause()
    with pytest.raises(BadArgument, match="paused"):
        await drain(relevo_queue, echo)
