"""The port of the hot path: what publish, claim and settle ask of a database, inside one transaction.

A transaction is a coroutine over a `Session`. On PostgreSQL and MariaDB it waits for the server at every step; on SQLite no
step ever waits, and the whole coroutine runs in the one thread that writes, with one hand-over for all of it. So a transaction
must await nothing but its session: no locks, no sleeps, no other I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from sqlalchemy import Table

from relevo.contract.messages import State
from relevo.work.store.audit_chain import Head
from relevo.work.store.lease import Lease

T = TypeVar("T")
Dialect = Literal["sqlite", "postgresql", "mariadb"]
Row = tuple[Any, ...]
Place = tuple[int, str]
"""Of a message in its queue's order: sort key and id."""

NO_CLAIMS: Mapping[str, int] = {}


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
    claim_no: int
    expires_at: int | None


class LockedMessage(NamedTuple):
    """A message's row, locked until the transaction ends, with what a settle has to know."""

    id: str
    tenant_id: int
    scope_id: int
    queue_id: int
    origin_queue_id: int | None
    state: State
    """Which no row says: see `live` among the tables."""
    sort_key: int
    visible_at: int | None
    claim_until: int | None
    claim_no: int
    claim_token: str | None
    claimed_by: str | None
    claimed_at: int | None
    attempts: int
    """A claim under way included, which the row does not count."""
    reclaims: int
    replays: int
    priority_tier: int
    priority_score: int
    message_type: str
    correlation_id: str
    deadline_at: int | None
    expires_at: int | None
    created_at: int
    finished_at: int | None
    failure_reason: str | None
    lease: Lease | None = None
    """Of a claimed one, where it was asked for."""

    @staticmethod
    def of_columns(row: Sequence[Any]) -> LockedMessage:
        """From the columns of lock.sql: these with `standing` for the state, and whether it is in `ready`."""
        standing, visible_at, finished_at, is_ready = row[5], row[7], row[23], row[25]
        state = state_of(standing, finished_at, visible_at, is_ready)
        attempts = row[13] + (state == "claimed")
        return LockedMessage._make((*row[:5], state, *row[6:13], attempts, *row[14:25], None))

    @staticmethod
    def of(row: Any) -> LockedMessage:
        """From a whole row of `live`."""
        return LockedMessage(*(row[name] for name in LockedMessage._fields if name != "lease"))


LOCKED_COLUMNS = tuple("standing" if name == "state" else name for name in LockedMessage._fields if name != "lease")
"""What `of_columns` wants, but the last."""


def state_of(standing: str | None, finished_at: int | None, visible_at: int | None, is_ready: object) -> State:
    """The state of a live message: as `live` says it.

    >>> state_of(None, None, None, True), state_of(None, None, None, False), state_of("dead", 1, None, False)
    ('pending', 'claimed', 'dead')
    """
    if standing is not None:
        return standing  # pyright: ignore[reportReturnType]
    if finished_at is not None:
        return "completed"
    if visible_at is not None:
        return "delayed"
    return "pending" if is_ready else "claimed"


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
    state: State
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
        kept = (columns[name] if name in columns else getattr(row, name) for name in _SET)  # `standing` is always given
        return (row.id, *kept, columns["updated_at"], self.trail, columns.get("error"))


_SET = (
    *("queue_id", "origin_queue_id", "standing", "sort_key", "visible_at", "claim_until", "claim_no", "claim_token"),
    *("claimed_by", "claimed_at", "attempts", "reclaims", "replays", "priority_tier", "priority_score"),
    *("failure_reason", "finished_at"),
)
_SETTABLE = {*_SET, "updated_at", "error"}


class Completion(NamedTuple):
    """Messages of one claim to complete alike."""

    token: str
    claim_no: int
    """Of each of them: how many of its claims were over before."""
    claimed_by: str
    claimed_at: int
    claim_line: str
    """The claim's line of history, for a row that has it not yet: an extension writes it too."""
    trail: str
    """The line of the completion."""
    ids: list[str]
    results: list[str] | None
    """One for each of them, or none at all."""


class Disagreement(Exception):
    """A message was not as this process knew it, so nothing is written: the transaction is run once more, and looks first."""


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
    body: str | None
    body_digest: str | None
    """Of what was published, once the body is another: changed by a rule or a reviewer, or erased."""
    state: State | None

    def says(self, body: bytes) -> bool:
        """Whether this is what was published with the key. Of a message that was erased nobody can tell any more."""
        if self.body_digest is not None:
            return hashlib.sha256(body).hexdigest() == self.body_digest
        return self.body is not None and self.body.encode() == body

    @staticmethod
    def of_columns(row: Sequence[Any]) -> KnownKey:
        """From those of known_keys.sql."""
        *key, is_live, standing, finished_at, visible_at, is_ready = row
        return KnownKey._make((*key, state_of(standing, finished_at, visible_at, is_ready) if is_live else None))


