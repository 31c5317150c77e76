"""What becomes of the slots that passed while no scheduler ran: each policy, with its caps."""

from typing import Any

import pytest

from relevo import MissedFiresPolicy, Queue, RepeatPattern
from relevo.engine.schedules.scheduler import SchedulerService
from tests.conformance.fires import Fires

EVERY = 60_000
MISSED = 6 * EVERY + 8000
"""Seven slots ago, the latest of them just out of the grace of seven seconds."""
LATE = 6 * EVERY + 2000
"""Seven slots ago, the latest of them within the grace."""


async def after_downtime(queue: Queue, fires: Fires, ms: int, policy: MissedFiresPolicy | None, **options: Any) -> int:
    """A schedule nobody has looked at for `ms`: its first missed slot."""
    repeat = RepeatPattern.every(EVERY)
    await queue.upsert_repeatable_job("ping", None, repeat=repeat, key="ping", missed_fires=policy, **options)
    return await fires.turn_back("ping", ms)


async def test_skip_leaves_missed_slots_out(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    first = await after_downtime(queue, fires, MISSED, MissedFiresPolicy.skip())
    await scheduler.tick()
    assert await fires.slots() == []
    assert await fires.score("ping") == first + 7 * EVERY


async def test_skip_still_fires_a_slot_that_is_only_late(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    first = await after_downtime(queue, fires, LATE, MissedFiresPolicy.skip())
    await scheduler.tick()
    assert await fires.slots() == [first + 6 * EVERY]


async def test_skip_is_what_happens_without_a_policy(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    await after_downtime(queue, fires, MISSED, None)
    await scheduler.tick()
    assert await fires.slots() == []


async def test_fire_once_fires_one_for_all(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    first = await after_downtime(queue, fires, LATE, MissedFiresPolicy.fire_once())
    await scheduler.tick()
    await scheduler.tick()
    assert await fires.slots() == [first]
    assert await fires.score("ping") == first + 7 * EVERY


async def test_a_downtime_is_told_in_one_line_and_is_a_warning_only_where_slots_are_lost(
    queue: Queue, scheduler: SchedulerService, fires: Fires, caplog: pytest.LogCaptureFixture
) -> None:
    repeat = RepeatPattern.every(EVERY)
    policies = {
        "a": None,
        "b": MissedFiresPolicy.skip(),
        "c": MissedFiresPolicy.fire_once(),
        "d": MissedFiresPolicy.fire_all(2),
    }
    for key, policy in policies.items():
        await queue.upsert_repeatable_job("ping", None, repeat=repeat, key=key, missed_fires=policy)
        await fires.turn_back(key, MISSED)
    with caplog.at_level("INFO", "relevo.scheduler"):
        await scheduler.tick()
        await scheduler.tick()
    told = {record.levelname: record.getMessage().rpartition("schedules ")[2] for record in caplog.records}
    assert len(caplog.records) == 2
    assert sorted(told) == ["INFO", "WARNING"]
    assert told["WARNING"].startswith("that missed fires: 2 (")
    assert told["INFO"].startswith("caught up: 2 (")


@pytest.mark.parametrize(("cap", "fired"), [(1, 1), (3, 3), (7, 7), (100, 7)])
async def test_fire_all_fires_the_latest_slots_up_to_its_cap(
    queue: Queue, scheduler: SchedulerService, fires: Fires, cap: int, fired: int
) -> None:
    first = await after_downtime(queue, fires, LATE, MissedFiresPolicy.fire_all(cap))
    await scheduler.tick()
    await scheduler.tick()
    assert await fires.slots() == [first + n * EVERY for n in range(7 - fired, 7)]
    assert await fires.score("ping") == first + 7 * EVERY


async def test_fire_all_stops_at_the_limit_and_ends_the_schedule(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    first = await after_downtime(queue, fires, LATE, MissedFiresPolicy.fire_all(5), limit=2)
    await scheduler.tick()
    assert await fires.slots() == [first + 2 * EVERY, first + 3 * EVERY]
    assert await fires.score("ping") is None
    assert await fires.stored("ping") == {}


async def test_fire_all_stops_at_the_end(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    await queue.upsert_repeatable_job(
        "ping",
        None,
        repeat=RepeatPattern.every(EVERY),
        key="ping",
        missed_fires=MissedFiresPolicy.fire_all(100),
        end_before_ms=fires.now() + EVERY + 5000,
    )
    repeatables = queue.repeatables
    spec = await repeatables.recipe("ping")
    first = await fires.turn_back("ping", LATE)
    await fires.store("ping", end_before_ms=first + 2 * EVERY, spec=spec)
    await scheduler.tick()
    assert await fires.slots() == [first, first + EVERY, first + 2 * EVERY]
    assert await fires.score("ping") is None


async def test_one_tick_fires_ten_thousand_slots_at_most(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    policy = MissedFiresPolicy.fire_all(50_000)
    await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(1), key="ping", missed_fires=policy)
    await fires.turn_back("ping", 30_000)
    await scheduler.tick()
    slots = await fires.slots()
    assert len(slots) == 10_000
    assert slots == list(range(slots[0], slots[0] + 10_000))
    assert await fires.score("ping") == slots[-1] + 1


async def test_many_fires_of_a_large_payload_go_in_portions_and_none_is_lost(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    policy = MissedFiresPolicy.fire_all(100)
    await queue.upsert_repeatable_job(
        "ping", b"x" * 200_000, repeat=RepeatPattern.every(EVERY), key="ping", missed_fires=policy
    )
    first = await fires.turn_back("ping", 99 * EVERY + 2000)
    await scheduler.tick()
    portion = len(await fires.slots())
    while (await fires.score("ping") or 0) < fires.now():
        await scheduler.tick()
    assert 0 < portion < 100
    assert await fires.slots() == [first + n * EVERY for n in range(100)]


async def test_missed_cron_slots_are_those_of_the_expression(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    policy = MissedFiresPolicy.fire_all(3)
    repeat = RepeatPattern.cron("*/10 * * * * *")
    await queue.upsert_repeatable_job("ping", None, repeat=repeat, key="ping", missed_fires=policy)
    following = await fires.score("ping")
    assert following is not None
    await fires.set_score("ping", following - 60_000)
    await scheduler.tick()
    last = (await fires.slots())[-1]
    assert await fires.slots() == [last - 20_000, last - 10_000, last]
    assert await fires.score("ping") == last + 10_000
