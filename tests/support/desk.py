"""A desk in work queues: one tenant's scope, and short ways to work in it and to look at what became of messages."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from sqlalchemy import func, select, text

from relevo.agents.message_router import MessageRouter
from relevo.agents.outbox_relay import OutboxRelay
from relevo.agents.search_indexer import SearchIndexer
from relevo.contract.audit import AuditEntry
from relevo.contract.claims import Claimed, Settled
from relevo.contract.messages import Message, NewMessage, Published, Refusal
from relevo.contract.rules import Trigger
from relevo.work.audit.entries import AuditFilter
from relevo.work.caller import Caller
from relevo.work.message.history import steps, trail_of
from relevo.work.message.standing import with_claims
from relevo.work.message.verdict import SettleItem, Verdict
from relevo.work.queue_record import QueueRecord, QueueSettings
from relevo.work.reading.message_filter import MessageFilter
from relevo.work.review.outcomes import Origin
from relevo.work.review.spec import ReviewSpec
from relevo.work.routing.rule import Action, Rule
from relevo.work.routing.rules import StoredRule
from relevo.work.store.counters import TALLIES, Depth, depths_of
from relevo.work.store.database import Database
from relevo.work.store.tables import archive, labels, live, metadata, tallies
from relevo.work.work_queues import WorkQueues, WorkSettings
from tests.clock import Clock
from tests.servers.stores import with_tables

SCOPE = "main"
JOBS = "jobs"


def new(n: int = 0, **fields: Any) -> NewMessage:
    return NewMessage(body=msgspec.Raw(b'{"n":%d}' % n), **fields)


def number(message: Claimed) -> int:
    """Which of the messages of `new` this is."""
    return msgspec.json.decode(message.body)["n"]


class Desk:
    """One tenant's scope `main`, and short ways to work in it: also `at` other work queues on the database, `by` others."""

    def __init__(self, work_queues: WorkQueues, caller: Caller, clock: Clock) -> None:
        self.work_queues = work_queues
        self.caller = caller
        self.clock = clock

    def at(self, work_queues: WorkQueues) -> "Desk":
        return Desk(work_queues, self.caller, self.clock)

    def by(self, caller: Caller) -> "Desk":
        return Desk(self.work_queues, caller, self.clock)

    async def queue(self, slug: str = JOBS, **settings: Any) -> QueueRecord:
        return await self.work_queues.queues.create(self.caller, SCOPE, slug, QueueSettings(**settings))

    async def outcomes(self, *given: NewMessage, queue: str = JOBS) -> list[Published | Refusal]:
        """Publishes, and returns what became of each."""
        return await self.work_queues.messages.publish(self.caller, SCOPE, queue, given)

    async def ids(self, *given: NewMessage, queue: str = JOBS) -> list[str]:
        """Publishes what must not be refused, and returns the ids."""
        outcomes = await self.outcomes(*given, queue=queue)
        assert all(isinstance(each, Published) for each in outcomes), outcomes
        return [each.id for each in outcomes if isinstance(each, Published)]

    async def publish(self, count: int = 1, queue: str = JOBS, **fields: Any) -> list[str]:
        """Publishes so many, and returns the ids of those that were not refused."""
        outcomes = await self.outcomes(*(new(n, **fields) for n in range(count)), queue=queue)
        return [each.id for each in outcomes if isinstance(each, Published)]

    async def claim(self, count: int = 1, queue: str = JOBS, **how: Any) -> list[Claimed]:
        return await self.work_queues.claims.claim(self.caller, SCOPE, queue, batch_size=count, **how)

    async def settle(
        self, verdict: Verdict, claimed: Claimed | list[Claimed], *, queue: str | None = None, **fields: Any
    ) -> list[Settled]:
        """Settles one message or several; with `queue` as a worker of that queue, else as one who knows the messages alone."""
        each_of = claimed if isinstance(claimed, list) else [claimed]
        items = [SettleItem(id=each.id, claim_token=each.claim_token, **fields) for each in each_of]
        return await self.work_queues.settlements.settle(self.caller, SCOPE, verdict, items, queue=queue)

    async def drain(self, count: int = 50, queue: str = JOBS) -> list[Claimed]:
        """Claims and completes until nothing is left; what was claimed, in that order."""
        done: list[Claimed] = []
        while claimed := await self.claim(count, queue):
            settled = await self.settle("complete", claimed, queue=queue)
            assert all(each.state == "completed" for each in settled), settled
            done += claimed
        return done

    async def die(self, count: int = 1, queue: str = JOBS, reason: str = "no use", **fields: Any) -> list[str]:
        """Publishes messages and makes dead letters of them."""
        await self.publish(count, queue, **fields)
        claimed = await self.claim(count, queue)
        await self.settle("fail", claimed, reason=reason, dead=True)
        return [each.id for each in claimed]

    async def row(self, message_id: str) -> dict[str, Any]:
        """The message's row, live or archived."""
        async with self.work_queues.database.connect() as connection:
            for table in (live, archive):
                query = select(table).where(table.c.id == message_id)
                found = (await connection.execute(query)).mappings().one_or_none()
                if found is not None:
                    return dict(found) if table is archive else (await with_claims(connection, [found]))[0]
        raise AssertionError(f"there is no message {message_id}")

    async def review_row(self, spec: ReviewSpec, message_id: str, queue: str = JOBS) -> dict[str, Any]:
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
        return [step.event for step in steps(trail_of(await self.row(message_id)))]

    # --- rules, and what became of messages ------------------------------------------------------------------------------

    async def rule(
        self, *actions: Action, on: Trigger = "message_published", when: str = "true", name: str = "r", **more: Any
    ) -> StoredRule:
        rule = Rule(name=name, trigger=on, condition=when, actions=list(actions), **more)
        return await self.work_queues.rules.create(self.caller, SCOPE, rule)

    async def put(self, body: Any = None, queue: str = JOBS, **fields: Any) -> Published | Refusal:
        """Publishes one message."""
        message = NewMessage(body=msgspec.Raw(msgspec.json.encode(body)), **fields)
        (outcome,) = await self.outcomes(message, queue=queue)
        return outcome

    async def id_of(self, body: Any = None, queue: str = JOBS, **fields: Any) -> str:
        outcome = await self.put(body, queue, **fields)
        assert isinstance(outcome, Published), outcome
        return outcome.id

    async def route(self) -> int:
        """Lets the events out, and the rules look at them; at how many they looked."""
        relay = OutboxRelay(self.work_queues)
        await relay.work()
        await relay.close()
        return (await MessageRouter(self.work_queues).work()).items

    async def index(self) -> None:
        """Has the search table learn of everything."""
        indexer = SearchIndexer(self.work_queues)
        while (await indexer.work()).items:
            pass

    async def all(self, **wanted: Any) -> list[Message]:
        """The messages of the scope, oldest first."""
        page = await self.work_queues.search.list(self.caller, SCOPE, MessageFilter(**wanted), limit=500)
        return list(reversed(page.items))

    async def bodies(self, queue: str) -> list[Any]:
        return [msgspec.json.decode(each.body) for each in await self.all(queue=queue)]

    async def depth(self, queue: str = JOBS, scope: str = SCOPE) -> Depth:
        record = await self.work_queues.queues.lookup(self.caller, scope, queue)
        return (await depths_of(self.work_queues.database, [record.id]))[record.id]

    async def states(self, queue: str = JOBS) -> dict[str, int]:
        """How many rows of a queue are in each state: what the depths must agree with."""
        record = await self.work_queues.queues.lookup(self.caller, SCOPE, queue)
        async with self.work_queues.database.connect() as connection:
            query = select(live.c.state, func.count()).where(live.c.queue_id == record.id)
            return {row[0]: row[1] for row in await connection.execute(query.group_by(live.c.state))}

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


async def a_desk(work_queues: WorkQueues, clock: Clock, tenant_name: str = "acme", **scope: Any) -> Desk:
    tenant = await work_queues.tenants.create(tenant_name)
    caller = work_queues.tenants.caller(tenant)
    await work_queues.scopes.create(caller, SCOPE, **scope)
    return Desk(work_queues, caller, clock)


@asynccontextmanager
async def open_work_queues(url: str, clock: Clock | None = None) -> AsyncGenerator[WorkQueues]:
    await with_tables(url)
    settings = WorkSettings(database_url=url)
    async with await WorkQueues.open(settings, now_ms=clock or Clock()) as work_queues:
        yield work_queues
