"""Dedup in its three meanings: drop while one is under way, throttle to one in a time, debounce to the last of a burst."""

import asyncio
import sys
from datetime import timedelta
from typing import Any

import pytest

from relevo import Dedup, Job, LaneLimit, Queue, QueueFull, UnrecoverableError
from relevo.errors import BadArgument
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.servers.child import Child
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs

DROP = Dedup.drop("report")
SOON = timedelta(milliseconds=150)
LONG = timedelta(hours=1)


# --- drop --------------------------------------------------------------------------------------------------------------


async def test_drop_lets_no_second_one_in_while_the_first_waits_or_runs(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf
) -> None:
    first = await queue.add("report", 1, dedup=DROP)
    waiting = await queue_of().add("report", 2, dedup=DROP)
    runs = HeldRuns()
    async with worker_of(runs) as worker:
        await runs.until(1)
        running = await queue.add("report", 3, dedup=DROP)
        runs.let_go()
        await worker.until(done=1)
    assert waiting.id == running.id == first.id  # they may wait for the result of the one that runs
    assert runs.data == [1]


async def test_drop_lets_the_next_one_in_when_the_first_is_finished(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        first = await queue.add("report", 1, dedup=DROP)
        await worker.until(done=1)
        second = await queue.add("report", 2, dedup=DROP)
        await worker.until(done=2)
    assert (runs.data, first.id != second.id) == ([1, 2], True)


async def test_drop_holds_through_retries(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(fail=lambda job: ValueError("again") if job.attempt == 0 else None)
    async with worker_of(runs) as worker:
        first = await queue.add("report", 1, dedup=DROP, attempts=2, backoff={"kind": "fixed", "delay_ms": 3_600_000})
        await worker.until(retried=1)
        assert (await queue.add("report", 2, dedup=DROP)).id == first.id
    assert await queue.remove(first.id)


@pytest.mark.parametrize("end", ["dead letter", "cancel", "cancel running", "remove", "drain", "cancel delayed"])
async def test_drop_ends_with_its_job_however_that_ends(queue: Queue, worker_of: WorkerOf, end: str) -> None:
    options: dict[str, Any] = {"delay": LONG, "job_id": "late"} if end == "cancel delayed" else {}
    job = await queue.add("report", 1, dedup=DROP, **options)
    if end == "dead letter":
        async with worker_of(Runs(fail=lambda _: UnrecoverableError("no"))) as worker:
            await worker.until(dead=1)
    elif end == "cancel running":
        runs = HeldRuns()
        async with worker_of(runs) as worker:
            await runs.until(1)
            assert await queue.cancel(job.id)
            await worker.until(done=1)
    elif end == "cancel":
        assert await queue.cancel(job.id)
    elif end == "cancel delayed":
        assert await queue.cancel_delayed("late")
    elif end == "remove":
        assert await queue.remove(job.id) == 1
    else:
        assert await queue.drain() == 1
    assert (await queue.add("report", 2, dedup=DROP)).id != job.id
    await queue.drain()


async def test_drop_holds_for_a_delayed_job(queue: Queue) -> None:
    first = await queue.add("report", 1, dedup=DROP, delay=LONG)
    assert (await queue.add("report", 2, dedup=DROP)).id == first.id
    assert await queue.count() == 1
    await queue.drain()


async def test_drop_counts_across_processes(queue: Queue, server: Server, queue_name: str) -> None:
    first = await queue.add("report", 1, dedup=DROP)
    program = (
        "import asyncio\nfrom relevo import Dedup, Queue\n"
        "async def main():\n"
        f"    async with Queue({queue_name!r}, redis_url={server.url!r}) as queue:\n"
        "        print((await queue.add('report', 2, dedup=Dedup.drop('report'))).id)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(Child.run, sys.executable, "-c", program)
    assert done.out.strip() == first.id, done.err
    assert await queue.drain() == 1


async def test_drop_goes_with_a_lane(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", LaneLimit(concurrency=1))
    runs = Runs()
    first = await queue.add("report", 1, dedup=DROP, lane="a")
    assert (await queue.add("report", 2, dedup=DROP, lane="a")).id == first.id
    await queue.add("other", 3, lane="a")
    async with worker_of(runs) as worker:
        await worker.until(done=2)
    assert runs.data == [1, 3]


# --- throttle ----------------------------------------------------------------------------------------------------------


async def test_throttle_runs_the_first_and_drops_the_rest_of_its_time(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    throttle = Dedup.throttle("search", timedelta(minutes=1))
    runs = Runs()
    async with worker_of(runs) as worker:
        first = await queue.add("search", 1, dedup=throttle)
        await worker.until(done=1)
        assert (await queue.add("search", 2, dedup=throttle)).id == first.id  # finished, and still in its time
        assert 0 < await raw.pttl(keys.dedup("search")) <= 60_000
        await raw.pexpire(keys.dedup("search"), 0)  # its time is over
        assert (await queue.add("search", 3, dedup=throttle)).id != first.id
        await worker.until(done=2)
    assert runs.data == [1, 3]


# --- debounce ----------------------------------------------------------------------------------------------------------


async def test_debounce_runs_the_last_of_a_burst_with_its_data(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf
) -> None:
    runs = Runs()
    jobs: list[Job] = []
    async with worker_of(runs) as worker:
        for number, producer in enumerate([queue, queue_of(), queue]):
            jobs.append(await producer.add("save", number, dedup=Dedup.debounce("doc", timedelta(milliseconds=300))))
        await worker.until(done=1)
        assert await queue.count() == 0
    assert (runs.data, runs.ids) == ([2], [jobs[-1].id])


async def test_debounce_begins_anew_after_a_run(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        for number in range(2):
            await queue.add("save", number, dedup=Dedup.debounce("doc", timedelta(milliseconds=30)))
            await worker.until(done=number + 1)
    assert runs.data == [0, 1]


@pytest.mark.parametrize("options", [{"delay_ms": 5}, {"lane": "a"}, {"job_id": "x"}])
async def test_debounce_does_not_go_with_what_moves_a_job(queue: Queue, options: Any) -> None:
    with pytest.raises(BadArgument, match="cannot be combined"):
        await queue.add("save", 1, dedup=Dedup.debounce("doc", SOON), **options)


# --- all of them -------------------------------------------------------------------------------------------------------


async def test_keys_of_different_meaning_do_not_mix_jobs_up(queue: Queue) -> None:
    jobs = await queue.add_bulk([{"name": "a", "data": at, "dedup": Dedup.drop(f"key-{at % 3}")} for at in range(9)])
    assert len({job.id for job in jobs}) == 3
    assert await queue.drain() == 3


async def test_a_job_under_a_key_counts_once_towards_the_cap(queue_of: QueueOf) -> None:
    queue = queue_of(max_stream_len=4)
    for number in range(4):
        await queue.add("report", number, dedup=Dedup.drop(f"key-{number}"))
    with pytest.raises(QueueFull):
        await queue.add("report", 4, dedup=Dedup.drop("key-4"))
    assert await queue.drain() == 4


async def test_a_refused_job_does_not_take_its_key(queue_of: QueueOf) -> None:
    queue = queue_of(max_stream_len=1)
    other = await queue.add("other", 1)
    with pytest.raises(QueueFull):
        await queue.add("report", 1, dedup=DROP)
    await queue.remove(other.id)
    job = await queue.add("report", 2, dedup=DROP)
    assert await queue.remove(job.id) == 1


@pytest.mark.parametrize("key", ["", " ", None, 5])
def test_a_key_has_to_name_something(key: Any) -> None:
    with pytest.raises(BadArgument, match="dedup key="):
        Dedup.drop(key)
    with pytest.raises(BadArgument, match="dedup key="):
        Dedup.throttle(key, SOON)
    with pytest.raises(BadArgument, match="dedup key="):
        Dedup.debounce(key, SOON)


def test_a_window_takes_some_time() -> None:
    with pytest.raises(BadArgument, match="every="):
        Dedup.throttle("x", timedelta(0))
    with pytest.raises(BadArgument, match="wait="):
        Dedup.debounce("x", timedelta(microseconds=10))


async def test_only_what_has_a_ttl_is_left(queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys) -> None:
    async with worker_of(Runs()) as worker:
        await queue.add("report", 1, dedup=DROP)
        await queue.add("search", 1, dedup=Dedup.throttle("search", SOON))
        await queue.add("save", 1, dedup=Dedup.debounce("doc", timedelta(milliseconds=20)))
        await worker.until(done=3)
    assert await raw.exists(keys.dedup("report")) == 0
    assert await raw.exists(keys.notes) == 0
    assert await raw.pttl(keys.dedup("doc")) < 1100
