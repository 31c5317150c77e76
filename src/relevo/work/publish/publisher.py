"""Publishing messages, and what can be done to one that nobody has claimed: cancelling it, changing its priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from relevo.contract.messages import NewMessage, Published, Refusal, Tier
from relevo.errors import (
    InvalidInput,
    NotFound,
    QueueArchived,
    QueueDraining,
    QueuePaused,
    ScopePaused,
    WrongState,
)
from relevo.wire.ids import IdMint
from relevo.work.broadcast.subscriptions import Subscriptions
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.message.capacity import make_room, queue_full
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.model import TIERS
from relevo.work.message.ordering import sort_key
from relevo.work.message.rows import (
    NewRow,
    in_full,
    is_found_by_more,
    lean,
    plain_rows,
    says_no_more,
    take_in,
)
from relevo.work.message.transition import CANCEL, PUBLISH, PUBLISH_DELAYED, REPRIORITISE
from relevo.work.publish.admission import Admission
from relevo.work.publish.idempotency import forget_keys, remember_keys, without_known
from relevo.work.queue_record import QueueRecord
from relevo.work.routing.route_plan import RoutePlan
from relevo.work.routing.route_writer import RouteWriter
from relevo.work.store import tables
from relevo.work.store.group_commit import GroupCommit, Operation
from relevo.work.store.interface import LockedMessage, PlainRows, QueuePolicy
from relevo.work.store.transactions import FastTransactions
from relevo.work.store.unit_of_work import Ready, UnitOfWork
from relevo.work.tenancy.queues import Queues

MOST_IN_A_CALL = 1_000
_REPEATS_FOR_MS = 1_000
"""How long after a known key a queue's messages are looked at one by one: whoever repeats one is likely to repeat more, and
what turns out to be known after it was written is written for nothing."""
_INSERTED_AT_ONCE = 4_000_000
"""Bytes of bodies in one statement: servers refuse packets beyond some size."""

_MESSAGE = NewMessage(body=msgspec.Raw(b"0")).message_type


class _Publication(NamedTuple):
    """One call of `publish`."""

    caller: Caller
    queue: QueueRecord
    rows: list[NewRow | Refusal]
    plans: Mapping[str, RoutePlan]
    """Of those rows that do not just wait in the queue; see admission.py."""
    plain: PlainRows | None = None
    """Instead of rows: what goes the short way."""


class Publisher:
    """The messages of an installation."""

    def __init__(
        self,
        fast: FastTransactions,
        group_commit: GroupCommit,
        queues: Queues,
        admission: Admission,
        route_writer: RouteWriter,
        subscriptions: Subscriptions,
        mint: IdMint,
        now_ms: Clock,
        max_body_bytes: int,
    ) -> None:
        self._fast = fast
        self._group_commit = group_commit
        self._queues = queues
        self._admission = admission
        self._route_writer = route_writer
        self._subscriptions = subscriptions
        self._mint = mint
        self._now_ms = now_ms
        self._max_body_bytes = max_body_bytes
        self._publishing: Operation[_Publication, list[Published | Refusal]] = Operation("publish", self._publish)
        self._repeating: dict[int, int] = {}

    async def publish(
        self, caller: Caller, scope: str, queue: str, messages: Sequence[NewMessage]
    ) -> list[Published | Refusal]:
        """Publishes; when it returns, what it calls published is on disk. One outcome for each message, in their order.

        Concurrent calls share a transaction. Raises what concerns the call as a whole (`NotFound`, `PermissionDenied`,
        `ScopePaused`, `QueuePaused`, `QueueDraining`, `QueueArchived`, `StoreUnavailable`); what concerns one message is its
        `Refusal` (`IDEMPOTENCY_CONFLICT`, `QUEUE_FULL`, `INVALID_INPUT`, `SCHEMA_INVALID`, `BAD_REVIEW_SPEC`).
        """
        caller.require("publish")
        record = await self._queues.lookup(caller, scope, queue)
        _require_open(record)
        if not 0 < len(messages) <= MOST_IN_A_CALL:
            raise InvalidInput(where="messages", reason=f"{len(messages)} is not between 1 and {MOST_IN_A_CALL}")
        if all(says_no_more(message, self._max_body_bytes) for message in messages):
            bodies = [message.body for message in messages]
            if self._is_plain(record, bodies):
                keys = [message.idempotency_key for message in messages]
                outcomes = await self._submit_plain(caller, record, bodies, keys)
                return [Published(each, "pending") if isinstance(each, str) else each for each in outcomes]
        return await self._submit(caller, record, messages)

    async def publish_plain(
        self, caller: Caller, scope: str, queue: str, bodies: list[msgspec.Raw], keys: list[str | None]
    ) -> list[str] | list[Published | Refusal]:
        """As `publish`, of messages that say nothing but a body and a key, which the caller has looked at. Returns the ids
        alone when all of them are new and wait to be claimed, as nearly always."""
        caller.require("publish")
        record = await self._queues.lookup(caller, scope, queue)
        _require_open(record)
        if self._is_plain(record, bodies):
            return await self._submit_plain(caller, record, bodies, keys)
        messages = [NewMessage(body=body, idempotency_key=key) for body, key in zip(bodies, keys, strict=True)]
        return await self._submit(caller, record, messages)

    def _is_plain(self, queue: QueueRecord, bodies: Sequence[msgspec.Raw]) -> bool:
        """Whether messages without wishes of their own just wait in this queue, as far as anybody knows."""
        if queue.max_depth is not None or queue.default_ttl_s is not None or queue.consumer_mode == "broadcast":
            return False
        sizes = list(map(len, bodies))
        if sum(sizes) > _INSERTED_AT_ONCE or max(sizes) > self._max_body_bytes:
            return False
        return self._repeating.get(queue.id, 0) <= self._now_ms() and self._admission.is_plain(queue, ())

    async def _submit_plain(
        self, caller: Caller, queue: QueueRecord, bodies: Sequence[msgspec.Raw], keys: list[str | None]
    ) -> list[str] | list[Published | Refusal]:
        rows = plain_rows(caller, queue, bodies, keys, mint=self._mint, now=self._now_ms())
        publication = _Publication(caller, queue, [], {}, rows)
        outcomes = await self._group_commit.submit(self._publishing, publication, weight=len(bodies))
        return outcomes or rows.ids

    async def _submit(
        self, caller: Caller, queue: QueueRecord, messages: Sequence[NewMessage]
    ) -> list[Published | Refusal]:
        now, most = self._now_ms(), self._max_body_bytes
        rows = take_in(caller, queue, messages, mint=self._mint, now=now, max_body_bytes=most)
        plans: Mapping[str, RoutePlan] = {}
        if not self._admission.is_plain(queue, messages):
            rows, plans = await self._admission.admit(caller, queue, rows)
        if not any(isinstance(row, NewRow) for row in rows):
            return [row for row in rows if isinstance(row, Refusal)]
        publication = _Publication(caller, queue, rows, plans)
        return await self._group_commit.submit(self._publishing, publication, weight=len(rows))

    async def cancel(self, caller: Caller, scope: str, message_id: str, *, reason: str | None = None) -> str:
        """Cancels a message that nobody works on (pending, delayed, in_review or dead) and returns its new state. Cancelling a
        cancelled one is fine; else `WrongState`, or `NotFound`."""
        caller.require("manage")
        scope_id = (await self._queues.scope_of(caller, scope)).scope_id

        async def work(transaction: UnitOfWork) -> str:
            row, home = await _held(transaction, caller, scope_id, message_id)
            if row.state == "cancelled":
                return row.state
            if row.state not in CANCEL.before:
                raise WrongState(what="message", name=message_id, state=row.state, done="cancelled")
            await apply(transaction, CANCEL, home, [Change(row, reason or "cancelled")], caller)
            return "cancelled"

        return await self._fast.run(work)

    async def reprioritise(
        self, caller: Caller, scope: str, message_id: str, *, tier: Tier | None = None, score: int | None = None
    ) -> None:
        """Gives a pending or delayed message another priority, and its new place in the order. `WrongState`, `NotFound`."""
        caller.require("manage")
        if score is not None and not 0 <= score <= 999:
            raise InvalidInput(where="priority_score", reason=f"{score} is not between 0 and 999")
        scope_id = (await self._queues.scope_of(caller, scope)).scope_id

        async def work(transaction: UnitOfWork) -> None:
            row, home = await _held(transaction, caller, scope_id, message_id)
            if row.state not in REPRIORITISE.before:
                raise WrongState(what="message", name=message_id, state=row.state, done="moved in its queue")
            new_tier = row.priority_tier if tier is None else TIERS.index(tier)
            new_score = row.priority_score if score is None else score
            place = sort_key(
                home.ordering, created_at=row.created_at, tier=new_tier, score=new_score, deadline_at=row.deadline_at
            )
            columns = {"priority_tier": new_tier, "priority_score": new_score, "sort_key": place}
            before = {"priority_tier": TIERS[row.priority_tier], "priority_score": row.priority_score}
            after = {"priority_tier": TIERS[new_tier], "priority_score": new_score}
            await apply(transaction, REPRIORITISE, home, [Change(row, columns=columns)], caller, was=before, **after)

        await self._fast.run(work)

    # --- in the transaction ----------------------------------------------------------------------------------------------

    async def _publish(self, transaction: UnitOfWork, calls: Sequence[_Publication]) -> list[list[Published | Refusal]]:
        transaction.begun("publish")
        if transaction.is_unsure:
            calls = [_in_full(call) for call in calls]
        plain = [call for call in calls if call.plain is not None]
        if plain:
            await self._publish_plain(transaction, plain)
        others = [call for call in calls if call.plain is None]
        outcomes = iter(await self._publish_rows(transaction, others) if others else [])
        return [next(outcomes) if call.plain is None else [] for call in calls]

    async def _publish_rows(
        self, transaction: UnitOfWork, calls: Sequence[_Publication]
    ) -> list[list[Published | Refusal]]:
        held = {
            call.queue.id
            for call in calls
            if call.queue.max_depth is not None or call.queue.consumer_mode == "broadcast"
        }
        for call in calls:
            if call.plans:
                held |= self._route_writer.held_queues(call.plans.values())
        if held:
            await transaction.session.lock_queues(sorted(held))
        known = await remember_keys(transaction, [(call.queue.id, call.rows) for call in calls])
        for queue_id, _ in known:
            self._repeating[queue_id] = transaction.now + _REPEATS_FOR_MS
        outcomes: list[list[Published | Refusal]] = []
        accepted: list[NewRow] = []
        turned_away: set[str] = set()
        for call in calls:
            wanted, outcome = without_known(call.queue, call.rows, known, turned_away)
            if call.plans:
                wanted = await self._place(transaction, call, wanted, outcome, turned_away)
            if call.queue.max_depth is not None and wanted:
                over = await make_room(transaction, call.caller, call.queue, len(wanted))
                wanted, surplus = wanted[: len(wanted) - over], wanted[len(wanted) - over :]
                outcome |= {row.id: queue_full(call.queue) for row in surplus}
                turned_away |= outcome.keys()
                await forget_keys(transaction, call.queue, surplus)
            accepted += wanted
            _note(transaction, call, wanted)
            outcomes.append([_answer(row, outcome) for row in call.rows])
        await self._insert(transaction, accepted)
        for call in calls:
            if call.queue.consumer_mode == "broadcast":
                new = {row.id for row in accepted}
                ids = [row.id for row in call.rows if isinstance(row, NewRow) and row.id in new]
                if ids:
                    await self._subscriptions.fan_out(transaction, call.queue, ids)
        return outcomes

    @staticmethod
    async def _publish_plain(transaction: UnitOfWork, calls: Sequence[_Publication]) -> None:
        together: dict[tuple[int, str], list[PlainRows]] = {}
        for call in calls:
            rows = call.plain
            assert rows is not None
            together.setdefault((rows.queue_id, rows.published_by), []).append(rows)
            queue, counters, ids = call.queue, transaction.counters, rows.ids
            PUBLISH.add_to(counters, queue.id, None, len(ids))
            counters.add(queue.id, "published_bytes", rows.size)
            transaction.tell(PUBLISH.event, queue.id, ids, _MESSAGE, ids)
            transaction.audit_messages(call.caller, PUBLISH.action, queue, ids)
        for parts in together.values():
            for some in _of_some_bytes(parts):
                rows = PlainRows.joined(some)
                await transaction.session.publish(rows)
                transaction.published.append(rows)

    async def _place(
        self,
        transaction: UnitOfWork,
        call: _Publication,
        wanted: list[NewRow],
        outcome: dict[str, Published | Refusal],
        turned_away: set[str],
    ) -> list[NewRow]:
        """Writes those that rules or a review have a say in, with their outcomes; returns the others."""
        routed = [row for row in wanted if row.id in call.plans]
        if routed:
            placed = await self._route_writer.publish(transaction, call.caller, [call.plans[row.id] for row in routed])
            refused = [row for row in routed if isinstance(placed[row.id], Refusal)]
            turned_away |= {row.id for row in refused}
            await forget_keys(transaction, call.queue, refused)
            outcome |= placed
            taken = [row.id for row in routed if isinstance(placed[row.id], Published)]
            if taken:
                transaction.audit_messages(call.caller, PUBLISH.action, call.queue, taken)
        return [row for row in wanted if row.id not in call.plans]

    @staticmethod
    async def _insert(transaction: UnitOfWork, rows: list[NewRow]) -> None:
        if not rows:
            return
        session = transaction.session
        size, part = 0, list[tuple[object, ...]]()
        for row in rows:
            part.append(row.values)
            size += row.size
            if size > _INSERTED_AT_ONCE:
                names, values = lean(part)
                await session.insert(tables.messages, values, columns=names)
                size, part = 0, []
        if part:
            names, values = lean(part)
            await session.insert(tables.messages, values, columns=names)
        labels = [(row.values[2], name, value, row.id) for row in rows for name, value in row.message.labels.items()]
        if labels:
            await session.insert(tables.labels, labels)


def _require_open(queue: QueueRecord) -> None:
    if queue.scope_state != "active":
        raise ScopePaused(scope=queue.scope, state=queue.scope_state)
    if queue.state == "active":
        return
    if queue.state == "draining":
        raise QueueDraining(queue=queue.slug)
    raise QueuePaused(queue=queue.slug) if queue.state == "paused" else QueueArchived(queue=queue.slug)


def _in_full(call: _Publication) -> _Publication:
    """A call for a transaction that has to look at each message."""
    return call if call.plain is None else call._replace(rows=[*in_full(call.queue, call.plain)], plain=None)


def _of_some_bytes(parts: Sequence[PlainRows]) -> Iterator[list[PlainRows]]:
    """Rows of several calls in portions that fit into a statement."""
    size, some = 0, list[PlainRows]()
    for part in parts:
        if some and size + part.size > _INSERTED_AT_ONCE:
            yield some
            size, some = 0, []
        some.append(part)
        size += part.size
    yield some


def _answer(row: NewRow | Refusal, outcomes: dict[str, Published | Refusal]) -> Published | Refusal:
    if isinstance(row, Refusal):
        return row
    other = outcomes.get(row.id) if outcomes else None
    return Published(row.id, row.state) if other is None else other  # pyright: ignore[reportArgumentType]


def _note(transaction: UnitOfWork, call: _Publication, rows: list[NewRow]) -> None:
    """Tallies, events, audit, and what is claimable once this is committed."""
    if not rows:
        return
    queue, counters = call.queue, transaction.counters
    pending = [row for row in rows if row.state == PUBLISH.after]
    PUBLISH.add_to(counters, queue.id, None, len(pending))
    PUBLISH_DELAYED.add_to(counters, queue.id, None, len(rows) - len(pending))
    counters.add(queue.id, "published_bytes", sum(row.size for row in rows))
    broadcast = queue.consumer_mode == "broadcast"
    transaction.ready += [Ready(queue.id, row.sort_key, row.id, row.message.labels, broadcast) for row in pending]
    transaction.due += [(kind, at, row.id) for row in rows for kind, at in row.due]
    transaction.unsearched += [row.id for row in rows if is_found_by_more(row)]
    ids = [row.id for row in rows]
    message_types = [row.message.message_type for row in rows]
    correlation_ids = [row.message.correlation_id or row.id for row in rows]
    transaction.tell(PUBLISH.event, queue.id, ids, message_types, correlation_ids)
    transaction.audit_messages(call.caller, PUBLISH.action, queue, ids)


async def _held(
    transaction: UnitOfWork, caller: Caller, scope_id: int, message_id: str
) -> tuple[LockedMessage, QueuePolicy]:
    """A message that the caller may know of, locked, and the queue that it is worked on in."""
    rows = await transaction.session.lock([message_id])
    if rows and rows[0].scope_id == scope_id:
        row, origin = rows[0], rows[0].origin_queue_id
        places = await transaction.session.policies([row.queue_id, *([] if origin is None else [origin])])
        if any(caller.sees_queue(place.slug) for place in places):
            by_id = {place.id: place for place in places}
            here = by_id[row.queue_id]
            return row, by_id.get(origin or 0, here) if here.id == here.dead_letter_id else here
    raise NotFound(what="message", name=message_id)
