"""Long-waiting messages of priority queues become more urgent."""

import asyncio

from relevo.agents.priority_aging_worker import PriorityAgingWorker
from tests.support.desk import Desk


async def aged(agent: PriorityAgingWorker) -> int:
    """One whole run."""
    raised = 0
    while True:
        batch = await agent.work()
        raised += batch.items
        if not batch.more:
            return raised


async def test_a_message_that_waited_long_overtakes_a_newer_one_of_its_tier(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    (old,) = await desk.publish(priority_score=10)
    desk.clock.turn(minutes=6)
    (new,) = await desk.publish(priority_score=40)
    assert await aged(PriorityAgingWorker(desk.work_queues, step=50)) == 1
    assert (await desk.row(old))["priority_score"] == 60
    assert [each.id for each in await desk.claim(2)] == [old, new]


async def test_a_message_stays_in_its_tier(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    (low,) = await desk.publish(priority_tier="low", priority_score=990)
    (normal,) = await desk.publish(priority_tier="normal")
    agent = PriorityAgingWorker(desk.work_queues, step=500)
    for _ in range(3):
        desk.clock.turn(minutes=6)
        await aged(agent)
    row = await desk.row(low)
    assert (row["priority_tier"], row["priority_score"], row["sort_key"]) == (1, 999, -1999)
    assert [each.id for each in await desk.claim(2)] == [normal, low]


async def test_it_crosses_tiers_where_the_queue_says_so(desk: Desk) -> None:
    await desk.queue(ordering="priority", aging_crosses_tiers=True)
    (message_id,) = await desk.publish(priority_tier="low", priority_score=990)
    desk.clock.turn(minutes=6)
    await aged(PriorityAgingWorker(desk.work_queues))
    row = await desk.row(message_id)
    assert (row["priority_tier"], row["priority_score"], row["sort_key"]) == (2, 0, -2000)


async def test_nothing_is_above_the_top(desk: Desk) -> None:
    await desk.queue(ordering="priority", aging_crosses_tiers=True)
    await desk.publish(priority_tier="critical", priority_score=999)
    desk.clock.turn(minutes=6)
    assert await aged(PriorityAgingWorker(desk.work_queues)) == 0


async def test_young_messages_and_other_queues_are_left_alone(desk: Desk) -> None:
    await desk.queue("first", ordering="priority")
    await desk.queue("second", ordering="fifo")
    await desk.publish(1, "second")
    desk.clock.turn(minutes=6)
    await desk.publish(1, "first")
    assert await aged(PriorityAgingWorker(desk.work_queues)) == 0


async def test_two_runs_at_once_raise_each_message_once_page_by_page(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    ids = await desk.publish(25)
    desk.clock.turn(minutes=6)
    raised = await asyncio.gather(*(aged(PriorityAgingWorker(desk.work_queues, step=7, batch=4)) for _ in range(2)))
    assert sum(raised) == 25
    assert {(await desk.row(each))["priority_score"] for each in ids} == {7}


async def test_the_order_index_follows(indexed: Desk) -> None:
    queue_id = (await indexed.queue(ordering="priority")).id
    (old,) = await indexed.publish(priority_score=10)
    assert await indexed.work_queues.ready_index.rebuild(queue_id)
    indexed.clock.turn(minutes=6)
    (new,) = await indexed.publish(priority_score=40)
    await aged(PriorityAgingWorker(indexed.work_queues, step=50))
    assert await indexed.work_queues.ready_index.places(queue_id, [old, new]) == [-2060, -2040]
    assert [each.id for each in await indexed.claim(2)] == [old, new]
