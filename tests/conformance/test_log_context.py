"""Log records of handlers name their job, wherever the handler runs. See docs/how-to/observe.md, "Logs"."""

import logging
from collections.abc import Generator
from typing import Any

import pytest

from relevo import Batch, Job, Queue, Tasks, logs
from tests.conformance.conftest import WorkerOf

APP = logging.getLogger("app")


class Records(logging.Handler):
    """What `app` logged: message, then the job it was for."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(logs.JobFilter())
        self.seen: dict[str, tuple[Any, ...]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        self.seen[record.getMessage()] = tuple(fields.get(name) for name in ("queue", "job_id", "job_name", "attempt"))


@pytest.fixture
def records() -> Generator[Records]:
    handler = Records()
    APP.addHandler(handler)
    APP.setLevel(logging.INFO)
    yield handler
    APP.removeHandler(handler)
    APP.setLevel(logging.NOTSET)


async def test_each_of_many_jobs_at_once_is_named_in_its_own_records(
    queue: Queue, worker_of: WorkerOf, queue_name: str, records: Records
) -> None:
    async def handle(job: Job) -> None:
        APP.info("%s", job.data)

    async with worker_of(handle, concurrency=5) as worker:
        jobs = await queue.add_bulk([{"name": "job", "data": number} for number in range(20)])
        await worker.until(done=20)
    assert records.seen == {str(job.data): (queue_name, job.id, "job", 1) for job in jobs}


async def test_a_plain_function_on_a_thread_is_in_its_jobs_context(
    queue: Queue, worker_of: WorkerOf, queue_name: str, records: Records
) -> None:
    def handle(job: Job) -> None:
        APP.info("on a thread")

    async with worker_of(handle) as worker:
        job = await queue.add("job", 1)
        await worker.until(done=1)
    assert records.seen == {"on a thread": (queue_name, job.id, "job", 1)}


async def test_a_task_on_a_thread_is_in_its_jobs_context(
    queue: Queue, worker_of: WorkerOf, queue_name: str, records: Records
) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    def resize(path: str) -> None:
        APP.info("resized %s", path)

    async with worker_of(tasks) as worker:
        job = await resize.enqueue(queue, "cat.png")
        await worker.until(done=1)
    assert records.seen == {"resized cat.png": (queue_name, job.id, job.name, 1)}


async def test_a_batch_works_for_no_one_job(queue: Queue, worker_of: WorkerOf, records: Records) -> None:
    async def insert(jobs: list[Job]) -> None:
        APP.info("inserted %d", len(jobs))

    async with worker_of(Batch(insert, size=2)) as worker:
        await queue.add_bulk([{"name": "row", "data": number} for number in range(2)])
        await worker.until(done=2)
    assert [who[1] for who in records.seen.values()] == [None]
