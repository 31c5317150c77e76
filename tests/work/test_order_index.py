"""The order index can be deleted at any moment: claims go on in the queue's own order, and the index comes back by itself."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import pytest

from relevo.contract.claims import Claimed
from relevo.work import faults
from relevo.work.work_queues import WorkQueues
from tests.conftest import Launch
from tests.patience import turn, until
from tests.servers.server import Redis86, Server
from tests.support.desk import Desk, new, number
from tests.work.conftest import INDEXED, Lane, OpenWorkQueues

pytestmark = pytest.mark.parametrize("lane", INDEXED, indirect=True)

KEYS = ("order", "building", "taken", "builder")


async def built(desk: Desk, queue_id: int) -> None:
    """Has the index made and waits for it."""
    order = desk.work_queues.ready_index
    while await order.size(queue_id) is None or queue_id in order.doubted:
        order.want(queue_id)
        with contextlib.suppress(TimeoutError):
            await order.builder.built.wait_for(lambda done: done == queue_id, timeout=1)


def redis_of(lane: Lane) -> Server:
    assert lane.redis is not None
    return lane.redis


def key(desk: Desk, queue_id: int, name: str) -> bytes:
    return getattr(desk.work_queues.ready_index.keys(queue_id), name)


async def test_the_first_claim_has_the_index_made(desk: Desk) -> None:
    queue = await desk.queue()
    await desk.ids(*(new(n) for n in range(5)))
    assert await desk.work_queues.ready_index.size(queue.id) is None
    built_now = asyncio.create_task(desk.work_queues.ready_index.builder.built.wait_for(lambda done: done == queue.id))
    await turn()
    assert len(await desk.claim(2)) == 2
    await built_now
    assert len(await desk.drain()) == 3
    assert await desk.work_queues.ready_index.size(queue.id) == 0


async def test_what_is_published_later_joins_the_index(desk: Desk, lane: Lane) -> None:
    queue = await desk.queue(ordering="priority")
    await desk.ids(new(0))
    await built(desk, queue.id)
    await desk.ids(new(1, priority_score=5), new(2))
    members = redis_of(lane).call_at(key(desk, queue.id, "order"), "ZRANGE", 0, -2, "WITHSCORES")
    assert [float(score) for score in members[1::2]] == [-2005.0, -2000.0, -2000.0]


async def test_what_comes_back_joins_the_index(desk: Desk) -> None:
    queue = await desk.queue(backoff_initial_ms=0, backoff_jitter_ms=0)
    await desk.ids(new(0), new(1))
    await built(desk, queue.id)
    first, second = await desk.claim(2)
    await desk.settle("release", first)
    await desk.settle("fail", second)
    assert await desk.work_queues.ready_index.size(queue.id) == 2


async def test_claims_follow_the_index(desk: Desk, lane: Lane) -> None:
    """Told by an index with another order than the rows: only a claim that asks it gives them out so."""
    queue = await desk.queue()
    first, second = await desk.ids(new(0), new(1))
    await built(desk, queue.id)
    redis_of(lane).call_at(key(desk, queue.id, "order"), "ZADD", 1, second, 2, first)
    assert [number(each) for each in await desk.claim(1)] == [1]


async def test_a_member_whose_row_is_claimed_is_dropped(desk: Desk, lane: Lane) -> None:
    queue = await desk.queue()
    (message_id,) = await desk.ids(new(0))
    await built(desk, queue.id)
    await desk.claim()
    redis_of(lane).call_at(key(desk, queue.id, "order"), "ZADD", 1, message_id)
    assert await desk.claim(5) == []
    assert await desk.work_queues.ready_index.size(queue.id) == 0


async def test_a_member_that_got_lost_is_still_claimed(desk: Desk, lane: Lane) -> None:
    queue = await desk.queue()
    first, *_ = await desk.ids(*(new(n) for n in range(3)))
    await built(desk, queue.id)
    redis_of(lane).call_at(key(desk, queue.id, "order"), "ZREM", first)
    assert [number(each) for each in await desk.claim(3)] == [0, 1, 2]


async def test_what_a_dead_process_took_goes_back(desk: Desk, lane: Lane) -> None:
    queue = await desk.queue()
    first, *_ = await desk.ids(*(new(n) for n in range(3)))
    await built(desk, queue.id)
    taken = await desk.work_queues.ready_index.take(queue.id, 1)  # and never heard of again
    assert taken is not None
    assert taken.ids == [first]
    redis_of(lane).call_at(key(desk, queue.id, "taken"), "ZADD", "XX", 1, taken.members[0])  # long ago
    assert [number(each) for each in await desk.claim(1)] == [0]


async def test_an_index_of_an_earlier_run_of_the_server_is_not_trusted(desk: Desk, lane: Lane) -> None:
    """A server that comes back with an old state has members that were claimed, and lacks those published since."""
    queue = await desk.queue()
    await desk.ids(new(0), new(1))
    order = key(desk, queue.id, "order")
    redis_of(lane).call_at(order, "ZADD", 5, "01J9ZZZZZZZZZZZZZZZZZZZZZZ", "inf", "~another-run")
    assert [number(each) for each in await desk.claim(2)] == [0, 1]
    await built(desk, queue.id)
    # It may have been built while those two were being claimed; built after that, it knows nothing of them either.
    await until(lambda: desk.work_queues.ready_index.rebuild(queue.id))
    assert await desk.work_queues.ready_index.size(queue.id) == 0


class Steps:
    """What publishers and workers do is counted: a moment to meddle at is so many steps away, whatever time that takes."""

    def __init__(self) -> None:
        self._taken = 0
        self._more = asyncio.Condition()

    async def take(self) -> None:
        async with self._more:
            self._taken += 1
            self._more.notify_all()

    async def some(self, most: int) -> None:
        """Up to `most` steps from now, and then a little into the next."""
        wanted = self._taken + random.randint(0, most)
        async with self._more:
            await self._more.wait_for(lambda: self._taken >= wanted)
        for _ in range(random.randrange(1, 20)):
            await turn()


Meddle = Callable[[Steps], Awaitable[None]]


async def work_off(desk: Desk, meddle: Meddle) -> None:
    """300 messages of random priority on one queue, published and worked off while `meddle` goes on: all are completed, once,
    and each claim is in order."""
    await desk.queue(ordering="priority")
    draw = random.Random(3)
    published: list[str] = []
    done: list[str] = []
    steps = Steps()

    async def publisher() -> None:
        for _ in range(30):
            batch = [new(n, priority_score=draw.randrange(1000)) for n in range(10)]
            published.extend(await desk.ids(*batch))
            await steps.take()

    async def worker() -> None:
        while len(done) < 300:
            claimed: list[Claimed] = await desk.claim(7, wait_s=0.5)
            await steps.take()
            places = [(-each.priority_score, each.id) for each in claimed]
            assert places == sorted(places)
            if claimed:
                settled = await desk.settle("complete", claimed)
                assert all(each.state == "completed" for each in settled), settled
                done.extend(each.id for each in settled)
                await steps.take()

    async def meddler() -> None:
        while True:
            await meddle(steps)

    meddling = asyncio.create_task(meddler())
    await asyncio.gather(publisher(), *(worker() for _ in range(3)))
    meddling.cancel()
    await asyncio.wait([meddling])
    assert sorted(done) == sorted(published)
    assert await desk.states() == {"completed": 300}


async def test_everything_deleted_at_any_moment_loses_and_doubles_nothing(desk: Desk, lane: Lane) -> None:
    async def meddle(steps: Steps) -> None:
        redis_of(lane).call("FLUSHALL")
        await steps.some(3)

    await work_off(desk, meddle)


@pytest.mark.parametrize("name", KEYS)
async def test_one_key_deleted_at_any_moment_loses_and_doubles_nothing(desk: Desk, lane: Lane, name: str) -> None:
    async def meddle(steps: Steps) -> None:
        for process in redis_of(lane).processes:
            for found in process.call("KEYS", f"rw:*:{name}"):
                process.call("DEL", found)
        await steps.some(3)

    await work_off(desk, meddle)


async def test_rebuilding_all_the_time_loses_and_doubles_nothing(desk: Desk, open_work_queues: OpenWorkQueues) -> None:
    other = await open_work_queues()

    async def meddle(_: Steps) -> None:
        queue = await desk.work_queues.queues.lookup(desk.caller, "main", "jobs")
        await asyncio.gather(desk.work_queues.ready_index.rebuild(queue.id), other.ready_index.rebuild(queue.id))
        await turn()

    await work_off(desk, meddle)


async def test_a_publish_during_a_rebuild_is_in_the_new_index(desk: Desk) -> None:
    queue = await desk.queue()
    await desk.ids(new(0))
    paged: list[asyncio.Task[list[str]]] = []
    disarm = faults.arm("rebuild.scanned", lambda: paged.append(asyncio.create_task(desk.ids(new(1)))))
    try:
        building = asyncio.create_task(desk.work_queues.ready_index.rebuild(queue.id))
        assert await building
    finally:
        disarm()
    await asyncio.gather(*paged)
    assert await desk.work_queues.ready_index.size(queue.id) == 2


async def test_a_rebuild_that_died_is_begun_again_by_another(
    desk: Desk, lane: Lane, open_work_queues: OpenWorkQueues
) -> None:
    queue = await desk.queue()
    await desk.ids(new(0))
    keys = desk.work_queues.ready_index.keys(queue.id)
    redis_of(lane).call_at(keys.builder, "SET", "the dead", "PX", 60_000)
    other = await open_work_queues()
    assert not await other.ready_index.rebuild(queue.id)
    redis_of(lane).call_at(keys.builder, "PEXPIRE", 50)  # nobody is left to make it longer
    other.ready_index.want(queue.id)
    await other.ready_index.builder.built.wait_for(lambda done: done == queue.id)
    assert await desk.work_queues.ready_index.size(queue.id) == 1


@pytest.fixture
def own_redis(launch: Launch) -> Server:
    return launch(Redis86)


async def office_with(open_work_queues: OpenWorkQueues, redis: Server) -> WorkQueues:
    return await open_work_queues(redis_url=redis.url)


async def test_claims_go_on_in_order_while_redis_is_away_and_the_index_comes_back(
    desk: Desk, open_work_queues: OpenWorkQueues, own_redis: Server
) -> None:
    at = desk.at(await office_with(open_work_queues, own_redis))
    queue = await at.queue(ordering="priority")
    await at.ids(*(new(n, priority_score=n) for n in range(6)))
    await built(at, queue.id)
    assert [number(each) for each in await at.claim(2)] == [5, 4]
    own_redis.kill()
    assert [number(each) for each in await at.claim(1)] == [3]
    await at.ids(new(9, priority_score=900))
    assert [number(each) for each in await at.claim(2)] == [9, 2]
    own_redis.restart()
    await built(at, queue.id)
    assert await at.work_queues.ready_index.size(queue.id) == 2
    await at.ids(new(8, priority_score=800))
    assert [number(each) for each in await at.drain(2)] == [8, 1, 0]


async def test_a_redis_that_hangs_costs_a_moment_and_no_message(
    desk: Desk, open_work_queues: OpenWorkQueues, own_redis: Server
) -> None:
    at = desk.at(await office_with(open_work_queues, own_redis))
    queue = await at.queue()
    await at.ids(new(0))
    await built(at, queue.id)
    own_redis.pause()
    try:
        await at.ids(new(1))
        assert [number(each) for each in await at.claim(5)] == [0, 1]
    finally:
        own_redis.resume()
    await at.ids(new(2))
    await built(at, queue.id)
    assert [number(each) for each in await at.drain()] == [2]


async def test_redis_coming_and_going_loses_and_doubles_nothing(
    desk: Desk, open_work_queues: OpenWorkQueues, own_redis: Server
) -> None:
    at = desk.at(await office_with(open_work_queues, own_redis))

    async def meddle(steps: Steps) -> None:
        for fate in (own_redis.kill, own_redis.restart):  # work goes on with it and without it
            await asyncio.to_thread(fate)
            await steps.some(25)

    await work_off(at, meddle)
