"""The three orders of a queue, alone and under concurrency, on both claim paths."""

import asyncio
import random

import pytest

from relevo.contract.claims import Claimed
from relevo.contract.messages import NewMessage
from relevo.work.message.model import TIERS
from relevo.work.message.ordering import sort_key
from tests.clock import Clock
from tests.support.desk import SCOPE, Desk, new, number
from tests.work.conftest import OpenWorkQueues


def place(ordering: str, message: Claimed) -> tuple[int, str]:
    key = sort_key(
        ordering,
        created_at=message.created_at,
        tier=TIERS.index(message.priority_tier),
        score=message.priority_score,
        deadline_at=message.deadline,
    )
    return key, message.id


def any_message(n: int, draw: random.Random) -> NewMessage:
    deadline = draw.choice([None, 2_000_000_000_000 + draw.randrange(50)])
    return new(n, priority_tier=draw.choice(TIERS), priority_score=draw.randrange(1000), deadline=deadline)


async def test_fifo_is_the_order_of_publishing(desk: Desk) -> None:
    await desk.queue()
    for n in range(12):
        await desk.ids(new(n, priority_score=n))
    assert [number(each) for each in await desk.drain(5)] == list(range(12))


async def test_priority_is_tier_then_score_then_age(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    await desk.ids(
        new(0, priority_tier="low", priority_score=999),
        new(1),
        new(2, priority_score=1),
        new(3, priority_tier="critical"),
        new(4, priority_score=1),
        new(5, priority_tier="background"),
        new(6, priority_tier="high"),
    )
    assert [number(each) for each in await desk.drain(2)] == [3, 6, 2, 4, 1, 0, 5]


async def test_deadline_is_the_earliest_first_and_none_last(desk: Desk, clock: Clock) -> None:
    await desk.queue(ordering="deadline")
    soon = clock() + 60_000
    await desk.ids(new(0), new(1, deadline=soon + 2), new(2, deadline=soon), new(3), new(4, deadline=soon + 1))
    assert [number(each) for each in await desk.drain(2)] == [2, 4, 1, 0, 3]


async def test_a_new_priority_is_a_new_place(desk: Desk) -> None:
    await desk.queue(ordering="priority")
    _, second, _ = await desk.ids(new(0), new(1), new(2))
    await desk.work_queues.messages.reprioritise(desk.caller, SCOPE, second, tier="high", score=3)
    claimed = await desk.drain(1)
    assert [number(each) for each in claimed] == [1, 0, 2]
    assert (claimed[0].priority_tier, claimed[0].priority_score) == ("high", 3)


@pytest.mark.parametrize("ordering", ["fifo", "priority", "deadline"])
async def test_each_claim_is_in_order_and_takes_what_was_first(desk: Desk, ordering: str) -> None:
    """Of a queue that nobody adds to, claim after claim takes the next places, however many ask at once."""
    await desk.queue(ordering=ordering)
    draw = random.Random(5)
    for _ in range(4):
        await desk.ids(*(any_message(n, draw) for n in range(30)))
    before = [place(ordering, each) for each in await desk.claim(20)]
    assert before == sorted(before)
    claims = await asyncio.gather(*(desk.claim(7) for _ in range(10)))
    taken = [[place(ordering, each) for each in claim] for claim in claims]
    assert all(claim == sorted(claim) for claim in taken)
    assert all(min(claim) > max(before) for claim in taken if claim)
    after = [place(ordering, each) for each in await desk.claim(1000)]
    assert min(after) > max(max(claim) for claim in taken if claim)
    everything = sum(taken, before) + after
    assert len(set(everything)) == 120


@pytest.mark.parametrize("ordering", ["fifo", "priority", "deadline"])
async def test_publishers_and_workers_at_once_lose_and_double_nothing(
    desk: Desk, open_work_queues: OpenWorkQueues, ordering: str
) -> None:
    """Two nodes, publishers and workers on both; every message is completed once, and each claim is in order."""
    await desk.queue(ordering=ordering)
    desks = [desk, desk.at(await open_work_queues())]
    published: list[str] = []
    done: list[str] = []
    ended = asyncio.Event()

    async def publisher(at: Desk, seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(8):
            published.extend(await at.ids(*(any_message(n, draw) for n in range(draw.randrange(1, 10)))))

    async def worker(at: Desk) -> None:
        while True:
            last_look = ended.is_set()
            claimed = await at.claim(5, wait_s=0.2)
            if claimed:
                await settle(at, claimed)
            elif last_look:
                return

    async def settle(at: Desk, claimed: list[Claimed]) -> None:
        places = [place(ordering, each) for each in claimed]
        assert places == sorted(places)
        settled = await at.settle("complete", claimed)
        done.extend(each.id for each in settled if each.state == "completed")

    workers = [asyncio.create_task(worker(at)) for at in desks for _ in range(3)]
    await asyncio.gather(*(publisher(at, seed) for seed, at in enumerate(desks * 3)))
    ended.set()
    await asyncio.gather(*workers)
    assert await desk.states() == {"completed": len(published)}
    assert sorted(done) == sorted(published)
