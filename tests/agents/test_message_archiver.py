"""Finished messages move to the archive after an hour, whole, and once."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select

from relevo.agents.message_archiver import MessageArchiver
from relevo.work.store.tables import archive, labels, messages
from relevo.work.work_queues import WorkQueues
from tests.clock import Clock
from tests.support.desk import SCOPE, Desk


@pytest.fixture(autouse=True)
def whole_day(clock: Clock) -> None:
    """On a new day the archiver also folds the counters of the day before, and says so in what it has done."""
    clock.pass_midnight()


async def counted(work_queues: WorkQueues) -> tuple[int, int]:
    """Messages live and archived."""
    async with work_queues.database.connect() as connection:
        live = (await connection.execute(select(func.count()).select_from(messages))).scalar_one()
        old = (await connection.execute(select(func.count()).select_from(archive))).scalar_one()
    return live, old


async def completed(desk: Desk, count: int, **fields: Any) -> list[str]:
    await desk.publish(count, **fields)
    claimed = await desk.claim(count)
    await desk.settle("complete", claimed)
    return [each.id for each in claimed]


async def test_a_message_moves_an_hour_after_it_finished(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await completed(desk, 1)
    before = await desk.row(message_id)
    agent = MessageArchiver(desk.work_queues)
    desk.clock.turn(minutes=59)
    assert (await agent.work()).items == 0
    desk.clock.turn(minutes=2)
    assert (await agent.work()).items == 1
    assert await counted(desk.work_queues) == (0, 1)
    after = await desk.row(message_id)
    del after["archived_at"]
    assert {name: before[name] for name in after} == after


async def test_labels_and_idempotency_key_stay(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await completed(desk, 1, labels={"customer": "17"}, idempotency_key="once")
    desk.clock.turn(minutes=61)
    await MessageArchiver(desk.work_queues).work()
    async with desk.work_queues.database.connect() as connection:
        assert (await connection.execute(select(labels.c.message_id))).scalars().all() == [message_id]
    assert await desk.publish(idempotency_key="once") == [message_id]


async def test_what_waits_and_what_is_dead_stays(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=40_000)
    await desk.die()
    await desk.publish(2)
    await desk.claim()
    desk.clock.turn(minutes=90)
    assert (await MessageArchiver(desk.work_queues).work()).items == 0
    assert await counted(desk.work_queues) == (3, 0)


async def test_two_archivers_at_once_move_everything_once(desk: Desk) -> None:
    await desk.queue()
    ids = await completed(desk, 40)
    desk.clock.turn(minutes=61)
    agents = [MessageArchiver(desk.work_queues, batch=7) for _ in range(3)]

    async def run(agent: MessageArchiver) -> int:
        moved = 0
        while (batch := await agent.work()).items:
            moved += batch.items
        return moved

    assert sum(await asyncio.gather(*(run(agent) for agent in agents))) == len(ids)
    assert await counted(desk.work_queues) == (0, 40)


async def test_a_broadcast_message_without_subscribers_is_done_after_an_hour(desk: Desk) -> None:
    await desk.queue("news", consumer_mode="broadcast")
    (message_id,) = await desk.publish(1, "news")
    agent = MessageArchiver(desk.work_queues)
    await agent.work()
    assert (await desk.row(message_id))["state"] == "pending"
    desk.clock.turn(minutes=61)
    await agent.work()
    assert (await desk.row(message_id))["state"] == "completed"


async def test_an_archived_message_comes_back_for_a_subscription_from_the_beginning(desk: Desk) -> None:
    await desk.queue("news", consumer_mode="broadcast")
    (message_id,) = await desk.publish(1, "news")
    agent = MessageArchiver(desk.work_queues)
    for _ in range(2):
        desk.clock.turn(minutes=61)
        await agent.work()
    assert await counted(desk.work_queues) == (0, 1)
    await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", "late", after=0)
    assert await counted(desk.work_queues) == (1, 0)
    (claimed,) = await desk.claim(1, "news", subscription="late")
    assert claimed.id == message_id
    await desk.settle("complete", [claimed])
    assert (await desk.row(message_id))["state"] == "completed"
