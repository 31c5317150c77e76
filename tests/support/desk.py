"""A desk in work queues: one tenant's scope, and short ways to work in it and to look at what became of messages."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from sqlalchemy import func, select, text

from relevo.agents.message_router import MessageRouter
from relevo.agents.outbox_relay import OutboxRelay
from relevo.contract.audit import AuditEntry
from relevo.contract.claims import Claimed, Settled
from relevo.contract.messages import Message, NewMessage, Published, Refusal
from relevo.contract.rules import Trigger
from relevo.work.audit.entries import AuditFilter
from relevo.work.caller import Caller
from relevo.work.message.history import steps
from relevo.work.message.verdict import SettleItem, Verdict
from relevo.work.queue_record import QueueSettings
from relevo.work.reading.search import MessageFilter
from relevo.work.review.outcomes import Origin
from relevo.work.review.spec import ReviewSpec
from relevo.work.routing.rule import Action, Rule
from relevo.work.routing.rules import StoredRule
from relevo.work.store.counters import TALLIES, Depth, depths_of
from relevo.work.store.database import Database
from relevo.work.store.tables import archive, labels, messages, metadata, tallies
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
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

    async def review_row(self, spec: ReviewSpec, message_id: str, queue: str = "jobs") -> dict[str, Any]:
        """The row of a review of the message."""
        record = await self.work_queues.queues.lookup(self.caller, SCOPE, queue)
        return self.work_queues.reviews.row(
            spec,
            tenant_id=record.tenant_id,
            scope_id=record.scope_id,
            queue_id=record.id,
            message_id=message_id,
            source="message",
            origin=Origin(),
            correlation_id="c",
            now=self.clock(),
        )

    async def history(self, message_id: str) -> list[str]:
        return [step.event for step in steps((await self.row(message_id))["trail"])]

    # --- rules, and what became of messages ------------------------------------------------------------------------------

    async def rule(
        self, *actions: Action, on: Trigger = "message_published", when: str = "true", name: str = "r", **more: Any
    ) -> StoredRule:
        rule = Rule(name=name, trigger=on, condition=when, actions=list(actions), **more)
        return await self.work_queues.rules.create(self.caller, SCOPE, rule)

    async def put(self, body: Any = None, queue: str = "jobs", **fields: Any) -> Published | Refusal:
        """Publishes one message."""
        new = NewMessage(body=msgspec.Raw(msgspec.json.encode(body)), **fields)
        (outcome,) = await self.work_queues.messages.publish(self.caller, SCOPE, queue, [new])
        return outcome

    async def id_of(self, body: Any = None, queue: str = "jobs", **fields: Any) -> str:
        outcome = await self.put(body, queue, **fields)
        assert isinstance(outcome, Published), outcome
        return outcome.id

    async def route(self) -> int:
        """Lets the events out, and the rules look at them; at how many they looked."""
        relay = OutboxRelay(self.work_queues)
        await relay.work()
        await relay.close()
        return (await MessageRouter(self.work_queues).work()).items

    async def all(self, **wanted: Any) -> list[Message]:
        """The messages of the scope, oldest first."""
        page = await self.work_queues.search.list(self.caller, SCOPE, MessageFilter(**wanted), limit=500)
        return list(reversed(page.items))

    async def bodies(self, queue: str) -> list[Any]:
        return [msgspec.json.decode(each.body) for each in await self.all(queue=queue)]

    async def depth(self, queue: str = "jobs", scope: str = SCOPE) -> Depth:
        record = await self.work_queues.queues.lookup(self.caller, scope, queue)
        return (await depths_of(self.work_queues.database, [record.id]))[record.id]

    async def labels(self, message_id: str) -> dict[str, str]:
        async with self.work_queues.database.connect() as connection:
            rows = await connection.execute(select(labels).where(labels.c.message_id == message_id))
            return {row.name: row.value for row in rows}

    async def findings(self) -> list[Any]:
        return await self.bodies("_integrity")

    async def audits(self, **wanted: Any) -> list[AuditEntry]:
        return (await self.work_queues.audit.list(self.caller, AuditFilter(**wanted), limit=500)).items


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


async def a_desk(work_queues: WorkQueues, clock: Clock, **scope: Any) -> Desk:
    tenant = await work_queues.tenants.create("acme")
    caller = work_queues.tenants.caller(tenant)
    await work_queues.scopes.create(caller, SCOPE, **scope)
    return Desk(work_queues, caller, clock)


@asynccontextmanager
async def open_work_queues(url: str, clock: Clock | None = None) -> AsyncGenerator[WorkQueues]:
    await with_tables(url)
    settings = WorkSettings(database_url=url)
    async with await WorkQueues.open(settings, now_ms=clock or Clock()) as work_queues:
        yield work_queues
