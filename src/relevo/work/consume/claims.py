"""Claiming messages: the next of a queue in its order, into one worker's hands, for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from relevo.contract.claims import Claimed
from relevo.errors import InvalidInput, QueueArchived, QueuePaused, ScopePaused, WrongConsumerMode
from relevo.work.broadcast.deliveries import Deliveries
from relevo.work.caller import Caller
from relevo.work.consume.claimed_messages import ClaimedMessages, ReadyMessages
from relevo.work.consume.lease_book import GivenLease, LeaseBook
from relevo.work.consume.long_poll import CancelToken, LongPoll
from relevo.work.faults import fault
from relevo.work.message.expiry import EXPIRY, expire
from relevo.work.message.transition import CLAIM
from relevo.work.queue_record import QueueRecord
from relevo.work.ready_index.index import IndexLease, ReadyIndex
from relevo.work.store import tables
from relevo.work.store.group_commit import GroupCommit, Operation
from relevo.work.store.interface import ClaimedRow
from relevo.work.store.lease import Lease, new_token
from relevo.work.store.unit_of_work import UnitOfWork
from relevo.work.tenancy.queues import Queues

MOST_IN_A_CALL = 1_000
LONGEST_WAIT_S = 60.0
MOST_LABELS = 10

_MOST_OUTLIVED = 500
"""Messages past their ttl that a claim ends on its way: after a long outage there may be very many, and the rest is left to
`expiry_enforcer`, so that no transaction takes minutes."""


class Wanted(NamedTuple):
    """What a claim asks for."""

    batch_size: int = 1
    wait_s: float = 0.0
    consumer: str | None = None
    labels: Mapping[str, str] | None = None
    subscription: str | None = None


class _Asking(NamedTuple):
    """One look into the queue."""

    caller: Caller
    queue: QueueRecord
    batch_size: int
    consumer: str
    labels: tuple[tuple[str, str], ...]
    taken: IndexLease | None
    """Ids that the order index gave out for it; None when it was not asked."""


class Claims:
    """The claims of an installation."""

    def __init__(
        self,
        queues: Queues,
        deliveries: Deliveries,
        group_commit: GroupCommit,
        ready_index: ReadyIndex,
        long_poll: LongPoll,
        lease_book: LeaseBook,
    ) -> None:
        self._lease_book = lease_book
        self._queues = queues
        self._deliveries = deliveries
        self._group_commit = group_commit
        self._ready_index = ready_index
        self._long_poll = long_poll
        self._claiming: Operation[_Asking, ClaimedMessages | ReadyMessages] = Operation("claim", self._claim)

    async def claim(
        self,
        caller: Caller,
        scope: str,
        queue: str,
        *,
        batch_size: int = 1,
        wait_s: float = 0.0,
        consumer: str | None = None,
        labels: Mapping[str, str] | None = None,
        subscription: str | None = None,
        patience: CancelToken | None = None,
    ) -> list[Claimed]:
        """`take`, and its messages as objects."""
        wanted = Wanted(batch_size, wait_s, consumer, labels, subscription)
        return (await self.take(caller, scope, queue, wanted, patience)).messages()

    async def take(
        self, caller: Caller, scope: str, queue: str, wanted: Wanted, patience: CancelToken | None = None
    ) -> ClaimedMessages | ReadyMessages:
        """Up to `batch_size` messages (at most 1000) in the queue's order, all with one token. With `wait_s` (at most 60) waits
        that long for the first one, or until `patience` ends. `subscription` is for broadcast queues and only for these.

        Raises `NotFound`, `PermissionDenied`, `ScopePaused`, `QueuePaused`, `QueueArchived`, `WrongConsumerMode`,
        `InvalidInput`, `StoreUnavailable`. A draining queue is claimed from until it is empty.
        """
        _check(wanted)
        caller.require("consume")
        subscription = wanted.subscription
        until = asyncio.get_running_loop().time() + wanted.wait_s
        while True:
            record = await self._queues.lookup(caller, scope, queue)
            _require_open(record)
            _require_mode(record, subscription)
            with self._long_poll.waiter(record.id, wanted.labels, subscription) as waiter:
                claimed = await self._look(caller, record, wanted)
                left = until - asyncio.get_running_loop().time()
                if claimed or left <= 0 or (patience is not None and patience.ended):
                    return claimed
                if patience is not None:
                    patience.waiter = waiter
                await waiter.wait(left)

    async def _look(self, caller: Caller, queue: QueueRecord, wanted: Wanted) -> ClaimedMessages | ReadyMessages:
        size, labels, consumer = wanted.batch_size, wanted.labels, wanted.consumer or caller.actor
        if wanted.subscription is not None:
            return ReadyMessages(
                await self._deliveries.claim(
                    caller, queue, wanted.subscription, batch_size=size, consumer=consumer, wanted=labels
                )
            )
        taken = None if labels else await self._ready_index.take(queue.id, size)
        asking = _Asking(caller, queue, size, consumer, tuple((labels or {}).items()), taken)
        try:
            fault("claim.taken")
            return await self._group_commit.submit(self._claiming, asking, weight=size)
        finally:
            if taken:
                self._ready_index.taken_up(queue.id, taken)
                fault("claim.indexed")

    # --- in the transaction ----------------------------------------------------------------------------------------------

    async def _claim(
        self, transaction: UnitOfWork, askings: Sequence[_Asking]
    ) -> list[ClaimedMessages | ReadyMessages]:
        transaction.begun("claim")
        looks = [_Look(asking, []) for asking in askings]
        by_queue: dict[int, list[_Look]] = {}
        for look in looks:
            by_queue.setdefault(look.asking.queue.id, []).append(look)
        for queue_id, together in by_queue.items():
            await self._take_indexed(transaction, queue_id, [look for look in together if look.asking.taken])
            await self._take_next(transaction, queue_id, [look for look in together if not look.asking.labels])
            for look in together:
                if look.asking.labels:
                    await self._take_labelled(transaction, look)
        given: list[GivenLease] = []
        answers: list[ClaimedMessages | ReadyMessages] = []
        for look in looks:
            look.rows.sort()  # what SQL added may have been published since the index was asked
            if look.rows:
                given.append(_given(look, transaction.now))
                ids = [row.id for row in look.rows]
                transaction.audit_messages(look.asking.caller, CLAIM.action, look.asking.queue, ids)
                answers.append(ClaimedMessages(look.asking.queue.slug, given[-1].lease, look.rows))
            else:
                answers.append(_NONE)
        for queue_id, together in by_queue.items():
            _tell(transaction, queue_id, [row for look in together for row in look.rows])
        if given:
            await transaction.session.insert(tables.leases, [each.lease.row for each in given])
            transaction.on_commit.append(lambda: self._lease_book.note(given))
        return answers

    async def _take_indexed(self, transaction: UnitOfWork, queue_id: int, looks: Sequence[_Look]) -> None:
        """What the order index named, for all looks at once. An index just rebuilt may name one to two of them."""
        owner: dict[str, _Look] = {}
        for look in looks:
            for message_id in look.asking.taken.ids if look.asking.taken else ():
                owner.setdefault(message_id, look)
        if owner:
            rows = await transaction.session.claim_ids(queue_id, list(owner))
            for row in await self._alive(transaction, looks[0].asking.queue, rows):
                owner[row.id].rows.append(row)

    async def _take_next(self, transaction: UnitOfWork, queue_id: int, looks: Sequence[_Look]) -> None:
        """The first by SQL, for those who did not get all they want: the index had no more, or should have had none of what it
        named, or was not asked. What it lacks is never lost, only asked for here."""
        missing, outlived = sum(look.missing for look in looks), 0
        while missing and outlived < _MOST_OUTLIVED:
            rows = await transaction.session.claim_next(queue_id, missing)
            alive = await self._alive(transaction, looks[0].asking.queue, rows)
            outlived += len(rows) - len(alive)
            found = iter(alive)
            for look in looks:
                look.rows.extend(islice(found, look.missing))
            if len(rows) < missing:
                return
            missing = sum(look.missing for look in looks)

    async def _take_labelled(self, transaction: UnitOfWork, look: _Look) -> None:
        queue, labels = look.asking.queue, look.asking.labels
        outlived = 0
        while look.missing and outlived < _MOST_OUTLIVED:
            wanted = look.missing
            rows = await transaction.session.claim_next(queue.id, wanted, queue.scope_id, labels)
            alive = await self._alive(transaction, queue, rows)
            outlived += len(rows) - len(alive)
            look.rows.extend(alive)
            if len(rows) < wanted:
                return

    @staticmethod
    async def _alive(transaction: UnitOfWork, queue: QueueRecord, rows: Sequence[ClaimedRow]) -> Sequence[ClaimedRow]:
        """Those of these rows, just taken, that have not outlived their ttl; the others expire now."""
        now = transaction.now
        outlived = {row.id for row in rows if row.expires_at is not None and row.expires_at <= now}
        if not outlived:
            return rows
        locked = await transaction.session.lock(sorted(outlived))
        pending = [each._replace(state="pending", attempts=each.attempts - 1) for each in locked]
        await expire(transaction, queue, pending, "ttl", EXPIRY)
        return [row for row in rows if row.id not in outlived]


class _Look(NamedTuple):
    """A look into the queue within a transaction, and what it found."""

    asking: _Asking
    rows: list[ClaimedRow]

    @property
    def missing(self) -> int:
        return self.asking.batch_size - len(self.rows)


def _given(look: _Look, now: int) -> GivenLease:
    queue, asking = look.asking.queue, look.asking
    until = now + queue.visibility_timeout_s * 1000
    claims = {row.id: row.claim_no for row in look.rows}
    token, actor = new_token(now), asking.caller.actor
    lease = Lease(token, queue.scope_id, queue.id, asking.consumer, actor, now, until, claims)
    told = {row.id: (row.attempts, row.message_type, row.correlation_id) for row in look.rows}
    return GivenLease(lease, queue.slug, told)


def _check(wanted: Wanted) -> None:
    batch_size, wait_s, consumer, labels, _ = wanted
    if not 0 < batch_size <= MOST_IN_A_CALL:
        raise InvalidInput(where="batch_size", reason=f"{batch_size} is not between 1 and {MOST_IN_A_CALL}")
    if not 0 <= wait_s <= LONGEST_WAIT_S:
        raise InvalidInput(where="wait_s", reason=f"{wait_s} is not between 0 and {LONGEST_WAIT_S:.0f}")
    if consumer is not None and not (0 < len(consumer) <= 200 and "\0" not in consumer):
        raise InvalidInput(where="consumer", reason="pass 1 to 200 characters, or leave it out")
    if labels and len(labels) > MOST_LABELS:
        raise InvalidInput(where="labels", reason=f"{len(labels)} labels are too many, the limit is {MOST_LABELS}")
    if labels and any("\0" in name + value for name, value in labels.items()):
        raise InvalidInput(where="labels", reason="a label holds a NUL character")


def _require_open(queue: QueueRecord) -> None:
    if queue.scope_state not in ("active", "draining"):
        raise ScopePaused(scope=queue.scope, state=queue.scope_state)
    if queue.state in ("active", "draining"):
        return
    raise QueuePaused(queue=queue.slug) if queue.state == "paused" else QueueArchived(queue=queue.slug)


def _require_mode(queue: QueueRecord, subscription: str | None) -> None:
    if queue.consumer_mode == "broadcast" and subscription is None:
        raise WrongConsumerMode(queue=queue.slug, mode="broadcast", remedy="pass the `subscription` you claim for")
    if queue.consumer_mode != "broadcast" and subscription is not None:
        raise WrongConsumerMode(queue=queue.slug, mode="competing", remedy="claim without `subscription`")


def _tell(transaction: UnitOfWork, queue_id: int, rows: Sequence[ClaimedRow]) -> None:
    if not rows:
        return
    now = transaction.now
    CLAIM.add_to(transaction.counters, queue_id, "pending", len(rows))
    transaction.tell(
        CLAIM.event,
        queue_id,
        [row.id for row in rows],
        [row.message_type for row in rows],
        [row.correlation_id for row in rows],
        {"attempt": [row.attempts for row in rows], "wait_ms": [max(0, now - row.pending_since) for row in rows]},
    )


_NONE = ReadyMessages([])
