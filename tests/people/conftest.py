"""A desk to work at: on SQLite, or on each of the three databases where a test names them as its `store`."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from relevo.agents.outbox_relay import OutboxRelay
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.people.receiver import Receiver, listening
from tests.servers.stores import sqlite_with_tables
from tests.support.desk import SCOPE, Desk, a_desk, emptied
from tests.support.room import Room, served

__all__ = ["SCOPE"]

ALLOWED = ("127.0.0.0/8", "receiver.test")


@pytest.fixture
def store() -> str:
    """Overridden with `@pytest.mark.parametrize("store", STORES)`."""
    return "sqlite"


@pytest.fixture
async def work_queues(database_url: str, clock: Clock) -> AsyncGenerator[WorkQueues]:
    """Without Redis; webhooks may go to loopback."""
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, webhook_allow=ALLOWED, poll_s=0.05)
    async with await WorkQueues.open(settings, now_ms=clock) as opened:
        yield opened


@pytest.fixture
async def desk(work_queues: WorkQueues, clock: Clock) -> Desk:
    made = await a_desk(work_queues, clock)
    await made.queue()
    return made


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    async with listening() as one:
        yield one


async def relay(desk: Desk) -> None:
    """Lets the events out."""
    agent = OutboxRelay(desk.work_queues)
    while (await agent.work()).items:
        pass
    await agent.close()


@pytest.fixture
async def room(tmp_path: Path) -> AsyncGenerator[Room]:
    """A served room on SQLite, without Redis and without agents."""
    url = await sqlite_with_tables(tmp_path / "served.db")
    async with served(url) as one:
        yield one
