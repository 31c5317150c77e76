"""Everything a process needs to work with work queues, opened from one set of settings."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Literal, Self, TypeVar

import msgspec

from relevo.wire.ids import IdMint
from relevo.work.access.api_keys import Keys
from relevo.work.access.console_sessions import ConsoleSessions
from relevo.work.access.grants import Access
from relevo.work.access.rate_limits import RateLimits
from relevo.work.audit.entries import Audit
from relevo.work.audit.integrity import AuditIntegrity
from relevo.work.audit.trace import Traces
from relevo.work.broadcast.deliveries import Deliveries
from relevo.work.broadcast.subscriptions import Subscriptions
from relevo.work.caller import Caller
from relevo.work.consume.chunks import ChunkStreams
from relevo.work.consume.claims import Claims
from relevo.work.consume.long_poll import LongPoll
from relevo.work.consume.settlement import Settlements
from relevo.work.dead_letters.listing import DeadLetters
from relevo.work.dead_letters.replays import Replays
from relevo.work.faults import arm_from_environment
from relevo.work.publish.admission import Admission
from relevo.work.publish.publisher import Publisher
from relevo.work.reading.search import Search
from relevo.work.reading.usage import Usage
from relevo.work.ready_index.index import ReadyIndex
from relevo.work.retention.erasure import Erasures
from relevo.work.review.patterns import Patterns
from relevo.work.review.reviews import Reviews
from relevo.work.review.stream_letters import StreamLetters
from relevo.work.routing.dry_run import DryRuns
from relevo.work.routing.route_plan import RoutePlanner
from relevo.work.routing.route_writer import RouteWriter
from relevo.work.routing.router import Router
from relevo.work.routing.rules import Rules
from relevo.work.routing.stream_queues import StreamQueues
from relevo.work.routing.targets import Targets
from relevo.work.schemas.registry import Schemas
from relevo.work.store.database import Database
from relevo.work.store.group_commit import GroupCommit
from relevo.work.store.installation import installation_id
from relevo.work.store.interface import Dialect, Driver, Session
from relevo.work.store.unit_of_work import Transaction
from relevo.work.tenancy.queues import DEAD_LETTER, QueueRecord, Queues
from relevo.work.tenancy.scopes import Scopes
from relevo.work.tenancy.tenants import Tenants
from relevo.work.tenancy.trusts import Trusts
from relevo.work.webhooks.deliveries import WebhookDeliveries
from relevo.work.webhooks.hooks import Webhooks

T = TypeVar("T")

_SLOTS = 64
"""Rows of tallies a queue and day at most: each transaction under way has one of its own, and those of two processes are seldom
the same."""


class WorkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the rows are, where the order is kept, and the limits."""

    database_url: str
    redis_url: str | None = None
    """None: no Redis at all. Claims are ordered by SQL, and long polls look every `poll_s`."""
    claim_path: Literal["auto", "index", "sql"] = "auto"
    """Where claims ask for the order; `auto` is the faster one for the database (decision 0010)."""
    create_tables: bool = False
    """Makes missing tables when opened, for tests and benchmarks; installations use migrations."""
    max_body_bytes: int = 1_048_576
    poll_s: float = 0.5
    """How often a long poll looks without being woken when there is no Redis; with Redis ten times as long."""
    stream_queues: tuple[str, ...] = ()
    """Stream queues that rules and reviews may use: names or patterns (`emails-*`), for one tenant as `acme=emails-*`."""
    webhook_allow: tuple[str, ...] = ()
    """Hosts and networks that webhooks may go to although they are not of the public internet."""
    max_transactions: int | None = None
    """Transactions under way at once; None for the driver's own choice."""


