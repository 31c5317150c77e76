"""Work queues on each of the three databases, with a clock that tests turn, and a desk to work at."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select, text

from relevo.contract.claims import Claimed, Settled
from relevo.contract.messages import NewMessage, Published
from relevo.work.caller import Caller
from relevo.work.message.history import steps
from relevo.work.message.verdict import SettleItem, Verdict
from relevo.work.queue_record import QueueSettings
from relevo.work.store.counters import TALLIES
from relevo.work.store.database import Database
from relevo.work.store.tables import archive, messages, metadata, tallies
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.servers.stores import with_tables

SCOPE = "main"


class Desk:
    """One tenant's scope `main`, and short ways to work in it."""

    def __init__(self, work_queues: WorkQueues, caller: Caller, clock: Clock) -> None:
        self.work_queues = work_queues
        self.caller = caller
        self.clock = clock

    async def queue(self, slug: str = "jobs", **settings: Any) -> int:
        made = await self.work_queues.queues.create(self.caller, SCOPE, slug, QueueSettings(**settings))
        return made.id

    async def publish(self, count: int = 1, queue: str = "jobs", **fields: Any) -> list[str]:
        new = [NewMessage(body=msgspec.Raw(b'{"n":%d}' % n), **fields) for n in range(count)]
        outcomes = await self.work_queues.messages.publish(self.caller, SCOPE, queue, new)
        return [each.id for each in outcomes if isinstance(each, Published)]

    async def claim(self, count: int = 1, queue: str = "jobs", **how: Any) -> list[Claimed]:
        return await self.work_queues.claims.claim(self.caller, SCOPE, queue, batch_size=count, **how)

    async def settle(self, verdict: Verdict, claimed: list[Claimed], **fields: Any) -> list[Settled]:
        items = [SettleItem(id=each.id, claim_token=each.claim_token, **fields) for each in claimed]
        return await self.work_queues.settlements.settle(self.caller, SCOPE, verdict, items)

    async def die(self, count: int = 1, queue: str = "jobs", reason: str = "no use", **fields: Any) -> list[str]:
        """Publishes messages and makes dead letters of them."""
        await self.publish(count, queue, **fields)
        claimed = await self.claim(count, queue)
        await self.settle("fail", claimed, reason=reason, dead=True)
        return [each.id for each in claimed]

    async def row(self, message_id: str) -> dict[str, Any]:
        """The message's row, live or archived."""
        async with self.work_queues.database.connect() as connection:
            for table in (messages, archive):
                query = select(table).where(table.c.id == message_id)
                found = (await connection.execute(query)).mappings().one_or_none()
                if found is not None:
                    return dict(found)
        raise AssertionError(f"there is no message {message_id}")

    async def history(self, message_id: str) -> list[str]:
        return [step.event for step in steps((await self.row(message_id))["trail"])]


async def emptied(url: str) -> None:
    """Makes the tables, without rows: a run has one PostgreSQL and one MariaDB for all its tests."""
    if await with_tables(url):
        return
    database = Database(url)
    names = [table.name for table in metadata.sorted_tables]
    async with database.begin() as connection:
        if database.dialect == "postgresql":
            await connection.execute(text(f"TRUNCATE {', '.join(names)} RESTART IDENTITY CASCADE"))
        else:
            for name in reversed(names):
                await connection.execute(text(f"DELETE FROM {name}"))  # noqa: S608
    await database.close()


async def tallied(work_queues: WorkQueues, queue_id: int) -> dict[str, int]:
    """What all tallies of a queue come to, over all days."""
    sums = [func.coalesce(func.sum(tallies.c[name]), 0).label(name) for name in TALLIES]
    async with work_queues.database.connect() as connection:
        row = (await connection.execute(select(*sums).where(tallies.c.queue_id == queue_id))).mappings().one()
    return {name: int(row[name]) for name in TALLIES}


@pytest.fixture
async def work_queues(database_url: str, clock: Clock) -> AsyncGenerator[WorkQueues]:
    """Without Redis."""
    await emptied(database_url)
    async with await WorkQueues.open(WorkSettings(database_url=database_url), now_ms=clock) as opened:
        yield opened


@pytest.fixture
async def desk(work_queues: WorkQueues, clock: Clock) -> Desk:
    return await a_desk(work_queues, clock)


async def a_desk(work_queues: WorkQueues, clock: Clock, **scope: Any) -> Desk:
    tenant = await work_queues.tenants.create("acme")
    caller = work_queues.tenants.caller(tenant)
    await work_queues.scopes.create(caller, SCOPE, **scope)
    return Desk(work_queues, caller, clock)


@pytest.fixture
async def indexed(database_url: str, clock: Clock, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Desk]:
    """A desk of an installation whose claims go by the index."""
    key_leaks.allow("rw:*")
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, redis_url=valkey.url, claim_path="index")
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        yield await a_desk(work_queues, clock)
