"""Duties of an idle queue rest, and are woken by whatever they would have found; see engine/duties/idle_watch.py."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from relevo import LaneLimit, Queue
from relevo.engine.service import loop
from relevo.engine.service.signals import Signal
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.pace import limit
from tests.patience import until
from tests.servers.server import Client
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker

# A cluster's queues live on many servers: its workers look for themselves.
pytestmark = pytest.mark.parametrize("lane", ["redis86", "redis7", "valkey"], indirect=True)

AT_EASE = {"promote_every_ms": 100}
"""A worker that looks more often than the watch does never rests."""


@pytest.fixture(autouse=True)
def rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an hour: whoever is not woken is not there any more."""
    monkeypatch.setattr(loop, "REST_S", 3600.0)


async def resting(worker: WatchedWorker) -> None:
    """Until all duties that may rest do."""
    await until(worker.idle_watch.quiet)
    for duty in (worker.pausing, worker.lane_dispatcher, worker.cancel_watch, worker.promoter):
        duty.wake()
    ticks = worker.pausing.ticked.count
    await until(lambda: worker.pausing.ticked.count > ticks and worker.idle_watch.quiet())


async def test_the_duties_of_an_idle_queue_rest(worker_of: WorkerOf) -> None:
    async with worker_of(Runs(), **AT_EASE) as worker:
        await until(lambda: nobody_ticks(worker))


async def nobody_ticks(worker: WatchedWorker) -> bool:
    """Whether five looks passed without a tick; a duty that does not rest ticks at least every third."""
    assert worker.idle_watch.watch is not None
    ticks = worker.pausing.ticked.count + worker.promoter.promoted.count
    for _ in range(5):
        await worker.idle_watch.watch.looked.wait_for(timeout=limit(20))
    return worker.pausing.ticked.count + worker.promoter.promoted.count == ticks


async def test_a_delayed_job_wakes_who_promotes_it(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(), **AT_EASE) as worker:
        await resting(worker)
        await queue.add("job", 1, delay_ms=150)
        await worker.until(done=1)


async def test_a_pause_wakes_who_looks_for_it(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(), **AT_EASE) as worker:
        await resting(worker)
        for now, change in ((True, queue.pause), (False, queue.resume)):
            await heard(worker.pausing.changed, change)
            assert worker.is_paused() is now


async def test_a_lane_that_waits_wakes_who_lets_it_go(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("slow", LaneLimit(rate=1, per_ms=300))
    async with worker_of(Runs(), **AT_EASE) as worker:
        await resting(worker)
        for n in range(2):
            await queue.add("job", n, lane="slow")
        await worker.until(done=2)


async def test_a_mark_wakes_who_cancels(worker_of: WorkerOf, raw: Client, keys: QueueKeys) -> None:
    async with worker_of(Runs(), **AT_EASE) as worker:
        await resting(worker)
        await heard(worker.cancel_watch.seen, lambda: raw.zadd(keys.cancelled, {"some-id": 2**52}))
        await heard(worker.cancel_watch.seen, lambda: raw.delete(keys.cancelled))


async def test_whoever_looks_out_no_longer_wakes_everyone(worker_of: WorkerOf) -> None:
    async with worker_of(Runs(), **AT_EASE) as worker:
        await resting(worker)
        worker.idle_watch.on_reply(ConnectionError("gone"))
        assert not worker.idle_watch.quiet()
        await worker.pausing.ticked.wait_for(timeout=limit(20))


async def test_workers_of_one_process_share_a_watch_and_the_last_takes_it_along(
    worker_of: WorkerOf, raw: Client
) -> None:
    async def connections() -> int:
        return sum(client["name"] == "relevo-idle-watch" for client in await raw.client_list())

    others = await connections()
    async with worker_of(Runs(), **AT_EASE) as one:
        async with worker_of(Runs(), **AT_EASE) as two:
            await until(one.idle_watch.quiet)
            await until(two.idle_watch.quiet)
            assert one.idle_watch.watch is two.idle_watch.watch
            assert await connections() == others + 1
        assert one.idle_watch.quiet()
    await until(lambda: is_so(connections, others))


async def is_so(count: Callable[[], Awaitable[int]], wanted: int) -> bool:
    return await count() == wanted


async def heard(signal: Signal[Any], cause: Callable[[], Awaitable[object]]) -> None:
    before = signal.count
    await cause()
    await until(lambda: signal.count > before)
