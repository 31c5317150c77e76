"""The one suite's fixtures: every test runs on all four servers, and on Redis 8.6 also without the fast transport."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from relevo import Handler, Queue
from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.engine.schedules.scheduler import SCRIPTS, SchedulerService
from relevo.engine.service.leader_loop import HOLD_LOCK, RELEASE_LOCK
from relevo.wire.keys import QueueKeys
from tests.conformance.fires import Fires
from tests.conformance.group import Group
from tests.pace import limit
from tests.patience import turn
from tests.servers.server import Client, Server
from tests.support.watched import WatchedWorker

WorkerOf = Callable[..., AbstractAsyncContextManager[WatchedWorker]]
"""`worker_of(handler, **options)`: a running worker of the test's queue; options are `Worker`'s."""

QueueOf = Callable[..., Queue]
"""`queue_of(**options)`: another `Queue` object on the test's queue, as another process would have; options are `Queue`'s."""

SchedulerOf = Callable[..., SchedulerService]
"""`scheduler_of(holder, **options)`: a scheduler on a connection of its own; `tick()` it by hand or `start()` it."""

# Waits that a test would otherwise sit through; everything else is the worker's own default.
_IMPATIENT = {"read_block_ms": 100, "promote_every_ms": 20, "shutdown_deadline_s": 5.0}


@pytest.fixture(params=["redis86", "redis7", "valkey", "cluster"])
def lane(request: pytest.FixtureRequest) -> str:
    """The server of this run."""
    return request.param


@pytest.fixture
def server(request: pytest.FixtureRequest, lane: str) -> Server:
    return request.getfixturevalue(lane)


@pytest.fixture
def keys(queue_name: str) -> QueueKeys:
    """The names of the test queue's keys, for tests that look at what is stored."""
    return QueueKeys(queue_name)


@pytest.fixture
def group(raw: Client, keys: QueueKeys) -> Group:
    """The queue's consumer group, seen from outside."""
    return Group(raw, keys)


@pytest.fixture
async def queue_of(server: Server, queue_name: str) -> AsyncGenerator[QueueOf]:
    opened: list[Queue] = []

    def open_queue(**options: Any) -> Queue:
        queue = Queue(queue_name, redis_url=server.url, **options)
        opened.append(queue)
        return queue

    yield open_queue
    for queue in opened:
        await queue.close()


@pytest.fixture
def queue(queue_of: QueueOf) -> Queue:
    """The test's queue, as a producer has it."""
    return queue_of()


@pytest.fixture
def worker_of(server: Server, queue_name: str) -> WorkerOf:
    @asynccontextmanager
    async def start(handler: Handler, **options: Any) -> AsyncGenerator[WatchedWorker]:
        settings = {**_IMPATIENT, "redis_url": server.url, **options}
        worker = WatchedWorker(queue_name, handler, **settings)
        started = asyncio.ensure_future(worker.started.wait_for(timeout=limit(20)))
        await turn()  # let it listen before there is something to hear
        async with worker:
            await started
            yield worker

    return start


@pytest.fixture
def fires(server: Server, raw: Client, keys: QueueKeys) -> Fires:
    """What the queue's schedules have fired, and their clocks."""
    return Fires(server, raw, keys)


@pytest.fixture
async def scheduler_of(server: Server, keys: QueueKeys) -> AsyncGenerator[SchedulerOf]:
    made: list[tuple[SchedulerService, Link]] = []

    def make(holder: str = "", **options: Any) -> SchedulerService:
        scripts = (HOLD_LOCK, RELEASE_LOCK, *SCRIPTS)
        link = Link(Address.parse(server.url), keys.tag, purpose="schedule", scripts=scripts)
        settings: dict[str, Any] = {"every": 0.05, **options}
        loop = SchedulerService(link, keys, holder or f"s-{len(made)}", **settings)
        made.append((loop, link))
        return loop

    yield make
    for loop, link in made:
        loop.cancel()
        await link.close()


@pytest.fixture
def scheduler(scheduler_of: SchedulerOf) -> SchedulerService:
    """The test's scheduler, not started."""
    return scheduler_of()
