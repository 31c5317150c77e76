"""A long poll wakes when there is something to claim: at once on the same node, through Redis on others, by looking without."""

import asyncio
import time
from itertools import count

import pytest

from relevo.work.consume.long_poll import CancelToken
from relevo.work.work_queues import WorkQueues
from tests.pace import limit
from tests.patience import turn
from tests.servers.stores import STORES
from tests.work.conftest import OpenOffice
from tests.work.desk import Desk, new, number

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
async def test_a_publish_on_another_node_wakes_long_before_the_next_look(desk: Desk, open_office: OpenOffice) -> None:
    await desk.queue()
    far = await open_office(
        poll_s=100.0
    )  # with Redis a node looks every tenth of that: nothing but a wake ends the wait
    await asyncio.wait_for(far.long_poll.listening(), limit(10))
    waiting = asyncio.create_task(desk.at(far).claim(wait_s=LONG))
    await settled_in(far)
    await desk.ids(new(1))
    assert [number(each) for each in await asyncio.wait_for(waiting, limit(10))] == [1]


@pytest.mark.parametrize("lane", [f"{store}-alone" for store in STORES], indirect=True)
async def test_without_redis_other_nodes_look_now_and_then(desk: Desk, open_office: OpenOffice) -> None:
    await desk.queue()
    far = await open_office(poll_s=0.2)
    waiting = asyncio.create_task(desk.at(far).claim(wait_s=LONG))
    await settled_in(far)
    await desk.ids(new(1))
    assert [number(each) for each in await asyncio.wait_for(waiting, limit(20))] == [1]
