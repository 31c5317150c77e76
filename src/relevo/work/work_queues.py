"""Everything a process needs to work with work queues, opened from one set of settings."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Literal, Self

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
from relevo.work.clock import Clock, wall_clock
from relevo.work.consume.chunks import ChunkStreams
from relevo.work.consume.claims import Claims
from relevo.work.consume.lease_book import LeaseBook
from relevo.work.consume.long_poll import LongPoll, Wake
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
from relevo.work.review.subject import Subjects
from relevo.work.routing.dry_run import DryRuns
from relevo.work.routing.route_plan import RoutePlanner
from relevo.work.routing.route_writer import RouteWriter
from relevo.work.routing.router import Router
from relevo.work.routing.rules import Rules
from relevo.work.routing.targets import Targets
from relevo.work.schemas.registry import Schemas
from relevo.work.store.database import Database
from relevo.work.store.group_commit import GroupCommit
from relevo.work.store.installation import installation_id
from relevo.work.store.interface import Dialect, Driver, Session
from relevo.work.store.kept_answers import KeptAnswers
from relevo.work.store.transactions import FastTransactions, Transactions
from relevo.work.store.unit_of_work import UnitOfWork
from relevo.work.streams.stream_queues import StreamQueues
from relevo.work.tenancy.queues import Queues
from relevo.work.tenancy.scopes import Scopes
from relevo.work.tenancy.tenants import Tenants
from relevo.work.tenancy.trusts import Trusts
from relevo.work.webhooks.deliveries import WebhookDeliveries
from relevo.work.webhooks.hooks import Webhooks


class WorkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the rows are, where the order is kept, and the limits."""

    database_url: str
    redis_url: str | None = None
    """None: no Redis at all. Claims are ordered by SQL, and long polls look every `poll_s`."""
    claim_path: Literal["index", "sql"] = "sql"
    """Where claims ask for the order: the database, or an index in Redis (decision 0010)."""
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

    def __init__(self, settings: WorkSettings, *, now_ms: Clock | None = None) -> None:
        self.settings = settings
        self.now_ms: Clock = now_ms or wall_clock
        """The time; tests may turn it."""
        self.mint = IdMint()
        self.installation = ""
        """Names this installation's keys in Redis; known once opened."""
        now, mint = self.now_ms, self.mint
        database = self.database = Database(settings.database_url)
        driver = self._driver = _driver_for(database)

        # Commits, and who is told of them.
        self.ready_index = ReadyIndex(
            settings.redis_url, self._pending_page, mint, claims_by_index=settings.claim_path == "index"
        )
        self.long_poll = LongPoll(settings.redis_url, poll_s=settings.poll_s)
        transactions = self.transactions = Transactions(database, now, after_commit=self._tell)
        fast = self.fast_transactions = FastTransactions(database, driver, now, after_commit=self._tell)
        self.group_commit = GroupCommit(
            fast.commit,
            max_transactions=settings.max_transactions or driver.max_transactions,
            together=driver.max_transactions == 1,
            most=driver.most_together,
        )

        # Who may do what, and where.
        queues = self.queues = Queues(transactions, database, now)
        self.tenants = Tenants(transactions, database, now)
        self.scopes = Scopes(transactions, database, queues, now)
        self.trusts = Trusts(transactions, database, queues)
        self.keys = Keys(transactions, database, now)
        self.access = Access(transactions, database, self.keys, mint)
        self.rate_limits = RateLimits(settings.redis_url)
        self.kept_answers = KeptAnswers(database, now)
        self.console_sessions = ConsoleSessions(transactions, database, self.keys, self.rate_limits, now)

        # What is asked of a message on its way in.
        streams = self.streams = StreamQueues(settings.redis_url, settings.stream_queues)
        self.schemas = Schemas(transactions, database, queues, now)
        self.patterns = Patterns(transactions, database)
        self.reviews = Reviews(transactions, database, queues, self.patterns, self.schemas, mint, now)
        self.stream_letters = StreamLetters(transactions, database, queues, self.reviews, self.patterns, streams, now)
        self.targets = Targets(queues, streams)
        self.rules = Rules(transactions, database, queues, self.targets, self.trusts, self.patterns, mint, now)
        self.route_planner = RoutePlanner(self.rules, self.targets, self.patterns, self.schemas, mint, now)

        # The walk: published, claimed, settled; to every subscription of a broadcast queue.
        self.subscriptions = Subscriptions(transactions, database, queues, now)
        self.deliveries = Deliveries(transactions, mint)
        self.route_writer = RouteWriter(self.reviews, self.subscriptions)
        self.admission = Admission(self.rules, self.schemas, self.patterns, self.route_planner)
        self.messages = Publisher(
            fast,
            self.group_commit,
            queues,
            self.admission,
            self.route_writer,
            self.subscriptions,
            mint,
            now,
            settings.max_body_bytes,
        )
        lease_book = LeaseBook()
        self.claims = Claims(queues, self.deliveries, self.group_commit, self.ready_index, self.long_poll, lease_book)
        self.settlements = Settlements(queues, self.deliveries, self.group_commit, lease_book)
        self.chunk_streams = ChunkStreams(transactions, database, queues, self.long_poll, settings.max_body_bytes)

        # After the walk.
        self.dead_letters = DeadLetters(database, queues, now)
        self.replays = Replays(transactions, database, queues, mint)
        self.router = Router(
            transactions, database, queues, self.rules, self.route_planner, self.route_writer, mint, now
        )
        self.dry_runs = DryRuns(database, queues, self.targets, self.trusts, mint, now)
        self.erasures = Erasures(transactions, database, queues, streams, mint)
        self.webhooks = Webhooks(transactions, database, mint, now, settings.webhook_allow)
        self.webhook_deliveries = WebhookDeliveries(transactions, database, self.webhooks, mint, now)

        # Reading.
        self.search = Search(database, now)
        self.usage = Usage(database, now)
        self.subjects = Subjects(database, self.search, streams)
        self.audit = Audit(database)
        self.audit_integrity = AuditIntegrity(transactions, database, now)
        self.traces = Traces(database)

    @classmethod
    async def open(cls, settings: WorkSettings, *, now_ms: Clock | None = None) -> Self:
        """Connects to the database. Redis may be away: then claims go by SQL until it is there."""
        arm_from_environment()
        work_queues = cls(settings, now_ms=now_ms)
        try:
            await work_queues._driver.open()
            work_queues.installation = await installation_id(work_queues.database)
        except BaseException:
            await work_queues.close()
            raise
        work_queues.ready_index.open(work_queues.installation)
        work_queues.long_poll.open(work_queues.installation)
        work_queues.rate_limits.open(work_queues.installation)
        return work_queues

    @property
    def dialect(self) -> Dialect:
        return self._driver.dialect

    async def _pending_page(self, queue_id: int, after: tuple[int, str], limit: int) -> list[tuple[int, str]]:
        """The next pending messages of a queue in its order, as the order index wants them."""

        async def read(session: Session) -> list[tuple[int, str]]:
            place, message_id = after
            return [(row[0], row[1]) for row in await session.pending_page(queue_id, place, message_id, limit)]

        return await self.fast_transactions.read(read)

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

    async def _tell(self, unit: UnitOfWork) -> None:
        """After every commit: the order index learns what is ready, and who waits for it is woken."""
        claimable = [ready for ready in unit.ready if not ready.broadcast]
        if claimable or unit.published:
            await self.ready_index.add(claimable, unit.published)
        counts = Counter(ready.queue_id for ready in claimable)
        for rows in unit.published:
            counts[rows.queue_id] += len(rows.ids)
        counts.update(unit.wakes)
        if counts:
            wakes = {queue_id: Wake(count) for queue_id, count in counts.items()}
            for ready in claimable:
                if ready.labels != {}:
                    wakes[ready.queue_id].name(ready.labels)
            for queue_id in unit.wakes:
                wakes[queue_id].name(None)
            self.long_poll.wake(wakes)
        unit.passed("indexed")


def _driver_for(database: Database) -> Driver:
    if database.dialect == "sqlite":
        from relevo.work.store.sqlite.driver import SqliteDriver

        return SqliteDriver(database)
    if database.dialect == "postgresql":
        from relevo.work.store.postgresql.driver import PostgresDriver

        return PostgresDriver(database)
    from relevo.work.store.mariadb.driver import MariaDbDriver

    return MariaDbDriver(database)
