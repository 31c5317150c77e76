"""Typed tasks: a registry as a handler, on the loop, on threads and in processes; what tasks are given and refuse."""

import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from relevo import BackoffSpec, Depends, Queue, TaskContext, Tasks
from relevo.errors import BadArgument, BadTask
from tests.conformance import process_tasks
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.pace import limit
from tests.patience import forever
from tests.support.watched import kept_idle_ms, until_done

AT_ONCE = BackoffSpec.fixed(1)


# --- by name -----------------------------------------------------------------------------------------------------------


async def test_a_worker_runs_the_task_that_the_job_names(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def add(left: int, right: int = 10) -> int:
        return left + right

    @tasks.task("text.join")
    async def join(*parts: str, separator: str = "-") -> str:
        return separator.join(parts)

    async with worker_of(tasks, store_results=True):
        jobs = [
            await add.enqueue(queue, 1, 2),
            await add.enqueue(queue, 1),
            await add.enqueue(queue, left=5, right=6),
            await join.enqueue(queue, "a", "b", separator="+"),
        ]
        assert [await job.wait_for_result(timeout=limit(20)) for job in jobs] == [3, 11, 11, "a+b"]
    assert [job.name for job in jobs] == ["add", "add", "add", "text.join"]


async def test_a_task_can_be_called_like_the_function_it_is() -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task
    async def double(number: int) -> int:
        """Twice as much."""
        return number * 2

    assert (await double(4), double.name, double.__doc__) == (8, "double", "Twice as much.")
    assert [task.name for task in tasks] == ["double"]


async def test_a_name_that_no_task_has_is_dead_lettered_at_once_if_it_may_not_wait(
    queue: Queue, worker_of: WorkerOf
) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def known() -> None: ...

    async with worker_of(tasks, unknown_task_wait_s=0) as worker:
        await queue.add("unknown", {})
        await worker.until(dead=1)
    (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["name"]) == ("unrecoverable", "unknown")
    assert letter["detail"].startswith("relevo.errors.UnknownTask: No task is named 'unknown' here (there are: known)")


async def test_a_producer_of_another_language_names_the_arguments(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def greet(name: str, mark: str = "!") -> str:
        return f"Hello {name}{mark}"

    @tasks.task()
    async def nothing() -> int:
        return 1

    async with worker_of(tasks, store_results=True):
        jobs = [
            await queue.add("greet", {"name": "Ada"}),
            await queue.add("greet", {"name": "Ada", "mark": "?"}),
            await queue.add("greet", {"args": ["Ada"], "kwargs": {"mark": "."}}),
            await queue.add("nothing", {}),
            await queue.add("nothing", None),  # as `relevo add QUEUE nothing` adds it
        ]
        results = [await job.wait_for_result(timeout=limit(20)) for job in jobs]
        assert results == ["Hello Ada!", "Hello Ada?", "Hello Ada.", 1, 1]


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        ([1], "its data is a list"),
        ("text", "its data is a str"),
        ({"args": 5}, "`args` is no list"),
        ({"kwargs": [1]}, "`kwargs` no dict"),
        ({"wrong": 1}, "missing a required argument"),
        (None, "missing a required argument"),
        ({"number": 1, "more": 2}, "unexpected keyword argument"),
        ({"args": [1, 2]}, "too many positional arguments"),
    ],
)
async def test_data_that_is_no_call_is_dead_lettered_at_once(
    queue: Queue, worker_of: WorkerOf, data: Any, detail: str
) -> None:
    """No retry makes the arguments fit."""
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def double(number: int) -> int:
        return number * 2

    async with worker_of(tasks) as worker:
        await queue.add("double", data)
        await worker.until(dead=1)
    (letter,) = await queue.peek_dlq()
    assert letter["reason"] == "unrecoverable"
    assert detail in letter["detail"]


