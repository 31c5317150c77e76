"""A desk with rules, on each of the three databases."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from relevo.agents.message_router import MessageRouter
from relevo.agents.outbox_relay import OutboxRelay
from relevo.contract.audit import AuditEntry
from relevo.contract.messages import Message, NewMessage, Published, Refusal
from relevo.contract.rules import Trigger
from relevo.work.audit.entries import AuditFilter
from relevo.work.reading.search import MessageFilter
from relevo.work.routing.rule import Action, Rule
from relevo.work.routing.rules import StoredRule
from relevo.work.store.counters import Depth, depths_of
from relevo.work.store.tables import labels
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.agents.conftest import SCOPE, a_desk, emptied
from tests.agents.conftest import Desk as PlainDesk
from tests.clock import Clock
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server

STREAMS = ("*",)


class Desk(PlainDesk):
    """Short ways to make rules, and to look at what became of messages."""

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


async def a_routing_desk(work_queues: WorkQueues, clock: Clock) -> Desk:
    plain = await a_desk(work_queues, clock)
    return Desk(work_queues, plain.caller, clock)


@pytest.fixture
async def desk(database_url: str, clock: Clock) -> AsyncGenerator[Desk]:
    """On each database in turn, without Redis, with the queue `jobs`."""
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, stream_queues=STREAMS)
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        made = await a_routing_desk(work_queues, clock)
        await made.queue()
        yield made


@pytest.fixture
async def bridge_desk(database_url: str, clock: Clock, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Desk]:
    """On each database in turn, beside a Redis, with the queue `jobs`."""
    key_leaks.allow("rw:*")
    await emptied(database_url)
    settings = WorkSettings(database_url=database_url, redis_url=valkey.url, stream_queues=("q-*",))
    async with await WorkQueues.open(settings, now_ms=clock) as work_queues:
        made = await a_routing_desk(work_queues, clock)
        await made.queue(backoff_initial_ms=0, backoff_jitter_ms=0, max_retries=2)
        yield made
