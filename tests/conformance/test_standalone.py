"""Schedulers and promoters in processes of their own."""

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from relevo import PromoterProcess, Queue, RepeatPattern, Scheduler
from relevo.errors import BadArgument, ServerRefused, WrongType
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.fires import Fires
from tests.pace import limit
from tests.servers.acl import AclUser
from tests.servers.child import Child
from tests.servers.server import Client, Server
from tests.support.runs import Runs

MINUTELY = RepeatPattern.every(60_000)

PROGRAM = """
import asyncio, sys
from relevo import Scheduler

async def main():
    scheduler = Scheduler(sys.argv[1], sys.argv[2], tick_interval_ms=50, lock_ttl_secs=1, holder_id="s-process")
    scheduler.leading.listen(lambda leads: print("leads", leads, flush=True))
    await scheduler.run()

asyncio.run(main())
"""


@asynccontextmanager
async def process_of(server: Server, queue_name: str) -> AsyncGenerator[Child]:
    """A scheduler in another process, once it leads."""
    with Child(sys.executable, "-c", PROGRAM, server.url, queue_name) as child:
        assert await asyncio.to_thread(child.line) == "leads True"
        yield child


async def test_a_standalone_scheduler_fires_for_workers_that_do_not(
    queue: Queue, server: Server, worker_of: WorkerOf
) -> None:
    runs = Runs()
    await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(50), limit=3)
    async with worker_of(runs, run_scheduler=False), Scheduler(server.url, queue.name, tick_interval_ms=50):
        await runs.until(3)
    assert set(runs.by_id.values()) == {1}


async def test_a_standalone_promoter_promotes_for_workers_that_do_not(
    queue: Queue, server: Server, worker_of: WorkerOf
) -> None:
    runs = Runs()
    job = await queue.add("later", None, delay_ms=50)
    async with worker_of(runs, delayed_enabled=False), PromoterProcess(server.url, queue.name, tick_interval_ms=20):
        await runs.until(1)
    assert runs.ids == [job.id]


async def test_shutdown_from_another_thread_gives_the_lock_up(
    server: Server, queue_name: str, raw: Client, keys: QueueKeys
) -> None:
    scheduler = Scheduler(server.url, queue_name, holder_id="s-mine")
    running = asyncio.ensure_future(scheduler.run())
    await scheduler.leading.wait_for(bool, timeout=limit(20))
    assert await raw.get(keys.scheduler_lock) == b"s-mine"
    threading.Thread(target=scheduler.shutdown).start()
    await asyncio.wait_for(running, limit(20))
    assert await raw.get(keys.scheduler_lock) is None
    assert not scheduler.is_running


async def test_the_settings_reach_the_scheduler(
    queue: Queue, server: Server, fires: Fires, raw: Client, keys: QueueKeys
) -> None:
    await queue.add("fills", None)
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    slot = await fires.turn_back("ping", 10)
    async with Scheduler(server.url, queue.name, max_stream_len=1, batch=1, lock_ttl_secs=30) as scheduler:
        await scheduler.fired.wait_for(lambda tick: tick.fired == 1, timeout=limit(20))
        assert await raw.pttl(keys.scheduler_lock) > 20_000
    assert await fires.delayed_slots() == [slot]


async def test_a_shutdown_before_the_run_is_no_run(server: Server, queue_name: str) -> None:
    scheduler = Scheduler(server.url, queue_name)
    scheduler.shutdown()
    await asyncio.wait_for(scheduler.run(), limit(20))
    assert scheduler.leading.count == 0


async def test_a_cancelled_run_gives_the_lock_up(server: Server, queue_name: str, raw: Client, keys: QueueKeys) -> None:
    scheduler = Scheduler(server.url, queue_name)
    running = asyncio.ensure_future(scheduler.run())
    await scheduler.leading.wait_for(bool, timeout=limit(20))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await raw.get(keys.scheduler_lock) is None


async def test_sigterm_ends_a_scheduler_process_in_order(
    server: Server, queue_name: str, raw: Client, keys: QueueKeys
) -> None:
    async with process_of(server, queue_name) as process:
        assert await raw.get(keys.scheduler_lock) == b"s-process"
        assert await asyncio.to_thread(process.end, signal.SIGTERM) == 0, process.err
    assert await raw.get(keys.scheduler_lock) is None


async def test_no_slot_is_lost_or_doubled_when_the_leading_process_is_killed(
    queue: Queue, server: Server, fires: Fires
) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(100), key="ping", limit=25)
    heir = Scheduler(server.url, queue.name, tick_interval_ms=50, lock_ttl_secs=1)
    async with process_of(server, queue.name) as process, heir:
        process.kill()
        await heir.leading.wait_for(bool, timeout=limit(30))
        while await fires.score("ping") is not None:
            await heir.fired.wait_for(timeout=limit(20))
    slots = await fires.slots()
    assert slots == [slots[0] + n * 100 for n in range(25)]


async def test_wrong_credentials_end_the_run_with_the_reason(server: Server, queue_name: str) -> None:
    with AclUser(server), pytest.raises(ServerRefused, match="sign-in"):
        await asyncio.wait_for(Scheduler(AclUser(server, password="wrong").url, queue_name).run(), limit(30))


@pytest.mark.parametrize(
    ("options", "error"),
    [({"tick_interval_ms": 0}, BadArgument), ({"batch": -1}, BadArgument), ({"lock_ttl_secs": 0.5}, WrongType)],
)
def test_settings_that_cannot_be_used_are_refused(
    queue_name: str, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(options))):
        Scheduler("redis://127.0.0.1:6379", queue_name, **options)
    with pytest.raises(error, match=next(iter(options))):
        PromoterProcess("redis://127.0.0.1:6379", queue_name, **options)
