"""Everything a process needs to work with work queues, opened from one set of settings."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Literal, Self, TypeVar

import msgspec

from relevo.wire.ids import IdMint
from relevo.work.audit import Audit
from relevo.work.claims import Claims
from relevo.work.keys import Keys
from relevo.work.messages import Messages
from relevo.work.queues import Queues
from relevo.work.scopes import Scopes
from relevo.work.search import Search
from relevo.work.settling import Settling
from relevo.work.store.database import Database
from relevo.work.tenants import Tenants
from relevo.work.transaction import Transaction
from relevo.work.usage import Usage
from relevo.work.wakeups import Wakeups

T = TypeVar("T")


class OfficeSettings(msgspec.Struct, frozen=True, kw_only=True):
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
    lanes: int | None = None
    """Transactions under way at once; None for the driver's own choice."""


class Office:
    """The work room of one process.

        async with await Office.open(OfficeSettings(database_url="sqlite:///data/work.db")) as office:
            await office.messages.publish(caller, "billing", "invoices", [NewMessage(body=msgspec.Raw(b"{}"))])

    Its nouns: `database`, `queues`, `messages`, `claims`, `settling`, `order`, `wakeups`, `subscriptions`.
    """

    def __init__(self, settings: OfficeSettings, *, now_ms: Callable[[], int] | None = None) -> None:
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
        self.search = Search(self.database, self.now_ms)
        self.usage = Usage(self.database, self.now_ms)
        self.wakeups = Wakeups()
        self.messages = Messages(self)
        self.claims = Claims(self)
        self.settling = Settling(self)

    @classmethod
    async def open(cls, settings: OfficeSettings, *, now_ms: Callable[[], int] | None = None) -> Self:
        """Connects to the database. Redis may be away: then claims go by SQL until it is there."""
        office = cls(settings, now_ms=now_ms)
        raise NotImplementedError(office)

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Runs `work` in one transaction of the hot driver, writes what it collected (tallies, events, audit rows), commits,
        and tells the order index and the waiting claims. `work` awaits nothing but its session, see store/port.py, and may
        be run again after a deadlock."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _clock() -> int:
    return time.time_ns() // 1_000_000