async def test_options_of_a_task_and_of_one_call(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()
    runs: list[int] = []

    @tasks.task(attempts=2, backoff=AT_ONCE)
    async def flaky(number: int) -> None:
        runs.append(number)
        raise ValueError("no")

    later = await flaky.options(delay=timedelta(hours=1), job_id="later").enqueue(queue, 0)
    assert (later.id, await queue.get_delayed_count()) == ("later", 1)
    async with worker_of(tasks) as worker:
        await flaky.enqueue(queue, 1)
        await flaky.options(attempts=3).enqueue(queue, 2)
        await flaky.options(attempts=1, lane="a").enqueue(queue, 3)
        await worker.until(dead=3)
    assert sorted(runs) == [1, 1, 2, 2, 2, 3]
    assert await queue.cancel("later")


# --- threads and processes ---------------------------------------------------------------------------------------------


async def test_a_plain_task_longer_than_the_idle_limit_runs_once_and_stops_nobody(
    queue: Queue, worker_of: WorkerOf
) -> None:
    tasks: Tasks[None] = Tasks()
    calls: list[str] = []
    quick_ran, enough = threading.Event(), threading.Event()

    @tasks.task()
    def long() -> str:
        calls.append("long")
        assert enough.wait(limit(40))
        return f"quick ran meanwhile: {quick_ran.is_set()}"

    @tasks.task()
    async def quick() -> None:
        calls.append("quick")
        quick_ran.set()

    options = {"claim_min_idle_ms": kept_idle_ms(), "store_results": True}
    async with worker_of(tasks, **options) as worker, worker_of(tasks, **options) as second:
        job = await long.enqueue(queue)
        await quick.enqueue(queue)
        await until_done(worker, second, done=1)
        await worker.outlast_the_idle_limit()
        enough.set()
        assert await job.wait_for_result(timeout=limit(20)) == "quick ran meanwhile: True"
    assert sorted(calls) == ["long", "quick"]


@contextmanager
def pipe(path: Path) -> Generator[Path]:
    """A named pipe, whose readers wait until the end of the block; after it there is nothing to read from."""
    os.mkfifo(path)
    kept = os.open(path, os.O_RDWR)
    try:
        yield path
    finally:
        path.unlink()
        os.close(kept)


async def test_tasks_run_in_processes(queue: Queue, worker_of: WorkerOf, tmp_path: Path) -> None:
    """One test for all of it: a process takes its time to start."""
    async with worker_of(process_tasks.tasks, store_results=True) as worker:
        pid, squared = await (await process_tasks.square.enqueue(queue, 7)).wait_for_result(timeout=limit(40))
        assert (squared, pid != os.getpid()) == (49, True)
        assert await (await process_tasks.times.enqueue(queue, 6)).wait_for_result(timeout=limit(40)) == 42
        await process_tasks.fail.options(attempts=1).enqueue(queue, "it broke")
        await worker.until(dead=1)
        died = await process_tasks.die_once.enqueue(queue, str(tmp_path))
        assert await died.wait_for_result(timeout=limit(40)) == "survived"  # in a pool of living processes
        with pipe(tmp_path / "hangs") as hangs:
            await process_tasks.hang.enqueue(queue, str(hangs))
            await worker.until(dead=2)
    details = [letter["detail"] for letter in await queue.peek_dlq()]
    assert details[0] == "ValueError: it broke"
    assert "longer than its 0.1 s" in details[1]


# --- timeouts ----------------------------------------------------------------------------------------------------------


async def test_a_task_that_takes_too_long_fails(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()
    released = threading.Event()

    @tasks.task(timeout_s=0.05, attempts=1)
    async def slow() -> None:
        await forever()

    @tasks.task(timeout_s=0.05, attempts=1)
    def slow_thread() -> None:
        released.wait(limit(20))

    @tasks.task(timeout_s=limit(20), attempts=1)
    async def own_timeout() -> None:
        raise TimeoutError("of its own")

    async with worker_of(tasks) as worker:
        for task in (slow, slow_thread, own_timeout):
            await task.enqueue(queue)
        await worker.until(dead=3)
        released.set()
    details = {letter["name"]: letter["detail"] for letter in await queue.peek_dlq()}
    assert details["own_timeout"] == "TimeoutError: of its own"
    assert all("ran longer than its 0.05 s" in details[name] for name in ("slow", "slow_thread"))


# --- what tasks are given ----------------------------------------------------------------------------------------------


class Resources(NamedTuple):
    pool: str


async def test_the_lifespan_is_entered_once_and_left_once_and_its_resources_are_given_to_tasks(
    queue: Queue, worker_of: WorkerOf
) -> None:
    life: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[Resources]:
        life.append("entered")
        yield Resources("a pool")
        life.append("left")

    tasks = Tasks(lifespan)

    @tasks.task()
    async def use(context: TaskContext[Resources], number: int) -> list[Any]:
        return [context.resources.pool, context.job.name, context.job.attempt, number, life[-1]]

    @tasks.task()
    def use_on_a_thread(context: TaskContext[Resources]) -> str:
        return context.resources.pool

    async with worker_of(tasks, store_results=True):
        async with worker_of(tasks, store_results=True):  # a second one shares it
            job = await use.enqueue(queue, 5)
            assert await job.wait_for_result(timeout=limit(20)) == ["a pool", "use", 0, 5, "entered"]
        job = await use_on_a_thread.enqueue(queue)
        assert await job.wait_for_result(timeout=limit(20)) == "a pool"
        assert life == ["entered"]
    assert life == ["entered", "left"]


async def test_a_task_may_report_through_its_context(queue: Queue, queue_of: QueueOf, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def work(context: TaskContext[None]) -> None:
        await context.job.update_progress(50)
        await context.job.log("half way")

    async with worker_of(tasks) as worker:
        job = await work.enqueue(queue)
        await worker.until(done=1)
    assert await queue_of().get_job_progress(job.id) == 50
    assert await queue_of().get_job_logs(job.id) == (["half way"], 1)


async def test_dependencies_are_made_for_each_run_and_cleaned_up_after_it(queue: Queue, worker_of: WorkerOf) -> None:
    story: list[str] = []

    def plain() -> str:
        story.append("plain")
        return "plain"

    async def coroutine() -> str:
        return "async"

    def generator() -> Iterator[str]:
        try:
            yield "generator"
        finally:
            story.append("generator closed")

    async def async_generator(context: TaskContext[None]) -> AsyncIterator[str]:
        try:
            yield f"for {context.job.name}"
        finally:
            story.append("async generator closed")

    tasks: Tasks[None] = Tasks()

    @tasks.task(attempts=2, backoff=AT_ONCE)
    async def work(
        fail: bool,
        a: str = Depends(plain),
        again: str = Depends(plain),
        b: str = Depends(coroutine),
        c: str = Depends(generator),
        d: str = Depends(async_generator),
    ) -> list[str]:
        story.append("ran")
        if fail:
            raise ValueError("after that it is cleaned up as well")
        return [a, again, b, c, d]

    async with worker_of(tasks, store_results=True) as worker:
        job = await work.enqueue(queue, False)
        assert await job.wait_for_result(timeout=limit(20)) == ["plain", "plain", "async", "generator", "for work"]
        once = ["plain", "ran", "async generator closed", "generator closed"]
        assert story == once  # one `plain` for both
        await work.options(attempts=1).enqueue(queue, True)
        await worker.until(dead=1)
    assert story == once * 2


async def test_a_dependency_sees_the_error_and_cannot_make_a_success_of_it(queue: Queue, worker_of: WorkerOf) -> None:
    story: list[str] = []

    async def transaction() -> AsyncIterator[str]:
        try:
            yield "transaction"
        except ValueError as error:
            story.append(f"rolled back: {error}")

    tasks: Tasks[None] = Tasks()

    @tasks.task(attempts=1)
    async def work(db: str = Depends(transaction)) -> None:
        raise ValueError(f"no {db}")

    async with worker_of(tasks) as worker:
        await work.enqueue(queue)
        await worker.until(dead=1)
    assert story == ["rolled back: no transaction"]
    assert (await queue.peek_dlq())[0]["detail"] == "ValueError: no transaction"


async def test_a_dependency_may_be_given_by_the_caller(queue: Queue, worker_of: WorkerOf) -> None:
    def default() -> str:
        raise AssertionError("nobody asked for it")

    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def work(value: str = Depends(default)) -> str:
        return value

    async with worker_of(tasks, store_results=True):
        job = await work.enqueue(queue, value="mine")
        assert await job.wait_for_result(timeout=limit(20)) == "mine"


# --- what cannot be a task ---------------------------------------------------------------------------------------------


def test_functions_that_cannot_be_tasks_are_refused() -> None:
    tasks: Tasks[None] = Tasks()

    async def asynchronous() -> None: ...
    def plain() -> None: ...

    with pytest.raises(BadTask, match="cannot run on a thread"):
        tasks.task(run_on="thread")(asynchronous)
    with pytest.raises(BadTask, match="would stop all others"):
        tasks.task(run_on="loop")(plain)
    with pytest.raises(BadTask, match="another process cannot import it"):
        tasks.task(run_on="process")(plain)
    with pytest.raises(BadArgument, match="timeout_s="):
        tasks.task(timeout_s=0)(asynchronous)
    tasks.task("name")(plain)
    with pytest.raises(BadTask, match="there is one of that name"):
        tasks.task("name")(asynchronous)


def at_the_top(context: TaskContext[None]) -> None: ...


def test_a_context_cannot_travel_to_another_process() -> None:
    with pytest.raises(BadTask, match="the context cannot travel"):
        Tasks[None]().task(run_on="process")(at_the_top)