class WorkQueues:
    """The work room of one process.

        async with await WorkQueues.open(WorkSettings(database_url="sqlite:///data/work.db")) as work_queues:
            await work_queues.messages.publish(caller, "billing", "invoices", [NewMessage(body=msgspec.Raw(b"{}"))])

    Its nouns: `database`, `queues`, `messages`, `claims`, `settling`, `order`, `wakeups`, `subscriptions`, `deliveries`; and of
    people: `rules`, `reviews`, `patterns`, `schemas`, `trusts`.
    """

    def __init__(self, settings: WorkSettings, *, now_ms: Callable[[], int] | None = None) -> None:
        self.settings = settings
        self.now_ms: Callable[[], int] = now_ms or _clock
        """The time; tests may turn it."""
        self.mint = IdMint()
        self.installation = ""
        """Names this installation's keys in Redis; known once opened."""
        self.database = Database(settings.database_url)
        self.queues = Queues(self.database, self.now_ms)
        self.tenants = Tenants(self.database, self.now_ms)
        self.keys = Keys(self.database, self.now_ms)
        self.scopes = Scopes(self.database, self.queues, self.now_ms)
        self.audit = Audit(self.database, self.now_ms)
        self.audit_integrity = AuditIntegrity(self.database, self.now_ms)
        self.traces = Traces(self.database)
        self.search = Search(self.database, self.now_ms)
        self.usage = Usage(self.database, self.now_ms)
        self.long_poll = LongPoll(settings.redis_url, poll_s=settings.poll_s)
        self.ready_index = ReadyIndex(self, settings.redis_url, claims_by_index=self._claims_by_index())
        self.messages = Publisher(self)
        self.claims = Claims(self)
        self.settlements = Settlements(self)
        self.subscriptions = Subscriptions(self)
        self.deliveries = Deliveries(self)
        self.dead_letters = DeadLetters(self)
        self.replays = Replays(self)
        self.streams = StreamQueues(settings.redis_url)
        self.stream_letters = StreamLetters(self)
        self.trusts = Trusts(self)
        self.schemas = Schemas(self)
        self.patterns = Patterns(self)
        self.reviews = Reviews(self)
        self.rules = Rules(self)
        self.targets = Targets(self)
        self.route_planner = RoutePlanner(self)
        self.route_writer = RouteWriter(self)
        self.router = Router(self)
        self.dry_runs = DryRuns(self)
        self.admission = Admission(self)
        self.access = Access(self)
        self.console_sessions = ConsoleSessions(self)
        self.rate_limits = RateLimits(settings.redis_url)
        self.chunk_streams = ChunkStreams(self)
        self.webhooks = Webhooks(self)
        self.webhook_deliveries = WebhookDeliveries(self)
        self.erasures = Erasures(self)
        self._driver: Driver = _driver_for(self.database)
        self.group_commit = GroupCommit(
            self._commit,
            max_transactions=settings.max_transactions or self._driver.max_transactions,
            together=self._driver.max_transactions == 1,
            most=self._driver.most_together,
        )
        self._slots = deque(random.sample(range(_SLOTS), _SLOTS))

    @classmethod
    async def open(cls, settings: WorkSettings, *, now_ms: Callable[[], int] | None = None) -> Self:
        """Connects to the database. Redis may be away: then claims go by SQL until it is there."""
        arm_from_environment()
        work_queues = cls(settings, now_ms=now_ms)
        try:
            if settings.create_tables:
                await work_queues.database.create_tables()
            await work_queues._driver.open()
            work_queues.installation = await installation_id(work_queues.database)
        except BaseException:
            await work_queues.close()
            raise
        work_queues.ready_index.open()
        work_queues.long_poll.open(work_queues.installation)
        work_queues.rate_limits.open(work_queues.installation)
        return work_queues

    @property
    def dialect(self) -> Dialect:
        return self._driver.dialect

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Runs `work` in one transaction of the hot driver, writes what it collected (tallies, events, audit rows), commits,
        and tells the order index and the waiting claims. `work` awaits nothing but its session, see store/port.py, and may
        be run again after a deadlock."""
        done: list[T] = []

        async def keep(transaction: Transaction) -> None:
            done[:] = [await work(transaction)]

        await (await self._commit(keep))()
        return done[0]

    async def scope_of(self, caller: Caller, scope: str) -> QueueRecord:
        """A record of the scope's own `_dead_letter`, for what all its queues share; from the same cache."""
        if caller.queues is not None:
            caller.require_sight(scope)
            caller = msgspec.structs.replace(caller, queues=None)
        return await self.queues.lookup(caller, scope, DEAD_LETTER)

    async def pending_page(self, queue_id: int, after: tuple[int, str], limit: int) -> list[tuple[int, str]]:
        """The next pending messages of a queue in its order, as the order index wants them."""

        async def read(session: Session) -> list[tuple[int, str]]:
            place, message_id = after
            return [(row[0], row[1]) for row in await session.pending_page(queue_id, place, message_id, limit)]

        return await self._driver.transact(read)

    async def close(self) -> None:
        await self.group_commit.close()
        with contextlib.suppress(Exception):  # the database may be away; it is only a count
            await self.rules.write_counts(at_once=True)
        await self.streams.close()
        await self.ready_index.close()
        await self.long_poll.close()
        await self.rate_limits.close()
        await self.webhook_deliveries.close()
        await self._driver.close()
        await self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _claims_by_index(self) -> bool:
        path = self.settings.claim_path
        return path == "index" or (path == "auto" and self.database.dialect == "mariadb")

    async def _commit(self, work: Callable[[Transaction], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """One transaction; returns what is to be done after it, which may overlap with the next."""
        done: list[Transaction] = []

        async def run(session: Session) -> None:
            transaction = Transaction(session, self.now_ms())
            await work(transaction)
            await transaction.write(slot, linking)
            transaction.passed("written")
            done[:] = [transaction]

        slot = self._slots.popleft()  # with more transactions than slots some share one, and wait for each other
        self._slots.append(slot)
        try:
            with self.database.chains.linking() as linking:
                await self._driver.transact(run)
        finally:
            self._slots.remove(slot)
            self._slots.appendleft(slot)
        transaction = done[0]
        transaction.passed("committed")

        async def tell() -> None:
            if transaction.ready:
                await self.ready_index.add(transaction.ready)
            wakes = Counter(ready.queue_id for ready in transaction.ready)
            wakes.update(transaction.wakes)
            if wakes:
                self.long_poll.wake(wakes)
            transaction.passed("indexed")

        return tell


def _driver_for(database: Database) -> Driver:
    if database.dialect == "sqlite":
        from relevo.work.store.sqlite.driver import SqliteDriver

        return SqliteDriver(database)
    if database.dialect == "postgresql":
        from relevo.work.store.postgresql.driver import PostgresDriver

        return PostgresDriver(database)
    from relevo.work.store.mariadb.driver import MariaDbDriver

    return MariaDbDriver(database)


def _clock() -> int:
    return time.time_ns() // 1_000_000
