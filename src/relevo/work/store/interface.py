"""The port of the hot path: what publish, claim and settle ask of a database, inside one transaction.

A transaction is a coroutine over a `Session`. On PostgreSQL and MariaDB it waits for the server at every step; on SQLite no
step ever waits, and the whole coroutine runs in the one thread that writes, with one hand-over for all of it. So a transaction
must await nothing but its session: no locks, no sleeps, no other I/O.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from sqlalchemy import Table

from relevo.work.store.audit_chain import Head

T = TypeVar("T")
Dialect = Literal["sqlite", "postgresql", "mariadb"]
Row = tuple[Any, ...]


class Claim(NamedTuple):
    """What a claim writes into the rows it takes."""

    token: str
    until: int
    by: str
    now: int
    trail: str
    """The line of history, the same for all of them."""


class Share(NamedTuple):
    """How many rows one claim wants of those that a transaction takes for several."""

    claim: Claim
    rows: int


class ClaimedRow(NamedTuple):
    """A row that a claim has just taken, as the worker gets it. Rows compare in the queue's order."""

    sort_key: int
    id: str
    attempts: int
    reclaims: int
    message_type: str
    priority_tier: int
    priority_score: int
    labels: str
    content_type: str
    body: str | None
    correlation_id: str
    causation_id: str | None
    parent_id: str | None
    deadline_at: int | None
    created_at: int
    pending_since: int
    """When it was last changed before: published, promoted, released or put back."""


class LockedMessage(NamedTuple):
    """A message's row, locked until the transaction ends, with what a settle has to know."""

    id: str
    tenant_id: int
    scope_id: int
    queue_id: int
    origin_queue_id: int | None
    state: str
    sort_key: int
    visible_at: int | None
    claim_until: int | None
    claim_token: str | None
    claimed_by: str | None
    claimed_at: int | None
    attempts: int
    reclaims: int
    replays: int
    priority_tier: int
    priority_score: int
    message_type: str
    correlation_id: str
    deadline_at: int | None
    created_at: int
    finished_at: int | None
    failure_reason: str | None

    @staticmethod
    def of(row: Any) -> LockedMessage:
        """From a whole row."""
        return LockedMessage(*(row[name] for name in LockedMessage._fields))


class LockedDelivery(NamedTuple):
    """What one subscription has to do with a message, locked; named as in `LockedMessage`. The id is the message's."""

    id: str
    tenant_id: int
    scope_id: int
    queue_id: int
    message_type: str
    correlation_id: str
    subscription_id: int
    subscription: str
    state: str
    sort_key: int
    visible_at: int | None
    claim_until: int | None
    claim_token: str | None
    claimed_at: int | None
    attempts: int
    reclaims: int
    updated_at: int


class MessageUpdate(NamedTuple):
    """New values of a locked row, by column, and the lines to append to the message's history."""

    row: LockedMessage | LockedDelivery
    columns: Mapping[str, Any]
    trail: str

    def values(self) -> Row:
        """For update_messages.sql: the id, all columns that it sets, the lines, the error (None leaves the one there is)."""
        row, columns = self.row, self.columns
        if not columns.keys() <= _SETTABLE:
            raise KeyError(f"update_messages.sql does not set {sorted(columns.keys() - _SETTABLE)}")
        kept = (columns[name] if name in columns else getattr(row, name) for name in _SET)
        return (row.id, *kept, columns["updated_at"], self.trail, columns.get("error"))


_SET = (
    *("queue_id", "origin_queue_id", "state", "sort_key", "visible_at", "claim_until", "claim_token", "claimed_by"),
    *("claimed_at", "attempts", "reclaims", "replays", "priority_tier", "priority_score", "failure_reason"),
    "finished_at",
)
_SETTABLE = {*_SET, "updated_at", "error"}


class Completion(NamedTuple):
    """One message to complete, by whoever holds `token`, in the scope (and the queue, if any) that they named."""

    id: str
    token: str
    scope_id: int
    queue_id: int | None
    result: str | None

    def allows(self, token: str, scope_id: int, queue_id: int) -> bool:
        """Whether a claimed row is the one that is meant, and theirs to complete."""
        return self.token == token and self.scope_id == scope_id and self.queue_id in (None, queue_id)


class CompletedRow(NamedTuple):
    """What a completion tells the event."""

    id: str
    queue_id: int
    attempts: int
    claimed_at: int
    message_type: str
    correlation_id: str


class QueuePolicy(NamedTuple):
    """What settling needs of a queue; the names are those of `QueueRecord`."""

    id: int
    slug: str
    ordering: str
    consumer_mode: str
    visibility_timeout_s: int
    max_retries: int
    backoff_initial_ms: int
    backoff_multiplier: str
    backoff_cap_ms: int
    backoff_jitter_ms: int
    dead_letter_id: int


