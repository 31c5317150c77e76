"""A failure is seen: in the log, in events, beside the living job and in its dead letter (docs/guarantees.md)."""

import asyncio
import logging
import time
from typing import Any

import pytest

from relevo import Batch, Dedup, Flow, Job, Queue, Tasks, UnrecoverableError
from relevo.engine.settling.failure_log import FIRST
from relevo.engine.settling.tracebacks import LONGEST_TRACEBACK
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.process_tasks import tasks as process_tasks
from tests.patience import forever, until
from tests.servers.server import Client
from tests.support.runs import Runs

FAR: dict[str, Any] = {"backoff": {"kind": "fixed", "delay_ms": 3_600_000, "jitter_ms": 0}}
SOON: dict[str, Any] = {"backoff": {"kind": "fixed", "delay_ms": 1, "jitter_ms": 0}}


def read_address(user: dict[str, str]) -> str:
    return user["email"]


async def send(job: Job) -> str:
    return read_address(job.data)


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "relevo.jobs" and record.levelno == level]


# --- in the log ------------------------------------------------------------------------------------------------------


async def test_every_failed_run_is_logged_with_the_users_frames_only(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker_of(send) as worker:
        job = await queue.add("send", {"name": "ada"}, attempts=3, **SOON)
        await worker.until(dead=1)
    warnings = lines(caplog, logging.WARNING)
    wanted = ("job_id", "attempt", "max_attempts", "retry_in_ms")
    assert [tuple(vars(record)[each] for each in wanted) for record in warnings] == [
        (job.id, 1, 3, 1),
        (job.id, 2, 3, 1),
        (job.id, 3, 3, None),
    ]
    assert warnings[0].getMessage() == (
        f"job {job.id} (send) of queue {queue.name} failed, attempt 1 of 3, next run in 1 ms: KeyError: 'email'"
    )
    trace = warnings[0].exc_text or ""
    assert "in send\n" in trace
    assert "in read_address\n" in trace
    assert trace.endswith("KeyError: 'email'")
    assert trace.count("  File ") == 2, "frames of relevo and asyncio say nothing to the user"


async def test_a_dead_letter_is_logged_as_an_error(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker_of(send) as worker:
        job = await queue.add("send", {}, attempts=1)
        await worker.until(dead=1)
    assert [record.getMessage() for record in lines(caplog, logging.ERROR)] == [
        f"job {job.id} (send) of queue {queue.name} is dead after 1 attempt (retries_exhausted): KeyError: 'email'"
    ]


async def test_an_error_of_many_lines_takes_one_in_the_log_before_its_traceback(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(job: Job) -> None:
        raise ValueError("no such user:\n  ada\n\nask for another")

    async with worker_of(fail) as worker:
        job = await queue.add("send", {}, attempts=1)
        await worker.until(dead=1)
    (warning,), (error,) = lines(caplog, logging.WARNING), lines(caplog, logging.ERROR)
    told = "ValueError: no such user: ada ask for another"
    assert warning.getMessage().endswith(f"not tried again: {told}")
    assert error.getMessage().endswith(f"is dead after 1 attempt (retries_exhausted): {told}")
    assert (warning.exc_text or "").endswith("ValueError: no such user:\n  ada\n\nask for another")
    letter = await queue.dead_letters.latest(job.id)
    assert letter is not None
    assert letter.detail == "ValueError: no such user:\n  ada\n\nask for another"


async def test_an_entry_that_is_no_job_is_logged_when_it_is_dead(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.xadd(keys.stream, {b"d": b"\xc1", b"n": b"odd"})
    async with worker_of(Runs()) as worker:
        await worker.until(dead=1)
    (record,) = lines(caplog, logging.ERROR)
    assert "(odd)" in record.getMessage()
    assert "decode_failed" in record.getMessage()


async def test_a_flood_of_failures_is_sampled_and_counted(
    queue: Queue, worker_of: WorkerOf, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker_of(send) as worker:
        await queue.add_bulk([{"name": "send", "data": {}, "attempts": 1} for _ in range(300)])
        await queue.add("other", {}, attempts=1)
        await worker.until(dead=301)
    said = [record.getMessage() for record in lines(caplog, logging.WARNING)]
    of_send = [line for line in said if "(send)" in line]
    told = sum(
        int(line.rsplit("(and ", 1)[1].split()[0].replace(",", "")) for line in of_send if "more like it" in line
    )
    assert len(of_send) + told == 300
    assert len(of_send) < 300 / FIRST
    assert sum("(other)" in line for line in said) == 1, "one job's flood hides no other's failure"


# --- kept while the job lives ------------------------------------------------------------------------------------------


async def fail_once(queue: Queue, worker_of: WorkerOf, handler: Any = send, **options: Any) -> Job:
    async with worker_of(handler) as worker:
        job = await queue.add("send", {"name": "ada"}, **(FAR | options))
        await worker.until(retried=1)
    return job


@pytest.mark.parametrize("kind", ["plain", "lane", "dedup", "own id"])
async def test_a_job_that_waits_for_another_run_shows_how_the_last_one_failed(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, kind: str
) -> None:
    options: dict[str, Any] = {
        "plain": {},
        "lane": {"lane": "tenant-7"},
        "dedup": {"dedup": Dedup.drop("once")},
        "own id": {"job_id": "mail-7"},
    }[kind]
    before = time.time() * 1000
    job = await fail_once(queue, worker_of, **options)
    found = await queue.jobs.find(job.id)
    assert (found.state, found.attempts_made) == ("delayed", 1)
    failure = found.failure
    assert failure is not None
    assert (failure.attempt, failure.error) == (1, "KeyError: 'email'")
    assert before - 1000 <= failure.at_ms <= time.time() * 1000 + 1000
    assert "in read_address" in failure.traceback
    assert await raw.pttl(keys.failure(job.id)) > 3_600_000, "kept until after the next run, and not for ever"
    await queue.remove(job.id)


async def test_jobs_of_a_frame_keep_how_they_failed(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(send) as worker:
        jobs = await queue.add_bulk([{"name": "send", "data": {}, **FAR} for _ in range(3)], frame=3)
        await worker.until(retried=3)
    for job in jobs:
        found = await queue.jobs.find(job.id)
        assert found.failure is not None
        assert "in read_address" in found.failure.traceback


async def test_a_job_of_a_flow_keeps_how_it_failed(queue: Queue, worker_of: WorkerOf) -> None:
    flow = Flow()
    flow.add("send", {}, **FAR)
    runs = Runs(fail=lambda _: KeyError("email"))
    async with worker_of(runs) as worker:
        await queue.start_flow(flow)
        await worker.until(retried=1)
    found = await queue.jobs.find(runs.ids[0])
    await queue.obliterate()
    assert found.failure is not None
    assert found.failure.error == "KeyError: 'email'"


async def test_a_job_that_ends_well_leaves_no_failure_behind(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    failures = [RuntimeError("no route")]
    async with worker_of(Runs(fail=lambda _: failures.pop() if failures else None)) as worker:
        job = await queue.add("send", {}, **SOON)
        await worker.until(done=1)
        await until(lambda: _gone(raw, keys.failure(job.id)))


async def _gone(raw: Client, key: bytes) -> bool:
    return not await raw.exists(key)


async def test_a_dead_letter_has_the_traceback_and_the_runs_and_the_job_keeps_neither(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    async with worker_of(send) as worker:
        job = await queue.add("send", {}, attempts=3, **SOON)
        await worker.until(dead=1)
        await until(lambda: _gone(raw, keys.failure(job.id)))
    (letter,) = await queue.dead_letters.peek(10)
    assert (letter.detail, letter.attempts_made) == ("KeyError: 'email'", 3)
    assert letter.traceback is not None
    assert "in read_address" in letter.traceback
    found = await queue.jobs.find(job.id)
    assert (found.state, found.attempts_made) == ("failed", 3)
    assert found.failure is not None
    assert found.failure.traceback == letter.traceback
    assert [each.attempts_made for each in (await queue.get_jobs_page("failed")).jobs] == [3]


async def test_a_replayed_job_starts_afresh(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(send) as worker:
        job = await queue.add("send", {}, attempts=2, **SOON)
        await worker.until(dead=1)
    await queue.replay_dlq(1)
    found = await queue.jobs.find(job.id)
    assert (found.state, found.attempts_made, found.failure) == ("waiting", 0, None)


@pytest.mark.parametrize("end", ["remove", "drain", "cancel", "obliterate"])
async def test_whoever_takes_a_job_away_takes_its_failure_too(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, end: str
) -> None:
    job = await fail_once(queue, worker_of)
    assert await raw.exists(keys.failure(job.id))
    if end == "remove":
        await queue.remove(job.id)
    elif end == "drain":
        await queue.drain()
    elif end == "cancel":
        await queue.cancel(job.id)
    else:
        await queue.obliterate()
    assert not await raw.exists(keys.failure(job.id))


async def test_a_running_job_counts_the_run_under_way(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(lambda _: None)

    async def hold(job: Job) -> None:
        await runs(job)
        await forever()

    async with worker_of(hold, shutdown_deadline_s=0) as _:
        job = await queue.add("send", {})
        await runs.until(1)
        found = await queue.jobs.find(job.id)
    assert (found.state, found.attempts_made, found.failure) == ("active", 1, None)


# --- wherever the code runs --------------------------------------------------------------------------------------------


async def trace_of(queue: Queue) -> str:
    (letter,) = await queue.dead_letters.peek(10)
    return letter.traceback or ""


async def test_a_time_out_names_the_line_that_took_the_time(queue: Queue, worker_of: WorkerOf) -> None:
    async def wait(_: Job) -> None:
        await asyncio.Event().wait()

    async with worker_of(wait, job_timeout_s=0.05) as worker:
        await queue.add("send", {}, attempts=1)
        await worker.until(dead=1)
    trace = await trace_of(queue)
    assert "await asyncio.Event().wait()" in trace
    assert "relevo.errors.JobTimedOut: " in trace
    assert "CancelledError" not in trace


async def test_a_time_out_of_a_task_names_the_line_that_took_the_time(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task(timeout_s=0.05)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with worker_of(tasks) as worker:
        await slow.options(attempts=1).enqueue(queue)
        await worker.until(dead=1)
    trace = await trace_of(queue)
    assert "await asyncio.Event().wait()" in trace
    assert "relevo.errors.TaskTimedOut: " in trace


async def test_a_plain_function_on_a_thread_is_named(queue: Queue, worker_of: WorkerOf) -> None:
    def plain(job: Job) -> str:
        return read_address(job.data)

    async with worker_of(plain) as worker:
        await queue.add("send", {}, attempts=1)
        await worker.until(dead=1)
    assert (await trace_of(queue)).count("  File ") == 2


async def test_a_function_on_another_process_is_named(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(process_tasks) as worker:
        await queue.add("fail", {"reason": "no"}, attempts=1)
        await worker.until(dead=1, timeout=60)
    trace = await trace_of(queue)
    assert "process_tasks.py" in trace
    assert "in fail" in trace
    assert "concurrent" not in trace
    assert trace.endswith("ValueError: no")


async def test_a_batch_that_fails_names_its_function(queue: Queue, worker_of: WorkerOf) -> None:
    async def insert(jobs: list[Job]) -> None:
        for job in jobs:
            read_address(job.data)

    async with worker_of(Batch(insert, size=1)) as worker:
        await queue.add("send", {}, attempts=1)
        await worker.until(dead=1)
    assert (await trace_of(queue)).count("  File ") == 2


async def test_an_error_of_ours_names_the_task_it_is_about(queue: Queue, worker_of: WorkerOf) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def greet(name: str) -> None: ...

    async with worker_of(tasks) as worker:
        await queue.add("greet", 5)
        await worker.until(dead=1)
    trace = await trace_of(queue)
    assert greet.name in trace
    assert "async def greet(name: str)" in trace


async def test_what_is_kept_is_bounded(queue: Queue, worker_of: WorkerOf) -> None:
    def dig(depth: int) -> None:
        if not depth:
            raise UnrecoverableError("ö" * 10_000)
        dig(depth - 1)

    async def deep(_: Job) -> None:
        dig(200)

    async with worker_of(deep) as worker:
        await queue.add("send", {})
        await worker.until(dead=1)
    (letter,) = await queue.dead_letters.peek(1)
    assert len((letter.traceback or "").encode()) <= LONGEST_TRACEBACK
    assert len(letter.detail or "") <= 2000
