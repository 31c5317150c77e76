"""Tallies of days that are over become one row a queue and day, and every sum stays what it was."""

import asyncio
from datetime import date

from sqlalchemy import func, select

from relevo.agents.message_archiver import MessageArchiver
from relevo.work.retention.counter_rollup import FOLDED_SLOT, fold
from relevo.work.store.counters import depths_of
from relevo.work.store.tables import tallies
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.support.desk import Desk, tallied

DAY_S = 86_400


async def rows(work_queues: WorkQueues) -> int:
    async with work_queues.database.connect() as connection:
        return (await connection.execute(select(func.count()).select_from(tallies))).scalar_one()


async def slots(work_queues: WorkQueues, queue_id: int) -> list[tuple[int, int]]:
    query = select(tallies.c.day, tallies.c.slot).where(tallies.c.queue_id == queue_id).order_by(tallies.c.day)
    async with work_queues.database.connect() as connection:
        return [(row.day, row.slot) for row in await connection.execute(query)]


async def test_a_day_that_is_over_becomes_one_row(desk: Desk) -> None:
    queue_id = (await desk.queue()).id
    await desk.publish(4)
    await desk.settle("complete", await desk.claim(1))
    await desk.die()  # a cold slot beside the hot ones
    today = desk.clock() // 86_400_000
    sums, depth = await tallied(desk.work_queues, queue_id), await depths_of(desk.work_queues.database, [queue_id])
    desk.clock.turn(s=DAY_S + 3600)
    while (await MessageArchiver(desk.work_queues).work()).more:
        pass
    assert [slot for day, slot in await slots(desk.work_queues, queue_id) if day == today] == [FOLDED_SLOT]
    assert await tallied(desk.work_queues, queue_id) == sums
    assert await depths_of(desk.work_queues.database, [queue_id]) == depth


async def test_today_and_the_minutes_after_midnight_are_left_alone(desk: Desk) -> None:
    queue_id = (await desk.queue()).id
    to_midnight = DAY_S - desk.clock() % 86_400_000 / 1000
    desk.clock.turn(s=to_midnight + DAY_S - 60)  # the last minute of tomorrow
    await desk.publish()
    day = desk.clock() // 86_400_000
    agent = MessageArchiver(desk.work_queues)
    desk.clock.turn(s=300)
    await agent.work()
    assert (day, FOLDED_SLOT) not in await slots(desk.work_queues, queue_id)
    desk.clock.turn(s=600)
    await agent.work()
    assert await slots(desk.work_queues, queue_id) == [(day, FOLDED_SLOT)]


async def test_what_is_added_late_to_a_folded_day_is_folded_the_next_day(desk: Desk) -> None:
    queue_id = (await desk.queue()).id
    await desk.publish(3)
    day = desk.clock() // 86_400_000
    assert (await fold(desk.work_queues.database, desk.work_queues.transactions, before=day + 1))[0] == 1
    await desk.publish(2)  # by a process whose clock is late
    assert len(await slots(desk.work_queues, queue_id)) == 2
    agent = MessageArchiver(desk.work_queues)
    desk.clock.turn(s=DAY_S + 3600)
    await agent.work()
    assert await slots(desk.work_queues, queue_id) == [(day, FOLDED_SLOT)]
    assert (await tallied(desk.work_queues, queue_id))["published"] == 5


async def test_usage_of_a_folded_day_is_what_it_was(desk: Desk) -> None:
    await desk.queue()
    await desk.publish(3)
    await desk.settle("complete", await desk.claim(2))
    since = date(2020, 1, 1)
    before = (await desk.work_queues.usage.list(desk.caller, since=since)).items
    await fold(desk.work_queues.database, desk.work_queues.transactions, before=desk.clock() // 86_400_000 + 1)
    assert (await desk.work_queues.usage.list(desk.caller, since=since)).items == before
    assert sum(row.published for row in before) == 3


async def test_folding_while_others_add_counts_everything_once(desk: Desk, database_url: str, clock: Clock) -> None:
    """The same day is folded again and again while several offices, each with slots of its own, publish and complete in it."""
    queue_id = (await desk.queue()).id
    tomorrow = desk.clock() // 86_400_000 + 2  # "before" it lies what is being added to now
    working = True

    async def work(one: Desk) -> None:
        for _ in range(15):
            await one.publish(3)
            await one.settle("complete", await one.claim(2))

    async def folding() -> int:
        folded = 0
        while working:
            folded += (await fold(desk.work_queues.database, desk.work_queues.transactions, before=tomorrow))[0]
        return folded

    offices = [await WorkQueues.open(WorkSettings(database_url=database_url), now_ms=clock) for _ in range(2)]
    try:
        folder = asyncio.ensure_future(folding())
        await asyncio.gather(*(work(desk.at(work_queues)) for work_queues in (desk.work_queues, *offices)))
        working = False
        assert await folder > 3
    finally:
        for work_queues in offices:
            await work_queues.close()
    await fold(desk.work_queues.database, desk.work_queues.transactions, before=tomorrow)
    sums = await tallied(desk.work_queues, queue_id)
    assert (sums["published"], sums["completed"], sums["pending"], sums["claimed"]) == (135, 90, 45, 0)


async def test_many_queues_and_days_are_folded_in_batches(desk: Desk) -> None:
    for n in range(18):
        await desk.queue(f"q{n}")
    for _ in range(3):
        for n in range(18):
            await desk.publish(queue=f"q{n}")
        desk.clock.turn(s=DAY_S)
    before = await rows(desk.work_queues)
    first, more = await fold(
        desk.work_queues.database, desk.work_queues.transactions, before=desk.clock() // 86_400_000
    )
    second, rest = await fold(
        desk.work_queues.database, desk.work_queues.transactions, before=desk.clock() // 86_400_000
    )
    assert (first, more, second, rest) == (50, True, 4, False)
    assert await rows(desk.work_queues) == before == 54
