"""A failed message is tried again after a while, then buried."""

from typing import Any

from sqlalchemy import insert, select, update

from relevo.work.store.counters import Depth
from relevo.work.store.tables import messages, ready
from tests.clock import Clock
from tests.support.desk import Desk, new


async def promote(desk: Desk, message_id: str) -> None:
    """What the enforcer does when a delay is over, for one message."""
    async with desk.work_queues.database.begin() as connection:
        mine = messages.c.id == message_id
        await connection.execute(update(messages).where(mine).values(visible_at=None))
        place = select(messages.c.queue_id, messages.c.sort_key, messages.c.id).where(mine)
        await connection.execute(insert(ready).from_select(["queue_id", "sort_key", "id"], place))


async def fail(desk: Desk, **fields: Any) -> tuple[str | None, int | None]:
    (claimed,) = await desk.claim()
    (settled,) = await desk.settle("fail", claimed, **fields)
    return settled.state, settled.visible_at


async def test_waits_grow_up_to_the_cap(desk: Desk, clock: Clock) -> None:
    await desk.queue(
        backoff_initial_ms=10_000, backoff_multiplier=3.0, backoff_cap_ms=50_000, backoff_jitter_ms=0, max_retries=9
    )
    (message_id,) = await desk.ids(new())
    waits: list[int] = []
    for _ in range(4):
        state, visible_at = await fail(desk)
        assert (state, visible_at is not None) == ("delayed", True)
        waits.append(round(((visible_at or 0) - clock()) / 10_000))
        await promote(desk, message_id)
    assert waits == [1, 3, 5, 5]


async def test_the_last_try_goes_to_the_dead_letters_of_the_scope(desk: Desk) -> None:
    queue = await desk.queue(max_retries=2, backoff_initial_ms=0, backoff_jitter_ms=0)
    (message_id,) = await desk.ids(new())
    assert (await fail(desk, reason="no"))[0] == "pending"
    assert (await fail(desk, reason="never"))[0] == "dead"
    row = await desk.row(message_id)
    assert (row["state"], row["queue_id"], row["origin_queue_id"]) == ("dead", queue.dead_letter_id, queue.id)
    assert (row["failure_reason"], row["attempts"]) == ("never", 2)
    assert await desk.depth() == Depth()
    assert await desk.depth("_dead_letter") == Depth(dead=1)
    assert await desk.history(message_id) == ["published", "claimed", "failed", "claimed", "dead_lettered"]


async def test_a_worker_can_bury_at_once(desk: Desk) -> None:
    await desk.queue(max_retries=9)
    await desk.ids(new())
    assert (await fail(desk, dead=True, reason="broken"))[0] == "dead"


async def test_dead_letters_are_not_claimed(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    await fail(desk, dead=True)
    assert await desk.claim(5, "_dead_letter") == []


async def test_a_buried_message_answers_its_burial_again(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new())
    (claimed,) = await desk.claim()
    first = await desk.settle("fail", claimed, dead=True)
    assert await desk.settle("fail", claimed, dead=True) == first


async def test_a_failure_without_a_wait_is_claimable_at_once(desk: Desk) -> None:
    await desk.queue(backoff_initial_ms=0, backoff_jitter_ms=0)
    await desk.ids(new())
    assert await fail(desk) == ("pending", None)
    (again,) = await desk.claim()
    assert again.attempts == 2