class PlainRows(NamedTuple):
    """New messages that say nothing but a body and a key, by column: of one publisher, for one queue."""

    tenant_id: int
    scope_id: int
    queue_id: int
    published_by: str
    sort_key: int | None
    """None: each is in the order of its creation."""
    created_at: list[int]
    ids: list[str]
    bodies: list[str]
    keys: list[str | None]
    size: int
    """Of the bodies, in bytes."""

    @staticmethod
    def joined(parts: Sequence[PlainRows]) -> PlainRows:
        """Those of one publisher and one queue as one."""
        if len(parts) == 1:
            return parts[0]
        return parts[0]._replace(
            created_at=[at for each in parts for at in each.created_at],
            ids=[id_ for each in parts for id_ in each.ids],
            bodies=[body for each in parts for body in each.bodies],
            keys=[key for each in parts for key in each.keys],
            size=sum(each.size for each in parts),
        )

    @property
    def sort_keys(self) -> list[int]:
        return self.created_at if self.sort_key is None else [self.sort_key] * len(self.ids)


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

    async def publish(self, rows: PlainRows) -> None:
        """Writes these messages and their keys, and has them enter `ready`. If a key is known, this or a later step raises
        `Disagreement`."""
        ...

    async def lock_queues(self, queue_ids: Sequence[int]) -> None:
        """Holds these queues' rows, in the order of their ids: publishes to a queue with a max_depth go one after another."""
        ...

    async def waiting(self, queue_id: int) -> int:
        """Messages pending or delayed, from the tallies."""
        ...

    async def remember_keys(self, rows: Sequence[tuple[int, str, str]]) -> list[KnownKey]:
        """Inserts (queue_id, key, message_id) and returns those that were there already, with what they say."""
        ...

    async def forget_keys(self, keys: Sequence[tuple[int, str]]) -> None:
        """Forgets these keys, each of a queue."""
        ...

    async def oldest_waiting(self, queue_id: int, limit: int) -> list[LockedMessage]:
        """The oldest pending or delayed rows, held; for overflow policies."""
        ...

    # --- ready -----------------------------------------------------------------------------------------------------------

    async def claim_next(
        self, queue_id: int, limit: int, scope_id: int = 0, labels: Sequence[tuple[str, str]] = ()
    ) -> list[ClaimedRow]:
        """Takes the first messages in the queue's order out of `ready`, passing over those another transaction holds: they
        are whoever's whose lease names them. With `labels` only messages that carry all of them."""
        ...

    async def claim_ids(self, queue_id: int, ids: Sequence[str]) -> list[ClaimedRow]:
        """The same of those of these messages that are ready in this queue; in any order."""
        ...

    async def leave_ready(self, places: Sequence[tuple[int, int, str]]) -> None:
        """Takes messages that are held, at (queue, sort key, id), out of `ready`."""
        ...

    async def pending_page(self, queue_id: int, sort_key: int, message_id: str, limit: int) -> list[Place]:
        """What is ready in a queue in its order, behind this place."""
        ...

    # --- leases ----------------------------------------------------------------------------------------------------------

    async def leases(self, tokens: Sequence[str]) -> list[Lease]:
        """Those of these leases that there are."""
        ...

    async def drop_leases(self, tokens: Sequence[str]) -> None:
        """Deletes leases that hold nothing any more."""
        ...

    async def shorten_lease(self, token: str, look_at: int) -> None:
        """Has a lease looked at by then, if it would be later."""
        ...

    # --- settle ----------------------------------------------------------------------------------------------------------

    async def complete(self, alike: Sequence[Completion], now: int) -> None:
        """Completes messages, none of them twice. If one is not claimed as this says, this or a later step raises
        `Disagreement`."""
        ...

    async def lock(self, ids: Sequence[str], claims: Mapping[str, int] = NO_CLAIMS) -> list[LockedMessage]:
        """These rows, held, in the order of their ids; ids that do not exist are left out. A message in `ready` is held there
        too. `claims` are those that the caller has leases of: such a message need not be looked for in `ready`."""
        ...

    async def policies(self, queue_ids: Sequence[int]) -> list[QueuePolicy]:
        """What settling needs of these queues."""
        ...

    async def update_messages(self, updates: Sequence[MessageUpdate]) -> None:
        """Gives locked rows their new values. Of a driver's session those that a settle or a publish may change."""
        ...

    # --- every transaction ---------------------------------------------------------------------------------------------------

    async def add_due(self, rows: Sequence[tuple[str, int, str]]) -> None:
        """Notes what is due: kind, time and message. What is noted already stays."""
        ...

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
