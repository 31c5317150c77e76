"""A desk with rules, on each of the three databases."""

from collections.abc import AsyncGenerator

import pytest

from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.support.desk import Desk, a_desk, emptied

STREAMS = ("*",)


@pytest.fixture
async def desk(database_url: str, clock: Clock) -> AsyncGenerator[Desk]:
    """On each database in turn, without Redis, with the queue `jobs`."""
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, stream_queues=STREAMS)
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        made = await a_desk(work_queues, clock)
        await made.queue()
        yield made


@pytest.fixture
async def bridge_desk(database_url: str, clock: Clock, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Desk]:
    """On each database in turn, beside a Redis, with the queue `jobs`."""
    key_leaks.allow("rw:*")
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, redis_url=valkey.url, stream_queues=("q-*",))
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        made = await a_desk(work_queues, clock)
        await made.queue(backoff_initial_ms=0, backoff_jitter_ms=0, max_retries=2)
        yield made
