"""Schedulers of both libraries on one queue: one leads, the other takes over, and no slot is fired twice or left out."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop

PROGRAM = """
import asyncio, importlib, sys

async def main():
    module, url, queue, holder = sys.argv[1:]
    await importlib.import_module(module).Scheduler(
        url, queue, tick_interval_ms=50, lock_ttl_secs=1, holder_id=holder
    ).run()

asyncio.run(main())
"""


@asynccontextmanager
async def scheduler(side: Side, server: Server, queue_name: str, holder: str) -> AsyncGenerator[None]:
    """A standalone scheduler of that library, in this process."""
    made = side.module.Scheduler(server.url, queue_name, tick_interval_ms=50, lock_ttl_secs=1, holder_id=holder)
    running = asyncio.ensure_future(made.run())
    try:
        yield
    finally:
        made.shutdown()
        await asyncio.wait_for(running, limit(30))


async def upsert_slots(side: Side, count: int) -> None:
    """A schedule with exactly `count` slots, none of which may be left out by whoever fires them."""
    start = time.time_ns() // 1_000_000 + 300
    await side.queue().upsert_repeatable_job(
        "ping",
        None,
        repeat=side.module.RepeatPattern.every(250),
        missed_fires=side.module.MissedFiresPolicy.fire_all(1000),
        start_after_ms=start,
        end_before_ms=start + count * 250 + 100,
    )


# --- what one has made fires on the other -------------------------------------------------------------------------------


async def test_a_spec_of_nine_elements_fires_on_the_other_side(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server
) -> None:
    policy = giver.module.MissedFiresPolicy.fire_once()
    job = await giver.queue().upsert_repeatable_job(
        "report", {"to": "ada"}, repeat=giver.module.RepeatPattern.every(300), limit=2, missed_fires=policy
    )
    assert redis86.call("HGET", keys.repeat_spec(job.id), "spec")[0] == 0x99
    runs = Runs()
    async with taker.worker(runs, scheduler_tick_ms=50):
        await runs.until(2)
    assert [(job.name, job.data, job.attempt) for job in runs.jobs] == [("report", {"to": "ada"}, 0)] * 2
    assert len(set(runs.ids)) == 2


async def test_a_cron_schedule_fires_on_the_other_side(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server
) -> None:
    repeat = giver.module.RepeatPattern.cron("* * * * * *", tz="Europe/Madrid")
    job = await giver.queue().upsert_repeatable_job("tick", None, repeat=repeat, limit=1)
    assert redis86.call("HGET", keys.repeat_spec(job.id), "spec")[0] == 0x98
    runs = Runs()
    async with taker.worker(runs, scheduler_tick_ms=50):
        await runs.until(1)
    assert runs.names == ["tick"]


async def test_an_upsert_of_one_side_changes_the_schedule_of_the_other(giver: Side, taker: Side) -> None:
    for side, data in ((giver, "old"), (taker, "new")):
        await side.queue().upsert_repeatable_job("ping", data, repeat=side.module.RepeatPattern.every(300), limit=1)
    runs = Runs()
    async with giver.worker(runs, scheduler_tick_ms=50):
        await runs.until(1)
    assert runs.data == ["new"]


async def test_a_1_3_0_scheduler_drops_a_schedule_with_retry_options_and_an_upsert_brings_it_back(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, until: Until, queue_name: str
) -> None:
    """Ten elements are more than it reads: in a mixed fleet, retry options want relevo's schedulers only."""
    every = ours.module.RepeatPattern.every(200)
    queue = ours.queue()
    job = await queue.upsert_repeatable_job("ping", None, repeat=every, attempts=2, limit=1)
    assert redis86.call("HGET", keys.repeat_spec(job.id), "spec")[0] == 0x9A
    async with scheduler(theirs, redis86, queue_name, "s-theirs"):
        await until(lambda: redis86.call("ZCARD", keys.repeat) == 0)
    assert redis86.call("XLEN", keys.stream) == 0
    assert redis86.call("HEXISTS", keys.repeat_spec(job.id), "spec") == 1
    await queue.upsert_repeatable_job("ping", None, repeat=every, attempts=2, limit=1)
    async with scheduler(ours, redis86, queue_name, "s-ours"):
        await until(lambda: redis86.call("XLEN", keys.stream) == 1)
    ((_, fields),) = redis86.call("XRANGE", keys.stream, "-", "+")
    retry = Envelope.decode(fields[1]).retry
    assert retry is not None
    assert retry.max_attempts == 2


# --- one leader -------------------------------------------------------------------------------------------------------


async def test_a_mixed_fleet_elects_one_scheduler_and_fires_every_slot_once(
    theirs: Side, ours: Side, giver: Side, keys: QueueKeys, redis86: Server, until: Until, queue_name: str
) -> None:
    async with (
        scheduler(giver, redis86, queue_name, "s-first"),
        scheduler(theirs, redis86, queue_name, "s-theirs"),
        scheduler(ours, redis86, queue_name, "s-ours"),
    ):
        await until(lambda: redis86.call("GET", keys.scheduler_lock) is not None)
        await upsert_slots(ours, 8)
        await until(lambda: redis86.call("ZCARD", keys.repeat) == 0)
        assert redis86.call("GET", keys.scheduler_lock) in (b"s-first", b"s-theirs", b"s-ours")
    assert redis86.call("XLEN", keys.stream) == 8
    assert redis86.call("EXISTS", keys.scheduler_lock) == 0


async def test_the_other_side_takes_over_when_the_leader_leaves(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until, queue_name: str
) -> None:
    async with scheduler(taker, redis86, queue_name, "s-taker"):
        await until(lambda: redis86.call("GET", keys.scheduler_lock) == b"s-taker")
        async with scheduler(giver, redis86, queue_name, "s-giver"):
            await upsert_slots(giver, 10)
            await until(lambda: redis86.call("XLEN", keys.stream) >= 2)
            assert redis86.call("GET", keys.scheduler_lock) == b"s-taker"
    async with scheduler(giver, redis86, queue_name, "s-giver"):
        await until(lambda: redis86.call("GET", keys.scheduler_lock) == b"s-giver")
        await until(lambda: redis86.call("ZCARD", keys.repeat) == 0)
    assert redis86.call("XLEN", keys.stream) == 10


async def test_the_other_side_takes_over_when_the_leader_is_killed(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until, queue_name: str
) -> None:
    with Child(sys.executable, "-c", PROGRAM, giver.name, redis86.url, queue_name, "s-killed") as child:
        await child.until(lambda: redis86.call("GET", keys.scheduler_lock) == b"s-killed", "lock of its own")
        await upsert_slots(giver, 10)
        await child.until(lambda: redis86.call("XLEN", keys.stream) >= 2, "slots that fired")
    async with scheduler(taker, redis86, queue_name, "s-taker"):
        await until(lambda: redis86.call("ZCARD", keys.repeat) == 0)
    assert redis86.call("XLEN", keys.stream) == 10
