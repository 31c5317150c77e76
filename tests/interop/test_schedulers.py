"""Schedulers of both libraries on one queue: one leads, the other takes over, and no slot is fired twice or left out."""

import asyncio
import sys
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

_EVERY_MS = 250

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


class Slots:
    """A schedule that nobody fires yet, and none of whose slots may be left out. It has no end: ChasquiMQ, late, fires slots
    behind one."""

    def __init__(self, server: Server, keys: QueueKeys) -> None:
        self._server = server
        self._keys = keys
        self._first = self._next()

    @staticmethod
    async def of(side: Side, server: Server, keys: QueueKeys) -> "Slots":
        every, all_of_them = side.module.RepeatPattern.every(_EVERY_MS), side.module.MissedFiresPolicy.fire_all(1000)
        await side.queue().upsert_repeatable_job("ping", None, repeat=every, missed_fires=all_of_them)
        return Slots(server, keys)

    def fired(self) -> int:
        return self._server.call("XLEN", self._keys.stream)

    def over(self) -> float:
        """How many of its slots are not to come any more, now that no scheduler runs."""
        return (self._next() - self._first) / _EVERY_MS

    def _next(self) -> float:
        _, score = self._server.call("ZRANGE", self._keys.repeat, 0, -1, "WITHSCORES")
        return float(score)


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
    slots = await Slots.of(ours, redis86, keys)
    async with (
        scheduler(giver, redis86, queue_name, "s-first"),
        scheduler(theirs, redis86, queue_name, "s-theirs"),
        scheduler(ours, redis86, queue_name, "s-ours"),
    ):
        await until(lambda: slots.fired() >= 8)
        assert redis86.call("GET", keys.scheduler_lock) in (b"s-first", b"s-theirs", b"s-ours")
    assert slots.fired() == slots.over()
    assert redis86.call("EXISTS", keys.scheduler_lock) == 0


async def test_the_other_side_takes_over_when_the_leader_leaves(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until, queue_name: str
) -> None:
    slots = await Slots.of(giver, redis86, keys)
    async with scheduler(taker, redis86, queue_name, "s-taker"):
        await until(lambda: redis86.call("GET", keys.scheduler_lock) == b"s-taker")
        async with scheduler(giver, redis86, queue_name, "s-giver"):
            before = slots.fired()
            await until(lambda: slots.fired() >= before + 2)
            assert redis86.call("GET", keys.scheduler_lock) == b"s-taker"
    async with scheduler(giver, redis86, queue_name, "s-giver"):
        await until(lambda: redis86.call("GET", keys.scheduler_lock) == b"s-giver")
        before = slots.fired()
        await until(lambda: slots.fired() >= before + 3)
    assert slots.fired() == slots.over()


async def test_the_other_side_takes_over_when_the_leader_is_killed(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server, until: Until, queue_name: str
) -> None:
    slots = await Slots.of(giver, redis86, keys)
    with Child(sys.executable, "-c", PROGRAM, giver.name, redis86.url, queue_name, "s-killed") as child:
        await child.until(lambda: redis86.call("GET", keys.scheduler_lock) == b"s-killed", "lock of its own")
        await child.until(lambda: slots.fired() >= 2, "slots that fired")
    before = slots.fired()
    async with scheduler(taker, redis86, queue_name, "s-taker"):
        await until(lambda: slots.fired() >= before + 3)
    assert slots.fired() == slots.over()
