"""A queue for code without an event loop: from threads, after a fork, while a signal comes; and not inside a loop."""

import asyncio
import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest

from relevo import Flow, Queue, RepeatPattern, SyncQueue, Tasks
from relevo.engine.sync_queue import QueueKeywords, ScheduleKeywords
from relevo.errors import BadTaskCall, InsideLoop, NotEncodable, QueueFull, ResultTimeout, WrongType
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.server import Client, Server

tasks: Tasks[None] = Tasks()


@tasks.task()
async def next_day(day: date) -> date:
    return day + timedelta(days=1)


@pytest.fixture
def sync_queue(server: Server, queue_name: str) -> Generator[SyncQueue]:
    queue = SyncQueue(queue_name, redis_url=server.url)
    yield queue
    queue._here()  # pyright: ignore[reportPrivateUsage] - closed from a thread: the test's own has a loop
    closing = threading.Thread(target=queue.close)
    closing.start()
    closing.join()


async def test_a_thread_adds_waits_and_cancels(sync_queue: SyncQueue, worker_of: WorkerOf) -> None:
    def story() -> tuple[object, ...]:
        job = next_day.enqueue_sync(sync_queue, date(2026, 1, 31))
        later = sync_queue.add("later", {}, delay=timedelta(hours=1), job_id="later")
        again = sync_queue.add_unique("later", {}, job_id="later", delay=timedelta(hours=1))
        bulk = sync_queue.add_bulk(
            [next_day.call(date(2026, 2, 1)), {"name": "next_day", "data": {"day": "2026-03-01"}}]
        )
        plain = [each.wait_for_result(timeout=limit(20)) for each in bulk]
        typed = job.wait_for_result(timeout=limit(20))
        return typed, sync_queue.get_job_result(job.id), plain, later.id, again.id, sync_queue.cancel("later")

    async with worker_of(tasks, store_results=True):
        told = await asyncio.to_thread(story)
    assert told == (date(2026, 2, 1), "2026-02-01", ["2026-02-02", "2026-03-02"], "later", "later", True)


async def test_schedules_and_flows_are_made_too(sync_queue: SyncQueue, worker_of: WorkerOf) -> None:
    def story() -> tuple[object, ...]:
        key = sync_queue.upsert_repeatable_job(**next_day.call(date(2026, 1, 31)), repeat=RepeatPattern.every(60_000))
        listed = [meta.job_name for meta in sync_queue.get_repeatable_jobs()]
        flow = Flow()
        flow.add(next_day.call(date(2026, 1, 31)))
        return key, listed, sync_queue.remove_repeatable_by_key(key), sync_queue.start_flow(flow)

    async with worker_of(tasks) as worker:
        key, listed, removed, _ = await asyncio.to_thread(story)
        await worker.until(done=1)
    assert (key, listed, removed) == ("next_day::every:60000", ["next_day"], True)


async def test_many_threads_share_one_queue(sync_queue: SyncQueue, raw: Client, keys: QueueKeys) -> None:
    def adds(thread: int) -> list[str]:
        return [sync_queue.add("n", [thread, at]).id for at in range(25)]

    def story() -> list[str]:
        with ThreadPoolExecutor(8) as pool:
            return [each for some in pool.map(adds, range(8)) for each in some]

    ids = await asyncio.to_thread(story)
    assert len(set(ids)) == await raw.xlen(keys.stream) == 200
    assert sum(thread.name == "relevo-sync" for thread in threading.enumerate()) == 1


async def test_inside_a_running_loop_it_refuses_to_block_it(sync_queue: SyncQueue) -> None:
    with pytest.raises(InsideLoop, match=r"SyncQueue\.add\(\) was called inside a running event loop"):
        sync_queue.add("n", 1)
    with pytest.raises(InsideLoop, match="use `Queue` there"):
        next_day.enqueue_sync(sync_queue, date(2026, 1, 31))


async def test_errors_are_those_of_the_queue(sync_queue: SyncQueue, queue: Queue, server: Server) -> None:
    def refused() -> None:
        with pytest.raises(NotEncodable):
            sync_queue.add("n", object())
        with pytest.raises(BadTaskCall, match="argument 'day': expected date, got str"):
            next_day.enqueue_sync(sync_queue, "tomorrow")  # pyright: ignore[reportArgumentType]
        with pytest.raises(ResultTimeout):
            sync_queue.add("n", 1).wait_for_result(timeout=0.05)
        with pytest.raises(WrongType, match="`enqueue` takes this kind of queue"):
            next_day.enqueue_sync(queue, date(2026, 1, 31))  # pyright: ignore[reportArgumentType]
        with (
            SyncQueue(queue.name, redis_url=server.url, max_stream_len=1) as full,
            pytest.raises(QueueFull, match="its cap is 1"),
        ):
            full.add_bulk([{"name": "n", "data": 1}] * 2)

    await asyncio.to_thread(refused)


def test_its_options_are_those_of_the_queue() -> None:
    for keywords, method in ((QueueKeywords, Queue.__init__), (ScheduleKeywords, Queue.upsert_repeatable_job)):
        parameters = set(inspect.signature(method).parameters) - {"self", "name", "data", "repeat", "job_id"}
        assert set(keywords.__annotations__) == parameters


FORKS = """
import os, sys
from relevo import SyncQueue

queue = SyncQueue(sys.argv[2], redis_url=sys.argv[1])
queue.add("parent", 1)
child = os.fork()
queue.add("child" if child == 0 else "parent", 2)
queue.add("child" if child == 0 else "parent", 3)
queue.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
    queue.add("parent", 4)
    print("done", flush=True)
"""


async def test_a_forked_process_has_a_connection_of_its_own(
    server: Server, queue_name: str, raw: Client, keys: QueueKeys
) -> None:
    command = [sys.executable, "-W", "error", "-c", FORKS, server.url, queue_name]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=limit(50), check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    names = [fields[b"n"].decode() for _, fields in await raw.xrange(keys.stream)]
    assert (names.count("parent"), names.count("child")) == (4, 2)


INTERRUPTED = """
import sys
from relevo import SyncQueue

queue = SyncQueue(sys.argv[2], redis_url=sys.argv[1])
job = queue.add("first", 1)
try:
    print("waiting", flush=True)
    job.wait_for_result(timeout=60)
except KeyboardInterrupt:
    queue.add("second", 2)
    print("interrupted", flush=True)
"""


async def test_ctrl_c_ends_a_wait_and_the_queue_can_be_used_on(
    server: Server, queue_name: str, raw: Client, keys: QueueKeys
) -> None:
    with Child(sys.executable, "-c", INTERRUPTED, server.url, queue_name) as waiting:
        assert await asyncio.to_thread(waiting.line) == "waiting"
        code = await asyncio.to_thread(waiting.end, signal.SIGINT)
        assert (code, waiting.out, waiting.err) == (0, "waiting\ninterrupted\n", "")
    assert [fields[b"n"] for _, fields in await raw.xrange(keys.stream)] == [b"first", b"second"]
