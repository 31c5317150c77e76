"""Rows and what was derived from them agree, or are made to."""

from typing import Any

import msgspec
from sqlalchemy import select, update

from relevo.agents.index_auditor import IndexAuditor
from relevo.work.store.counters import depths_of
from relevo.work.store.tables import messages, tallies
from tests.servers.server import Server
from tests.support.desk import Desk


async def audited(agent: IndexAuditor) -> int:
    """One whole run."""
    found = 0
    while True:
        batch = await agent.work()
        found += batch.items
        if not batch.more:
            return found


async def told(desk: Desk, queue: str) -> list[tuple[str, Any]]:
    claimed = await desk.claim(100, queue)
    return [(each.message_type, msgspec.json.decode(each.body)) for each in claimed]


async def with_index(desk: Desk) -> int:
    """A priority queue with five messages, oldest first, and its index."""
    queue_id = (await desk.queue(ordering="priority")).id
    for score in (50, 40, 30, 20, 10):
        await desk.publish(priority_score=score)
    assert await desk.work_queues.ready_index.rebuild(queue_id)
    desk.clock.turn(s=10)
    return queue_id


async def test_what_agrees_is_not_told_of(indexed: Desk) -> None:
    await with_index(indexed)
    assert await audited(IndexAuditor(indexed.work_queues)) == 0
    assert await told(indexed, "_integrity") == []


async def test_a_message_that_the_index_lost_is_put_back_and_told_of(indexed: Desk, valkey: Server) -> None:
    queue_id = await with_index(indexed)
    keys = indexed.work_queues.ready_index.keys(queue_id)
    async with indexed.work_queues.database.connect() as connection:
        first = (await connection.execute(select(messages.c.id).order_by(messages.c.sort_key).limit(1))).scalar_one()
    client = valkey.client()
    await client.zrem(keys.order, first)
    assert await audited(IndexAuditor(indexed.work_queues, page=2)) == 1
    assert int(await client.zscore(keys.order, first)) == -2050
    await client.aclose()
    ((kind, finding),) = await told(indexed, "_integrity")
    assert (kind, finding["message_ids"], finding["queue"]) == ("found.index_missing", [first], "jobs")
    assert [kind for kind, _ in await told(indexed, "_corrections")] == ["corrected.index_missing"]


async def test_a_message_in_the_wrong_place_is_put_right(indexed: Desk, valkey: Server) -> None:
    queue_id = await with_index(indexed)
    keys = indexed.work_queues.ready_index.keys(queue_id)
    client = valkey.client()
    (last,) = await client.zrange(keys.order, 4, 4)
    await client.zadd(keys.order, {last: -9999})
    assert await audited(IndexAuditor(indexed.work_queues)) == 1
    assert int(await client.zscore(keys.order, last)) == -2010
    await client.aclose()


async def test_depths_that_drifted_are_corrected(desk: Desk) -> None:
    queue_id = (await desk.queue()).id
    await desk.publish(3)
    async with desk.work_queues.database.begin() as connection:
        mine = tallies.c.queue_id == queue_id
        await connection.execute(update(tallies).where(mine).values(pending=tallies.c.pending + 7, claimed=2))
    await audited(IndexAuditor(desk.work_queues))
    depth = (await depths_of(desk.work_queues.database, [queue_id]))[queue_id]
    assert (depth.pending, depth.claimed) == (3, 0)
    ((kind, finding),) = await told(desk, "_corrections")
    assert (kind, finding["before"]) == ("corrected.depth_drift", {"pending": -7, "claimed": -2})


async def test_claims_that_nobody_returned_are_told_of(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=1)
    (message_id,) = await desk.publish()
    await desk.claim()
    desk.clock.turn(minutes=5)
    assert await audited(IndexAuditor(desk.work_queues)) == 1
    ((kind, finding),) = await told(desk, "_integrity")
    assert (kind, finding["message_ids"]) == ("found.stuck_claim", [message_id])
    assert await told(desk, "_corrections") == []
