"""A queue's max_depth: exact, however many publish at once, and with the policy it was given."""

import asyncio

from relevo.contract.messages import Published, Refusal
from tests.support.desk import Desk, new, number
from tests.work.conftest import OpenWorkQueues


async def test_reject_takes_what_fits_and_refuses_the_rest(desk: Desk) -> None:
    await desk.queue(max_depth=3)
    outcomes = await desk.outcomes(*(new(n) for n in range(5)))
    assert [each.code if isinstance(each, Refusal) else each.state for each in outcomes] == [
        *("pending", "pending", "pending"),
        *("QUEUE_FULL", "QUEUE_FULL"),
    ]
    assert [number(each) for each in await desk.claim(10)] == [0, 1, 2]


async def test_what_is_claimed_makes_room(desk: Desk) -> None:
    await desk.queue(max_depth=1)
    await desk.ids(new(0))
    await desk.claim()
    (outcome,) = await desk.outcomes(new(1))
    assert isinstance(outcome, Published)


async def test_what_comes_back_is_never_refused(desk: Desk) -> None:
    await desk.queue(max_depth=1)
    await desk.ids(new(0))
    (claimed,) = await desk.claim()
    await desk.ids(new(1))
    (settled,) = await desk.settle("release", claimed)
    assert settled.state == "pending"
    assert (await desk.depth()).pending == 2


async def test_the_limit_is_exact_under_concurrency(desk: Desk, open_work_queues: OpenWorkQueues) -> None:
    await desk.queue(max_depth=25)
    desks = [desk, desk.at(await open_work_queues())]
    outcomes = await asyncio.gather(*(desks[n % 2].outcomes(new(n), new(n)) for n in range(30)))
    published = [each for outcome in outcomes for each in outcome if isinstance(each, Published)]
    assert len(published) == 25
    assert await desk.states() == {"pending": 25}


async def test_drop_oldest_cancels_the_oldest(desk: Desk) -> None:
    await desk.queue(max_depth=2, overflow_policy="drop_oldest")
    first, *_ = await desk.ids(new(0), new(1))
    await desk.ids(new(2))
    row = await desk.row(first)
    assert (row["state"], row["failure_reason"]) == ("cancelled", "overflow")
    assert [number(each) for each in await desk.claim(10)] == [1, 2]


async def test_dead_letter_oldest_buries_the_oldest(desk: Desk) -> None:
    queue = await desk.queue(max_depth=2, overflow_policy="dead_letter_oldest", ordering="priority")
    first, *_ = await desk.ids(new(0, priority_tier="high"), new(1))
    await desk.ids(new(2))
    row = await desk.row(first)
    assert (row["state"], row["queue_id"], row["origin_queue_id"]) == ("dead", queue.dead_letter_id, queue.id)
    assert [number(each) for each in await desk.claim(10)] == [1, 2]


async def test_a_batch_larger_than_the_queue_is_cut(desk: Desk) -> None:
    await desk.queue(max_depth=3, overflow_policy="drop_oldest")
    await desk.ids(new(0))
    outcomes = await desk.outcomes(*(new(n) for n in range(1, 6)))
    assert [isinstance(each, Published) for each in outcomes] == [True, True, True, False, False]
    assert await desk.states() == {"pending": 3, "cancelled": 1}
