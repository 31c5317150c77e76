"""A long poll wakes when there is something to claim: at once on the same node, through Redis on others, by looking without."""

import asyncio
import time
from itertools import count

import pytest

from relevo.contract.claims import Claimed
from relevo.work.consume.claims import LONGEST_WAIT_S
from relevo.work.consume.long_poll import CancelToken
from relevo.work.work_queues import WorkQueues
from tests.pace import limit
from tests.patience import turn
from tests.servers.stores import STORES
from tests.support.desk import JOBS, SCOPE, Desk, new, number
from tests.work.conftest import OpenWorkQueues

LONG = 30.0


async def settled_in(work_queues: WorkQueues, claims: int = 1) -> None:
    """Until so many claims that were just begun have looked in vain and wait."""
    waits = count(1)
    await work_queues.long_poll.begun.wait_for(lambda _: next(waits) == claims, timeout=limit(30))


async def test_a_waiting_claim_gets_what_is_published(desk: Desk) -> None:
    await desk.queue()
    waiting = asyncio.create_task(desk.claim(wait_s=LONG))
    await settled_in(desk.work_queues)
    await desk.ids(new(4))
    assert [number(each) for each in await waiting] == [4]


async def test_a_waiting_claim_gets_what_is_released(desk: Desk) -> None:
    await desk.queue()
    await desk.ids(new(4))
    (held,) = await desk.claim()
    waiting = asyncio.create_task(desk.claim(wait_s=LONG))
    await settled_in(desk.work_queues)
    await desk.settle("release", held)
    assert [number(each) for each in await waiting] == [4]


async def test_a_claim_that_finds_nothing_ends_in_time(desk: Desk) -> None:
    await desk.queue()
    begun = time.monotonic()
    assert await desk.claim(wait_s=0.3) == []
    assert 0.3 <= time.monotonic() - begun < limit(10)


async def test_many_waiting_claims_share_what_is_published(desk: Desk) -> None:
    await desk.queue()
    waiting = [asyncio.create_task(desk.claim(2, wait_s=LONG)) for _ in range(6)]
    await settled_in(desk.work_queues, 6)
    for n in range(12):
        await desk.ids(new(n))
        if n % 3 == 0:
            await turn()
    got: list[int] = []
    while len(got) < 12:
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        got += [number(each) for task in done for each in task.result()]
        waiting = [*rest, *(asyncio.create_task(desk.claim(2, wait_s=LONG)) for _ in done)]
    assert sorted(got) == list(range(12))
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_wake_is_passed_on_by_who_goes_away(desk: Desk) -> None:
    """The first in line is woken and cancelled in the same moment: the next gets the message, long before its next look."""
    await desk.queue()
    first = asyncio.create_task(desk.claim(wait_s=LONG))
    await settled_in(desk.work_queues)
    second = asyncio.create_task(desk.claim(wait_s=LONG))
    await settled_in(desk.work_queues)
    publishing = asyncio.create_task(desk.ids(new(1)))
    first.cancel()
    await publishing
    assert [number(each) for each in await second] == [1]


async def test_patience_ends_a_wait_from_outside(desk: Desk) -> None:
    await desk.queue()
    patience = CancelToken()
    waiting = asyncio.create_task(desk.claim(wait_s=LONG, patience=patience))
    await settled_in(desk.work_queues)
    patience.end()
    assert await asyncio.wait_for(waiting, limit(10)) == []


@pytest.mark.parametrize("lane", [f"{store}-{path}" for store in STORES for path in ("index", "sql")], indirect=True)
async def test_a_publish_on_another_node_wakes_long_before_the_next_look(
    desk: Desk, open_work_queues: OpenWorkQueues
) -> None:
    await desk.queue()
    far = await open_work_queues(
        poll_s=100.0
    )  # with Redis a node looks every tenth of that: nothing but a wake ends the wait
    await asyncio.wait_for(far.long_poll.listening(), limit(10))
    waiting = asyncio.create_task(desk.at(far).claim(wait_s=LONG))
    await settled_in(far)
    await desk.ids(new(1))
    assert [number(each) for each in await asyncio.wait_for(waiting, limit(10))] == [1]


@pytest.mark.parametrize("lane", [f"{store}-alone" for store in STORES], indirect=True)
async def test_without_redis_other_nodes_look_now_and_then(desk: Desk, open_work_queues: OpenWorkQueues) -> None:
    await desk.queue()
    far = await open_work_queues(poll_s=0.2)
    waiting = asyncio.create_task(desk.at(far).claim(wait_s=LONG))
    await settled_in(far)
    await desk.ids(new(1))
    assert [number(each) for each in await asyncio.wait_for(waiting, limit(20))] == [1]


async def in_good_time(claim: asyncio.Task[list[Claimed]]) -> list[Claimed]:
    """What a claim got because it was woken: one that was not looks once more when its wait is over."""
    begun = time.monotonic()
    claimed = await claim
    assert time.monotonic() - begun < LONGEST_WAIT_S - 1, "nobody woke it"
    return claimed


async def test_a_claim_for_other_labels_does_not_keep_a_wake_from_those_behind_it(
    desk: Desk, open_work_queues: OpenWorkQueues
) -> None:
    """It took the wake of a message for somebody else, and everybody behind it waited for their next look."""
    await desk.queue()
    desk = desk.at(await open_work_queues(poll_s=100.0))
    other = asyncio.create_task(desk.claim(wait_s=LONGEST_WAIT_S, labels={"for": "b"}))
    await settled_in(desk.work_queues)
    plain = asyncio.create_task(desk.claim(wait_s=LONGEST_WAIT_S))
    await settled_in(desk.work_queues)
    await desk.ids(new(1, labels={"for": "a"}))
    assert [number(each) for each in await in_good_time(plain)] == [1]
    other.cancel()
    await asyncio.wait([other])


async def test_a_claim_for_labels_is_woken_by_them_whoever_waits_before_it(
    desk: Desk, open_work_queues: OpenWorkQueues
) -> None:
    await desk.queue()
    desk = desk.at(await open_work_queues(poll_s=100.0))
    others = [asyncio.create_task(desk.claim(wait_s=LONGEST_WAIT_S, labels={"for": name})) for name in ("b", "c")]
    await settled_in(desk.work_queues, 2)
    mine = asyncio.create_task(desk.claim(wait_s=LONGEST_WAIT_S, labels={"for": "a"}))
    await settled_in(desk.work_queues)
    await desk.ids(new(1, labels={"for": "a", "size": "large"}))
    assert [number(each) for each in await in_good_time(mine)] == [1]
    for task in others:
        task.cancel()
    await asyncio.wait(others)


async def test_every_subscription_is_woken(desk: Desk, open_work_queues: OpenWorkQueues) -> None:
    """A message of a broadcast queue is one to claim for each subscription: one woken worker of one of them is not enough."""
    await desk.queue(consumer_mode="broadcast")
    desk = desk.at(await open_work_queues(poll_s=100.0))
    names = ("mail", "search")
    for name in names:
        await desk.work_queues.subscriptions.create(desk.caller, SCOPE, JOBS, name)
    waiting = [
        asyncio.create_task(desk.claim(wait_s=LONGEST_WAIT_S, subscription=name)) for name in names for _ in range(2)
    ]
    await settled_in(desk.work_queues, 4)
    await desk.ids(new(1))
    first = [task for at, task in enumerate(waiting) if at % 2 == 0]
    assert [[number(each) for each in await in_good_time(task)] for task in first] == [[1], [1]]
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
