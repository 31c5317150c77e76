"""What the type checker says about calls of tasks. A line with `# error: rule` has that error, every other line has none."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import assert_type

from relevo import Call, Depends, Flow, Job, Queue, SyncJob, SyncQueue, Task, TaskContext, TaskJob, Tasks


class Pool:
    async def send(self, to: str) -> None: ...


@asynccontextmanager
async def lifespan() -> AsyncGenerator[Pool]:
    yield Pool()


tasks = Tasks(lifespan)
assert_type(tasks, Tasks[Pool])


def settings() -> dict[str, str]:
    return {}


async def connection() -> AsyncGenerator[Pool]:
    yield Pool()


@tasks.task()
async def send(to: str, *, subject: str = "") -> int:
    return len(to + subject)


@tasks.task
def resize(width: int, height: int) -> bytes:
    return bytes(width * height)


@tasks.task("with.context", timeout_s=5)
async def with_context(context: TaskContext[Pool], to: str) -> None:
    assert_type(context.resources, Pool)
    assert_type(context.job, Job)


@tasks.task()
async def with_dependencies(
    to: str, options: dict[str, str] = Depends(settings), db: Pool = Depends(connection)
) -> None: ...


@tasks.task()
async def wrong_dependency(number: int = Depends(settings)) -> None: ...  # error: reportArgumentType


def as_any_job(job: Job) -> None: ...


async def calls(queue: Queue) -> None:
    as_any_job(await send.enqueue(queue, "a@b", subject="hi"))
    assert_type(await (await send.enqueue(queue, "a@b")).wait_for_result(), int)
    assert_type(await (await resize.enqueue(queue, 1, 2)).wait_for_result(timeout=5), bytes)
    assert_type(await resize.enqueue(queue, 1, 2), TaskJob[bytes])
    await send.enqueue(queue, to="a@b")
    await send.enqueue(queue, 1)  # error: reportArgumentType
    await send.enqueue(queue)  # error: reportCallIssue
    await send.enqueue(queue, "a@b", "hi")  # error: reportCallIssue
    await send.enqueue(queue, "a@b", topic="hi")  # error: reportCallIssue
    await send.enqueue("emails", "a@b")  # error: reportArgumentType

    await resize.enqueue(queue, 1, height=2)
    await resize.enqueue(queue, 1)  # error: reportCallIssue
    assert_type(resize(1, 2), bytes)

    await with_context.enqueue(queue, "a@b")
    await with_context.enqueue(queue, 5)  # error: reportArgumentType
    await with_dependencies.enqueue(queue, "a@b")
    await with_dependencies.enqueue(queue, "a@b", {"x": "y"})
    await with_dependencies.enqueue(queue, "a@b", 5)  # error: reportArgumentType

    assert_type(send.call("a@b", subject="hi"), Call)
    send.call(1)  # error: reportArgumentType
    await queue.add_bulk([send.call("a@b"), resize.call(1, 2), {"name": "plain", "data": 1}])
    send.call()  # error: reportCallIssue
    flow = Flow()
    flow.add(resize.call(1, 2), key="one")
    flow.add(send.call("a@b"), after=["one"])
    flow.add("plain", {}, after=["one"], attempts=3)
    flow.add(with_context.call(5))  # error: reportArgumentType
    flow.add("plain")  # error: reportArgumentType

    later = send.options(delay=timedelta(hours=1), lane="tenant-7")
    await later.enqueue(queue, "a@b", subject="hi")
    await later.enqueue(queue, 1)  # error: reportArgumentType
    send.options(delay=5)  # error: reportArgumentType
    send.options(until=5)  # error: reportCallIssue
    assert_type(await send("a@b"), int)


def sync_calls(queue: SyncQueue) -> None:
    assert_type(send.enqueue_sync(queue, "a@b").wait_for_result(), int)
    assert_type(resize.enqueue_sync(queue, 1, 2).wait_for_result(timeout=5), bytes)
    assert_type(resize.enqueue_sync(queue, 1, 2), SyncJob[bytes])
    send.enqueue_sync(queue, 1)  # error: reportArgumentType
    send.enqueue_sync(queue)  # error: reportCallIssue
    queue.add_bulk([send.call("a@b")])
    queue.add("plain", 1, delay=timedelta(hours=1))
    queue.add("plain", 1, until=1)  # error: reportCallIssue


def takes(task: Task[[int, int], bytes]) -> None: ...


takes(resize)
