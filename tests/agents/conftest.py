"""Work queues on each of the three databases, with a clock that tests turn, and a desk to work at."""

from collections.abc import AsyncGenerator

import pytest

from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.support.desk import Desk, a_desk, emptied


@pytest.fixture
async def work_queues(database_url: str, clock: Clock) -> AsyncGenerator[WorkQueues]:
    """Without Redis."""
    await emptied(database_url)
    async with await WorkQueues.open(WorkSettings(database_url=database_url), now_ms=clock) as opened:
        yield opened


@pytest.fixture
async def desk(work_queues: WorkQueues, clock: Clock) -> Desk:
    return await a_desk(work_queues, clock)


@pytest.fixture
async def indexed(database_url: str, clock: Clock, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Desk]:
    """A desk of an installation whose claims go by the index."""
    key_leaks.allow("rw:*")
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, redis_url=valkey.url, claim_path="index")
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        yield await a_desk(work_queues, clock)
