"""A handler that would end the program fails its own job; the worker and the jobs beside it go on."""

import logging
import sys
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NoReturn

import pytest

from relevo import Batch, Job, Queue, Tasks
from tests.conformance.conftest import QueueOf, WorkerOf


class Panic(BaseException):
    """As libraries of Rust raise it, and some that end calls which take too long."""


class Speechless(Exception):
    """It cannot say what it is."""

    def __str__(self) -> str:
        raise Panic


class Wordless(Exception):
    def __str__(self) -> str:
        return None  # noqa: PLE0307  # pyright: ignore[reportReturnType] - that is what is wrong with it


class Untouchable(Exception):
    """Whoever asks it for anything fails."""

    def __getattr__(self, name: str) -> NoReturn:
        raise LookupError(name)


def holds_itself() -> BaseException:
    error = ValueError()
    error.args = (error,)
    return error


def odd_notes() -> BaseException:
    error = ValueError("no")
    error.__notes__ = 5  # pyright: ignore[reportAttributeAccessIssue] - that is what is wrong with it
    return error


ORDERS: dict[str, Callable[[], BaseException]] = {
    "sys.exit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "a panic": Panic,
}
ODD: dict[str, Callable[[], BaseException]] = {
    "speechless": Speechless,
    "wordless": Wordless,
    "untouchable": Untouchable,
    "holds itself": holds_itself,
    "odd notes": odd_notes,
}


def one_of(order: str) -> BaseException:
    return (ORDERS | ODD)[order]()


def leave() -> NoReturn:
    sys.exit(3)


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def run_out() -> NoReturn:
    next(iter(()))
    raise AssertionError("there was something")


process_tasks: Tasks[None] = Tasks(processes=1)
process_tasks.task("leave", run_on="process")(leave)
process_tasks.task("interrupt", run_on="process")(interrupt)
process_tasks.task("run_out", run_on="process")(run_out)


async def fails_alone(queue: Queue, worker_of: WorkerOf, handler: Any, *names: str, data: Any = None) -> list[str]:
    """Runs jobs of these names and a good one after them, with a worker of one slot; what the dead letters say."""
    async with worker_of(handler, concurrency=1) as worker:
        await queue.add_bulk([{"name": name, "data": data, "attempts": 1} for name in names])
        await worker.until(dead=len(names))
        await queue.add("good", data)
        await worker.until(done=1)
        assert worker.is_running
    return [str(letter["detail"]) for letter in await queue.peek_dlq()]


@pytest.mark.parametrize("order", ["sys.exit", "GeneratorExit", "a panic", *ODD])
async def test_on_the_loop(queue: Queue, worker_of: WorkerOf, order: str) -> None:
    async def handle(job: Job) -> None:
        if job.name != "good":
            raise one_of(order)

    await fails_alone(queue, worker_of, handle, "bad")


@pytest.mark.parametrize("order", [*ORDERS, *ODD])
async def test_in_a_function_on_a_thread(queue: Queue, worker_of: WorkerOf, order: str) -> None:
    def handle(job: Job) -> None:
        if job.name != "good":
            raise one_of(order)

    await fails_alone(queue, worker_of, handle, "bad")


@pytest.mark.parametrize("order", ORDERS)
async def test_in_a_task_on_a_thread(queue: Queue, worker_of: WorkerOf, order: str) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    def bad() -> None:
        raise one_of(order)

    @tasks.task()
    def good() -> None: ...

    await fails_alone(queue, worker_of, tasks, "bad", data={"kwargs": {}})


@pytest.mark.parametrize("order", ["sys.exit", "a panic", *ODD])
async def test_in_a_batch(queue: Queue, worker_of: WorkerOf, order: str) -> None:
    async def handle(jobs: list[Job]) -> None:
        if jobs[0].name != "good":
            raise one_of(order)

    await fails_alone(queue, worker_of, Batch(handle, size=1), "bad")


async def test_in_a_task_in_a_process(queue: Queue, worker_of: WorkerOf) -> None:
    tasks = process_tasks
    async with worker_of(tasks, concurrency=1) as worker:
        calls: list[dict[str, Any]] = [
            {"name": name, "data": {"kwargs": {}}, "attempts": 1} for name in ("leave", "interrupt", "run_out")
        ]
        await queue.add_bulk(calls)
        await worker.until(dead=3, timeout=40)
        assert worker.is_running
    said = " ".join(str(letter["detail"]) for letter in await queue.peek_dlq())
    assert "KeyboardInterrupt" in said
    assert "StopIteration" in said


class LooksAtErrors(logging.Filter):
    """As some send errors elsewhere: it asks each for its words."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            str(record.exc_info[1])
        return True


@pytest.fixture
def looks_at_errors() -> Generator[None]:
    jobs, looks = logging.getLogger("relevo.jobs"), LooksAtErrors()
    jobs.addFilter(looks)
    yield
    jobs.removeFilter(looks)


@pytest.mark.parametrize("order", ["speechless", "wordless", "holds itself"])
@pytest.mark.usefixtures("looks_at_errors")
async def test_a_filter_of_the_log_that_fails_of_the_error(
    queue: Queue, worker_of: WorkerOf, order: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The slot once died of it and no job ran any more; or the outcome was written twice."""

    async def handle(job: Job) -> None:
        if job.name != "good":
            raise one_of(order)

    assert len(await fails_alone(queue, worker_of, handle, "bad")) == 1
    if order == "speechless":
        assert "a filter or handler of the log raised Panic" in capsys.readouterr().err


async def test_in_a_span_that_is_told_of_the_error(queue_of: QueueOf, worker_of: WorkerOf) -> None:
    async def handle(job: Job) -> None:
        if job.name != "good":
            raise Speechless

    (said,) = await fails_alone(queue_of(tracing=True), partial(worker_of, tracing=True), handle, "bad")
    assert "Speechless" in said
