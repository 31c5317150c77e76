"""Every slot of a schedule becomes one job: with many schedulers, and when the one that leads dies."""

import asyncio
import itertools
from collections.abc import Sequence

from relevo import Queue, RepeatPattern
from relevo.engine.schedules.scheduler import SchedulerService, SchedulerTick
from relevo.engine.service.signals import Signal
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import SchedulerOf, WorkerOf
from tests.conformance.fires import Fires, slot_of_id
from tests.conformance.group import Group
from tests.pace import limit
from tests.servers.server import Client
from tests.support.runs import Runs


async def fired_in_all(loops: Sequence[SchedulerService], count: int) -> None:
    """Returns when the loops together have fired `count` jobs."""
    fired = 0
    grown: Signal[int] = Signal()

    def add_up(tick: SchedulerTick) -> None:
        nonlocal fired
        fired += tick.fired
        grown.emit(fired)

    stops = [loop.fired.listen(add_up) for loop in loops]
    await grown.wait_for(lambda total: total >= count, timeout=limit(30))
    for stop in stops:
        stop()


def steps(slots: Sequence[int]) -> set[int]:
    """The distances between neighbours."""
    return {later - earlier for earlier, later in itertools.pairwise(slots)}


async def test_a_fire_is_a_job_with_the_schedules_name_and_data(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    before = await queue.upsert_repeatable_job("report", {"kind": "daily"}, repeat=RepeatPattern.every(50), limit=1)
    async with worker_of(runs, scheduler_tick_ms=20):
        (job,) = await runs.until(1)
    assert (job.name, job.data, job.attempt, before.id) == ("report", {"kind": "daily"}, 0, "report::every:50")


async def test_every_slot_fires_once_with_many_schedulers(
    queue: Queue, scheduler_of: SchedulerOf, fires: Fires
) -> None:
    schedulers = [scheduler_of() for _ in range(5)]
    await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(60), limit=10)
    for each in schedulers:
        each.start()
    await fired_in_all(schedulers, 10)
    slots = await fires.slots()
    assert len(slots) == 10
    assert steps(slots) == {60}


async def test_every_slot_fires_once_with_many_workers(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(60), limit=6)
    options = {"scheduler_tick_ms": 20}
    async with worker_of(runs, **options), worker_of(runs, **options), worker_of(runs, **options):
        await runs.until(6)
    assert steps(sorted(slot_of_id(job_id) for job_id in runs.ids)) == {60}
    assert set(runs.by_id.values()) == {1}


async def test_schedulers_that_all_believe_to_lead_fire_a_slot_once(
    queue: Queue, scheduler_of: SchedulerOf, fires: Fires
) -> None:
    twins = [scheduler_of("s-the-same") for _ in range(4)]
    key = (await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(60_000))).id
    slot = await fires.turn_back(key, 10)
    ticks = await asyncio.gather(*(twin.tick() for twin in twins))
    assert len(ticks) == 4
    assert await fires.slots() == [slot]


async def test_a_leader_that_lost_its_lock_fires_nothing(
    queue: Queue, scheduler: SchedulerService, fires: Fires, raw: Client, keys: QueueKeys
) -> None:
    key = (await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(60_000))).id
    await scheduler.tick()
    await raw.set(keys.scheduler_lock, "s-another", ex=60)
    await fires.turn_back(key, 10)
    await scheduler.tick()
    assert await fires.slots() == []
    assert not scheduler.leads


async def test_no_slot_is_lost_or_doubled_when_the_leader_dies(
    queue: Queue, scheduler_of: SchedulerOf, fires: Fires, raw: Client, keys: QueueKeys
) -> None:
    leader, heir = scheduler_of("s-leader", lock_ttl_s=1), scheduler_of("s-heir", lock_ttl_s=1)
    await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(100), limit=20)
    leader.start()
    await fired_in_all([leader], 2)
    heir.start()
    leader.cancel()
    assert await raw.get(keys.scheduler_lock) == b"s-leader"  # as after a kill: nobody gave it up
    await heir.leading.wait_for(bool, timeout=limit(20))
    while await fires.score("ping::every:100") is not None:
        await heir.fired.wait_for(timeout=limit(20))
    slots = await fires.slots()
    assert len(slots) == 20
    assert steps(slots) == {100}


async def test_a_leader_that_stops_leaves_the_lock_to_the_next_at_once(
    queue: Queue, scheduler_of: SchedulerOf, raw: Client, keys: QueueKeys
) -> None:
    leader, heir = scheduler_of("s-leader"), scheduler_of("s-heir")
    leader.start()
    await leader.leading.wait_for(bool, timeout=limit(20))
    await leader.stop()
    await heir.tick()
    assert heir.leads
    assert await raw.get(keys.scheduler_lock) == b"s-heir"


async def test_defect_04_an_interval_shorter_than_the_tick_fires_every_slot(
    queue: Queue, scheduler_of: SchedulerOf, fires: Fires
) -> None:
    """ChasquiMQ's defect 4: under its default policy such a schedule never fired."""
    key = (await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(50))).id
    slot = await fires.turn_back(key, 930)
    await scheduler_of(every=1.0).tick()
    slots = await fires.slots()
    assert slots[:19] == [slot + n * 50 for n in range(19)]
    assert await fires.score(key) == slots[-1] + 50


async def test_defect_05_cron_slots_are_whole_seconds(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    """ChasquiMQ's defect 5: its cron fires carry the milliseconds of the upsert for ever."""
    key = (await queue.upsert_repeatable_job("tick", None, repeat=RepeatPattern.cron("* * * * * *"))).id
    first = await fires.score(key)
    scheduler.start()
    await fired_in_all([scheduler], 1)
    assert first is not None
    assert first % 1000 == 0
    assert await fires.slots() == [first]
    assert await fires.score(key) == first + 1000


async def test_a_fire_into_a_full_stream_waits_in_the_delayed_set(
    queue: Queue, scheduler_of: SchedulerOf, fires: Fires, group: Group, worker_of: WorkerOf
) -> None:
    waiting = await queue.add("waiting", None)
    key = (await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(60_000))).id
    slot = await fires.turn_back(key, 10)
    await scheduler_of("s-full", stream_cap=1).tick()
    assert await group.length() == 1
    assert await fires.delayed_slots() == [slot]
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=2)
    assert runs.ids[0] == waiting.id
    assert [slot_of_id(job_id) for job_id in runs.ids[1:]] == [slot]


async def test_schedules_go_on_after_the_servers_scripts_were_flushed(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    key = (await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(60_000))).id
    await scheduler.tick()
    fires.server.call("SCRIPT", "FLUSH", "SYNC")
    await queue.upsert_repeatable_job("ping", {"new": True}, repeat=RepeatPattern.every(60_000))
    slot = await fires.turn_back(key, 10)
    fires.server.call("SCRIPT", "FLUSH", "SYNC")
    scheduler.start()
    await fired_in_all([scheduler], 1)
    assert await fires.slots() == [slot]


async def test_more_schedules_than_a_batch_all_fire(queue: Queue, scheduler_of: SchedulerOf, fires: Fires) -> None:
    keys = [
        (await queue.upsert_repeatable_job("ping", at, repeat=RepeatPattern.every(60_000), key=f"ping-{at}")).id
        for at in range(7)
    ]
    for key in keys:
        await fires.turn_back(key, 10)
    scheduler = scheduler_of(batch=3)
    scheduler.start()
    await fired_in_all([scheduler], 7)
    assert len(await fires.slots()) == 7
