"""Jobs whose task a worker does not know: in a rolling deploy they wait for the worker that does."""

import logging
from typing import Any

import pytest

from relevo import Flow, Queue, Tasks
from relevo.errors import BadArgument
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.patience import until
from tests.servers.server import Client
from tests.support.runs import Runs


def deployed(*names: str) -> tuple[Tasks[None], list[str]]:
    """The tasks of one version of a program, and the names of those that ran."""
    tasks: Tasks[None] = Tasks()
    ran: list[str] = []
    for name in names:

        async def run(name: str = name) -> None:
            ran.append(name)

        tasks.task(name)(run)
    return tasks, ran


@pytest.mark.parametrize("kind", ["plain", "lane", "frame", "flow"])
async def test_a_job_of_an_unknown_task_waits_for_the_worker_that_knows_it_and_its_refusals_are_not_counted(
    queue: Queue, worker_of: WorkerOf, kind: str
) -> None:
    old, _ = deployed("known")
    new, ran = deployed("known", "added")
    async with worker_of(old) as before:
        if kind == "flow":
            flow = Flow()
            flow.add("added", {}, attempts=1)
            await queue.start_flow(flow)
        elif kind == "frame":
            await queue.add_bulk([{"name": "added", "data": {}, "attempts": 1}], frame=1)
        else:
            await queue.add("added", {}, attempts=1, lane="tenant-7" if kind == "lane" else None)
        await before.until(retried=2)
    async with worker_of(new) as after:
        await after.until(done=1)
    assert ran == ["added"]
    assert before.total.dead == after.total.dead == 0


async def test_a_refused_job_shows_no_failure_and_no_run(queue: Queue, worker_of: WorkerOf) -> None:
    old, _ = deployed("known")
    async with queue.events() as events, worker_of(old) as worker:
        job = await queue.add("added", {})
        await worker.until(retried=1)
        told: list[tuple[str, Any]] = []
        async for event in events:
            if event.job_id == job.id:
                told.append((event.name, event.fields.get("attempt")))
            if event.name == "retry-scheduled":
                break
        found = await queue.jobs.find(job.id)
    assert told == [("active", 1), ("refused", None), ("retry-scheduled", 1)]
    assert (found.attempts_made or 0) <= 1
    assert found.failure is None
    assert found.refused_s is not None
    assert 0 <= found.refused_s < 600


async def test_a_job_that_nobody_has_refused_is_not_called_refused(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    job = await queue.add("added", {})
    assert (await queue.jobs.find(job.id)).refused_s is None
    await raw.set(keys.refused(job.id), "1", px=60_000)  # as workers wrote it that did not tell for how long
    assert (await queue.jobs.find(job.id)).refused_s is None


async def test_a_job_that_nobody_knows_for_too_long_is_dead_and_says_why(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, caplog: pytest.LogCaptureFixture
) -> None:
    old, _ = deployed("known")
    async with worker_of(old, unknown_task_wait_s=0.3) as worker:
        job = await queue.add("added", {})
        settled = await worker.until(dead=1)
        await until(lambda: _gone(raw, keys.refused(job.id)))
    assert settled.retried >= 1, "it was given a chance"
    (letter,) = await queue.dead_letters.peek(10)
    assert (letter.reason, letter.name) == ("unrecoverable", "added")
    assert "No task is named 'added' here (there are: known)" in (letter.detail or "")
    assert any("is dead after 1 attempt" in record.getMessage() for record in caplog.records)


async def _gone(raw: Client, key: bytes) -> bool:
    return not await raw.exists(key)


async def test_the_time_is_counted_from_the_first_refusal_by_whatever_worker(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    old, _ = deployed("known")
    async with worker_of(old) as worker:
        job = await queue.add("added", {}, delay_ms=50)
        await worker.until(retried=1)
    assert 0 < await raw.pttl(keys.refused(job.id)) <= 1_200_000
    await raw.pexpire(keys.refused(job.id), 590_000)  # as if the first refusal were more than ten minutes ago
    async with worker_of(old) as worker:
        await worker.until(dead=1)


async def test_a_refusal_is_logged_once_for_each_name(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture
) -> None:
    old, _ = deployed("known")
    async with worker_of(old) as worker:
        await queue.add_bulk([{"name": name, "data": {}} for name in ("one", "one", "two", "one")])
        await worker.until(retried=8)
    said = [record.getMessage() for record in caplog.records if "no task named" in record.getMessage()]
    assert sorted(line.partition("named ")[2][:5] for line in said) == ["'one'", "'two'"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_replayed_job_is_given_the_whole_time_again(queue: Queue, worker_of: WorkerOf) -> None:
    old, _ = deployed("known")
    new, ran = deployed("added")
    async with worker_of(old, unknown_task_wait_s=0.3) as worker:
        await queue.add("added", {})
        await worker.until(dead=1)
    await queue.replay_dlq()
    async with worker_of(old) as worker:
        await worker.until(retried=1)
    async with worker_of(new) as after:
        await after.until(done=1)
    assert ran == ["added"]


async def test_a_time_below_nothing_is_refused(worker_of: WorkerOf) -> None:
    with pytest.raises(BadArgument, match="unknown_task_wait_s"):
        async with worker_of(Runs(), unknown_task_wait_s=-1):
            pass
