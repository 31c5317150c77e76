"""How jobs run: timeouts, cancelling from anywhere, progress and logs, and plain functions as handlers."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from relevo import BackoffSpec, Job, Queue, QueueEvent, QueueEvents
from relevo.engine.admin.progress import MAX_LINE_BYTES, MAX_LINES
from relevo.engine.settling.outcome_policy import Outcome
from relevo.errors import BadArgument, JobCancelled, NotRunning, WrongType
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.patience import forever, turn
from tests.servers.server import Client
from tests.support.held import WARM_UP, HeldRuns
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker, kept_idle_ms, until_done

AT_ONCE = BackoffSpec.fixed(1)
HOUR_MS = 3_600_000


def outcome_of(worker: WatchedWorker, kind: str) -> asyncio.Future[Outcome]:
    """Listens from now on for a run that ends so."""
    return asyncio.ensure_future(
        worker.policy.outcomes.wait_for(lambda outcome: outcome.kind == kind, timeout=limit(20))
    )


# --- timeouts ----------------------------------------------------------------------------------------------------------


async def test_a_run_that_takes_too_long_fails_and_is_tried_again(queue: Queue, worker_of: WorkerOf) -> None:
    ended: list[str] = []

    async def handle(job: Job) -> None:
        if job.name == "slow" and job.attempt == 0:
            try:
                await forever()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
        ended.append("done")

    async with worker_of(handle, job_timeout_s=0.1) as worker:
        job = await queue.add("slow", {}, backoff=AT_ONCE)
        await queue.add("quick", {})
        await worker.until(done=2, retried=1)
    assert sorted(ended) == ["cancelled", "done", "done"]
    assert await queue.get_job_state(job.id) == "unknown"


async def test_the_last_timeout_is_the_reason_of_the_dead_letter(queue: Queue, worker_of: WorkerOf) -> None:
    async def handle(_: Job) -> None:
        await forever()

    async with worker_of(handle, job_timeout_s=0.05) as worker:
        job = await queue.add("slow", {}, attempts=1)
        await worker.until(dead=1)
    (letter,) = await queue.peek_dlq()
    assert (letter["reason"], job.id in letter["detail"]) == ("retries_exhausted", True)
    assert "0.05 s" in letter["detail"]


async def test_a_slot_lives_on_after_a_timeout(queue: Queue, worker_of: WorkerOf) -> None:
    async def handle(job: Job) -> None:
        if job.name == "slow":
            await forever()
        await turn()
        async with (
            asyncio.timeout(limit(5)),
            asyncio.TaskGroup() as tasks,
        ):  # both count the cancellations of their task
            tasks.create_task(turn())

    async with worker_of(handle, job_timeout_s=0.05, concurrency=1) as worker:
        for _ in range(3):
            await queue.add("slow", {}, attempts=1)
            await queue.add("quick", {})
        await worker.until(done=3, dead=3)


@pytest.mark.parametrize("how", ["returns", "raises"])
async def test_a_handler_that_will_not_stop_has_still_timed_out(queue: Queue, worker_of: WorkerOf, how: str) -> None:
    async def handle(_: Job) -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            if how == "raises":
                raise ValueError("something else") from None
        return "too late"

    async with worker_of(handle, job_timeout_s=0.05, store_results=True, concurrency=1) as worker:
        job = await queue.add("stubborn", {}, attempts=1)
        await worker.until(dead=1)
        await queue.add("stubborn", {}, attempts=1)  # the slot lives on, and times out again
        await worker.until(dead=2)
    assert {"longer than 0.05 s" in letter["detail"] for letter in await queue.peek_dlq()} == {True}
    assert await queue.get_job_result(job.id) is None


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_some_time(timeout: float) -> None:
    with pytest.raises(BadArgument, match="job_timeout_s="):
        WatchedWorker("q", Runs(), job_timeout_s=timeout)


# --- cancelling --------------------------------------------------------------------------------------------------------


async def test_a_running_job_is_cancelled_from_another_queue_object(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    runs = HeldRuns()
    async with queue.events(last_event_id="0") as events, worker_of(runs) as worker:
        job = await queue.add("job", {})
        await runs.until(1)
        assert await queue_of().cancel(job.id)
        await worker.until(done=1)
        async for event in events:
            if event.name == "cancelled":
                assert event.job_id == job.id
                break
        runs.let_go()
        await queue.add("next", {})
        await worker.until(done=2)
    assert (runs.cut, runs.names) == ([job.id], ["job", "next"])
    assert await queue.get_job_state(job.id) == "unknown"
    assert await raw.zcard(keys.cancelled) == 0  # the mark went with its job


async def test_a_waiting_job_is_cancelled_before_it_starts(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    jobs = await queue.add_bulk([{"name": "job", "data": at} for at in range(3)])
    assert await queue.cancel(jobs[1].id)
    assert await group.length() == 2
    runs = Runs()
    async with worker_of(runs, concurrency=1) as worker:
        await worker.until(done=2)
    assert runs.data == [0, 2]


@pytest.mark.parametrize("where", ["waiting", "running", "delayed"])
async def test_who_waits_for_a_result_hears_that_the_job_was_cancelled(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf, where: str
) -> None:
    runs = HeldRuns()
    options: dict[str, Any] = {"delay_ms": HOUR_MS} if where == "delayed" else {}
    async with worker_of(runs) if where == "running" else contextlib.nullcontext():
        job = await queue.add("job", {}, **options)
        if where == "running":
            await runs.until(1)
        waiting = asyncio.ensure_future(job.wait_for_result(timeout=limit(20)))
        async with queue.events(last_event_id="0") as events:
            await asyncio.wait([waiting], timeout=0.05)
            await queue_of().cancel(job.id)
            with pytest.raises(JobCancelled, match=job.id):
                await waiting
            assert [event.job_id async for event in _up_to(events, "cancelled")][-1] == job.id


async def test_a_job_read_ahead_does_not_start_once_it_is_cancelled(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    async with worker_of(runs, concurrency=1, read_count=4) as worker:
        jobs, unstarted = await runs.prefetch(queue, worker, 3)
        chosen = unstarted[0].envelope.id
        seen = asyncio.ensure_future(worker.cancel_watch.seen.wait_for(lambda ids: chosen in ids))
        assert await queue.cancel(chosen)
        await seen
        runs.let_go()
        await worker.until(done=WARM_UP + 3)
    assert sorted(runs.ids) == sorted(job.id for job in jobs if job.id != chosen)


@pytest.mark.parametrize("options", [{}, {"job_id": "mine"}], ids=["minted", "chosen"])
async def test_a_delayed_job_is_taken_back(queue: Queue, queue_of: QueueOf, options: Any) -> None:
    """However far away it is: a mark would be forgotten before a job of next week is due."""
    job = await queue.add("job", {}, delay_ms=7 * 24 * HOUR_MS, **options)
    assert await queue_of().cancel(job.id)
    assert await queue.get_delayed_count() == 0
    assert not await queue.cancel(job.id)


async def test_there_is_nothing_to_cancel_about_a_job_that_is_finished_dead_or_unknown(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    runs = Runs(lambda _: 1, fail=lambda job: ValueError("no") if job.name == "dead" else None)
    async with worker_of(runs, store_results=True) as worker:
        done, dead = await queue.add("done", {}), await queue.add("dead", {}, attempts=1)
        await worker.until(done=1, dead=1)
    assert [await queue.cancel(each) for each in (done.id, dead.id, "unknown")] == [False] * 3
    assert await raw.zcard(keys.cancelled) == 0
    assert await queue.replay_dlq() == 1  # and no mark stops it now
    async with worker_of(Runs()) as worker:
        await worker.until(done=1)


async def test_a_mark_does_not_cancel_the_next_job_of_the_same_id(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    await raw.zadd(keys.cancelled, {"again": time.time() * 1000 + HOUR_MS})  # as left by a job that ended meanwhile
    await raw.pexpire(keys.cancelled, HOUR_MS)
    runs = Runs()
    async with worker_of(runs) as worker:
        await queue.add("job", 1, job_id="again")
        await worker.until(done=1)
    assert runs.data == [1]


async def test_a_handler_that_swallows_its_cancellation_is_still_cancelled(queue: Queue, worker_of: WorkerOf) -> None:
    begun = asyncio.Event()

    async def handle(job: Job) -> str:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await (forever() if job.name == "stubborn" else turn())
        return "a result nobody wants"

    async with worker_of(handle, store_results=True, concurrency=1) as worker:
        job = await queue.add("stubborn", {})
        await begun.wait()
        cancelled = outcome_of(worker, "cancelled")
        assert await queue.cancel(job.id)
        await cancelled
        follower = await queue.add("next", {})
        assert await follower.wait_for_result(timeout=limit(20)) == "a result nobody wants"
    assert await queue.get_job_result(job.id) is None


@pytest.mark.parametrize("job_id", ["", " ", None, 5, "\ud800"])
async def test_an_id_that_is_none_is_refused(queue: Queue, job_id: Any) -> None:
    for call in (queue.cancel, queue.cancel_delayed, queue.get_job_logs, queue.get_job_progress):
        with pytest.raises((BadArgument, WrongType), match="job_id="):
            await call(job_id)


# --- progress and logs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "stored"), [(0, 0), (42, 42), (99.9, 99), (-5, 0), (1000, 100), (100, 100)])
async def test_progress_can_be_read_from_anywhere(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf, raw: Client, keys: QueueKeys, said: float, stored: int
) -> None:
    async def handle(job: Job) -> None:
        await job.update_progress(said)

    async with queue.events(last_event_id="0") as events, worker_of(handle, result_ttl_ms=60_000) as worker:
        job = await queue.add("job", {})
        await worker.until(done=1)
        progress = [event async for event in _up_to(events, "completed") if event.name == "progress"]
    assert await queue_of().get_job_progress(job.id) == stored
    assert [(event.job_id, event.fields["progress"]) for event in progress] == [(job.id, stored)]
    assert 50 < await raw.ttl(keys.progress(job.id)) <= 60


async def _up_to(events: QueueEvents, last: str) -> AsyncGenerator[QueueEvent]:
    async for event in events:
        yield event
        if event.name == last:
            return


@pytest.mark.parametrize("bad", ["50", None, float("nan"), True])
async def test_progress_is_a_number(queue: Queue, worker_of: WorkerOf, bad: Any) -> None:
    async def handle(job: Job) -> None:
        await job.update_progress(bad)

    async with worker_of(handle) as worker:
        await queue.add("job", {}, attempts=1)
        await worker.until(dead=1)
    assert "progress=" in (await queue.peek_dlq())[0]["detail"]


async def test_a_log_is_read_by_its_line_numbers(queue: Queue, queue_of: QueueOf, worker_of: WorkerOf) -> None:
    counts: list[int] = []

    async def handle(job: Job) -> None:
        counts.extend([await job.log(f"line {at}") for at in range(5)])

    async with worker_of(handle) as worker:
        job = await queue.add("job", {})
        await worker.until(done=1)
    reader = queue_of()
    lines = [f"line {at}" for at in range(5)]
    assert counts == [1, 2, 3, 4, 5]
    assert await reader.get_job_logs(job.id) == (lines, 5)
    assert await reader.get_job_logs(job.id, start=1, end=2) == (lines[1:3], 5)
    assert await reader.get_job_logs(job.id, start=-2) == (lines[-2:], 5)
    assert await reader.get_job_logs(job.id, start=0, end=-4) == (lines[:2], 5)
    assert await reader.get_job_logs(job.id, start=-99, end=99) == (lines, 5)
    assert await reader.get_job_logs(job.id, start=3, end=1) == ([], 5)
    assert await reader.get_job_logs(job.id, end=-9) == ([], 5)
    assert await reader.get_job_logs(job.id, asc=False) == (lines[::-1], 5)
    assert await reader.get_job_logs("unknown") == ([], 0)


async def test_a_log_keeps_its_last_lines_whole_characters_and_a_time(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    async def handle(job: Job) -> None:
        await asyncio.gather(*(job.log(f"line {at}") for at in range(MAX_LINES + 5)))
        await job.log("x" + "ñ" * MAX_LINE_BYTES)

    async with worker_of(handle, result_ttl_ms=60_000) as worker:
        job = await queue.add("job", {})
        await worker.until(done=1)
    lines, total = await queue.get_job_logs(job.id)
    assert (total, lines[0], lines[-2]) == (MAX_LINES, "line 6", f"line {MAX_LINES + 4}")
    assert lines[-1] == "x" + "ñ" * ((MAX_LINE_BYTES - 1) // 2)
    assert 50 < await raw.ttl(keys.log(job.id)) <= 60


async def test_a_log_line_is_text(queue: Queue, worker_of: WorkerOf) -> None:
    async def handle(job: Job) -> None:
        await job.log(5)  # pyright: ignore[reportArgumentType] - what this test is about

    async with worker_of(handle) as worker:
        await queue.add("job", {}, attempts=1)
        await worker.until(dead=1)
    assert "line=5" in (await queue.peek_dlq())[0]["detail"]


async def test_only_a_running_job_can_report(queue: Queue) -> None:
    job = await queue.add("job", {})
    for call in (job.update_progress(5), job.log("x")):
        with pytest.raises(NotRunning):
            await call
    await queue.drain()


# --- plain functions ---------------------------------------------------------------------------------------------------


async def test_plain_functions_run_side_by_side_on_threads(queue: Queue, worker_of: WorkerOf) -> None:
    together = threading.Barrier(3, timeout=limit(20))

    def handle(job: Job) -> int:
        together.wait()
        return job.data * 2

    async with worker_of(handle, concurrency=3, store_results=True):
        jobs = await queue.add_bulk([{"name": "job", "data": at} for at in range(3)])
        assert [await job.wait_for_result(timeout=limit(20)) for job in jobs if job.data] == [2, 4]


async def test_a_plain_function_longer_than_the_idle_limit_runs_once_and_stops_nobody(
    queue: Queue, worker_of: WorkerOf
) -> None:
    calls: list[str] = []
    other, enough = threading.Event(), threading.Event()

    def handle(job: Job) -> None:
        calls.append(job.name)
        if job.name == "long":
            assert enough.wait(limit(40))
            assert other.is_set()  # the other one ran meanwhile
        else:
            other.set()

    async with (
        worker_of(handle, claim_min_idle_ms=kept_idle_ms()) as worker,
        worker_of(handle, claim_min_idle_ms=kept_idle_ms()) as second,
    ):
        await queue.add("long", {}, attempts=1)
        await queue.add("other", {})
        await until_done(worker, second, done=1)
        await worker.outlast_the_idle_limit()
        enough.set()
        await until_done(worker, second, done=2)
    assert sorted(calls) == ["long", "other"]


async def test_an_error_of_a_plain_function_is_its_jobs_error(queue: Queue, worker_of: WorkerOf) -> None:
    def handle(job: Job) -> None:
        raise ValueError(f"no {job.data}")

    async with worker_of(handle) as worker:
        await queue.add("job", "luck", attempts=1)
        await worker.until(dead=1)
    assert (await queue.peek_dlq())[0]["detail"] == "ValueError: no luck"


async def test_a_plain_function_may_return_something_to_await(queue: Queue, worker_of: WorkerOf) -> None:
    async def work(job: Job) -> int:
        return job.data + 1

    def handle(job: Job) -> Any:
        return work(job)

    async with worker_of(handle, store_results=True):
        job = await queue.add("job", 1)
        assert await job.wait_for_result(timeout=limit(20)) == 2


@pytest.mark.parametrize("handler", [None, 5, "module:function"])
def test_a_handler_is_something_to_call(handler: Any) -> None:
    with pytest.raises(WrongType, match="handler="):
        WatchedWorker("q", handler)