class KnownKey(NamedTuple):
    """An idempotency key that was there before us. `state` is None when the message is in the archive."""

    queue_id: int
    idempotency_key: str
    message_id: str
    body_digest: str
    state: str | None


@dataclass
class Phase:
    """How far a transaction had come when its connection was lost. Before its commit was sent nothing can have been written:
    it may run once more."""

    may_be_committed: bool = False


class Session(Protocol):
    """An open transaction. Rows locked or changed in it stay so until it ends."""

    @property
    def dialect(self) -> Dialect: ...

    # --- anything ------------------------------------------------------------------------------------------------------

    async def fetch(self, statement: str, *values: Any) -> list[Row]:
        """Runs `<dialect>/<statement>.sql` and returns its rows. Values stand in the order of their places there."""
        ...

    async def insert(self, table: Table, rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> None:
        """Inserts whole rows: values in the order of the table's columns, or of `columns`."""
        ...

    # --- publish ---------------------------------------------------------------------------------------------------------

    async def lock_queues(self, queue_ids: Sequence[int]) -> None:
        """Holds these queues' rows, in the order of their ids: publishes to a queue with a max_depth go one after another."""
        ...

    async def waiting(self, queue_id: int) -> int:
        """Messages pending or delayed, from the tallies."""
        ...

    async def remember_keys(self, rows: Sequence[tuple[int, str, str, str]]) -> list[KnownKey]:
        """Inserts (queue_id, key, message_id, body_digest) and returns those that were there already, with what they say."""
        ...

    async def forget_keys(self, message_ids: Sequence[str]) -> None:
        """Forgets the keys of these messages."""
        ...

    async def oldest_waiting(self, queue_id: int, limit: int) -> list[LockedMessage]:
        """The oldest pending or delayed rows, held; for overflow policies."""
        ...

    # --- claim -----------------------------------------------------------------------------------------------------------

    async def claim_next(
        self, queue_id: int, shares: Sequence[Share], labels: Sequence[tuple[str, str]] = ()
    ) -> list[ClaimedRow]:
        """Claims the first pending rows in the queue's order that have not outlived their ttl, passing over those another
        transaction holds: as many as the
        shares want together, the first ones for the first share. With `labels` only rows that carry all of them."""
        ...

    async def claim_ids(self, queue_id: int, wanted: Sequence[tuple[Claim, Sequence[str]]]) -> list[ClaimedRow]:
        """Claims those of these rows that are still pending in this queue and have not outlived their ttl, each with its
        claim; in any order."""
        ...

    async def pending_page(self, queue_id: int, sort_key: int, message_id: str, limit: int) -> list[tuple[int, str]]:
        """Pending rows of a queue in its order, after this place: (sort_key, id) of each."""
        ...

    # --- settle ----------------------------------------------------------------------------------------------------------

    async def complete(self, items: Sequence[Completion], now: int, trail: str) -> list[CompletedRow]:
        """Completes those that are claimed with their token; returns them. Ids must not repeat."""
        ...

    async def lock(self, ids: Sequence[str]) -> list[LockedMessage]:
        """These rows, held, in the order of their ids; ids that do not exist are left out."""
        ...

    async def policies(self, queue_ids: Sequence[int]) -> list[QueuePolicy]:
        """What settling needs of these queues."""
        ...

    async def update_messages(self, updates: Sequence[MessageUpdate]) -> None:
        """Gives locked rows their new values. Of a driver's session those that a settle or a publish may change."""
        ...

    # --- every transaction ---------------------------------------------------------------------------------------------------

    async def add_counters(self, rows: Sequence[Row]) -> None:
        """Adds rows of `CounterDelta.rows` to the tallies."""
        ...

    async def chain_heads(self, limit: int) -> list[Row]:
        """The youngest chains of the audit: (chain, last_no, last_hash) of each, in the order of their names."""
        ...

    async def add_audit(self, rows: Sequence[Row], head: Head, *, is_new: bool) -> None:
        """Inserts audit rows, all columns but the id, and writes the head of their chain: its first row, or over it."""
        ...


class Driver(Protocol):
    """A database as the hot path uses it."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def max_transactions(self) -> int:
        """Transactions that may be under way at once; 1 where there is one writer."""
        ...

    @property
    def most_together(self) -> int:
        """Messages from which a transaction is closed for further requests."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def transact(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Runs `work` in one transaction and commits: when this returns, it is on disk. What `work` raises rolls back.
        Deadlocks and the like are tried again; a lost connection is `StoreUnavailable`."""
        ...
