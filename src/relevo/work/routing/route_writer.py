"""Writes where messages ended up after their journeys: new rows of publishes and copies, with all that goes with them.

On the hot path as on the cold ones: everything here goes through `transaction.session.insert`, which both have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import case, func, insert, literal, select, update

from relevo.contract.messages import Published, Refusal, State
from relevo.work.broadcast.subscriptions import Subscriptions
from relevo.work.caller import Caller
from relevo.work.message.capacity import make_room, queue_full
from relevo.work.message.history import history_line
from relevo.work.message.model import TIERS
from relevo.work.message.ordering import sort_key
from relevo.work.queue_record import QueueRecord
from relevo.work.review.outcomes import Origin
from relevo.work.review.reviews import Reviews
from relevo.work.routing.route_plan import Destination, RoutePlan
from relevo.work.store import tables
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready, UnitOfWork
from relevo.work.streams.stream_jobs import claim_columns, new_row

COLUMNS = tuple(column.name for column in tables.messages.columns)
_ARCHIVED = (*(name for name in COLUMNS if name in tables.archive.columns), "state", "archived_at")
_REVIEWS = tuple(column.name for column in tables.reviews.columns)
_STREAM_JOBS = tuple(column.name for column in tables.stream_jobs.columns)

STATES: dict[str, State] = {
    "review": "in_review",
    "stream": "claimed",
    "archived": "completed",
    "dropped": "cancelled",
}


def state_of(place: Destination, now: int) -> State:
    if place.ending == "waits":
        return "delayed" if place.draft.visible_at is not None and place.draft.visible_at > now else "pending"
    return STATES[place.ending]


class RouteWriter:
    """Writes placements of an installation."""

    def __init__(self, reviews: Reviews, subscriptions: Subscriptions) -> None:
        self._reviews = reviews
        self._subscriptions = subscriptions

    def held_queues(self, journeys: Iterable[RoutePlan]) -> set[int]:
        """Queues whose rows have to be held before anything else: those with a limit, and those with subscriptions."""
        places = [place for journey in journeys for place in (journey.main, *journey.copies)]
        return {
            place.queue.id
            for place in places
            if place.queue.max_depth is not None or place.queue.consumer_mode == "broadcast"
        }

    async def publish(
        self, transaction: UnitOfWork, caller: Caller, journeys: Sequence[RoutePlan]
    ) -> dict[str, Published | Refusal]:
        """Writes messages that are published, and their copies. A queue that is full refuses the message itself, not copies:
        those are made beside a message that has found its place."""
        outcomes: dict[str, Published | Refusal] = {}
        places: list[Destination] = []
        for journey in journeys:
            main, queue = journey.main, journey.main.queue
            full = main.ending == "waits" and queue.max_depth is not None
            if full and await make_room(transaction, caller, queue, 1):
                outcomes[main.draft.id] = queue_full(queue)
                continue
            outcomes[main.draft.id] = Published(main.draft.id, state_of(main, transaction.now))
            home, draft = journey.home, main.draft
            transaction.counters.add(home.id, "published", 1)
            transaction.counters.add(home.id, "published_bytes", len(draft.body))
            transaction.tell("published", home.id, [draft.id], draft.message_type, draft.correlation_id)
            places += (main, *journey.copies)
        await self.insert(transaction, caller, places)
        return outcomes

    async def insert(self, transaction: UnitOfWork, caller: Caller, places: Sequence[Destination]) -> None:
        """Inserts the rows of new messages; the `published` event of those that are no copies is the caller's."""
        if not places:
            return
        now, session = transaction.now, transaction.session
        live = [place for place in places if place.ending != "archived"]
        done = [place for place in places if place.ending == "archived"]
        if live:
            rows = [self._row(place, now, caller.actor) for place in live]
            await session.insert(
                tables.messages, [tuple(row[name] for name in COLUMNS) for row in rows], columns=COLUMNS
            )
            for row in rows:
                transaction.note_due(row["id"], row)
        if done:
            rows = [self._row(place, now, caller.actor) for place in done]
            given = {"state": STATES["archived"], "archived_at": now}
            values = [tuple((row | given)[name] for name in _ARCHIVED) for row in rows]
            await session.insert(tables.archive, values, columns=_ARCHIVED)
        labels = [
            (place.queue.scope_id, name, value, place.draft.id)
            for place in places
            for name, value in place.draft.labels.items()
        ]
        if labels:
            await session.insert(tables.labels, labels)
        transaction.unsearched += [place.draft.id for place in places]
        for place in places:
            self._count(transaction, place)
            self.tell(transaction, caller, place)
        await self.attach(transaction, places)
        await self.fan_out(transaction, live)

    async def attach(self, transaction: UnitOfWork, places: Sequence[Destination], source: Any = "message") -> None:
        """Writes the reviews and the stream jobs of messages whose rows are written."""
        now, session = transaction.now, transaction.session
        asked = [place for place in places if place.ending == "review" and place.review is not None]
        rows = [self._review_row(place, now, source) for place in asked]
        if rows:
            await session.insert(tables.reviews, [tuple(row[name] for name in _REVIEWS) for row in rows])
        for place, row in zip(asked, rows, strict=True):
            self._event(transaction, "review_needed", place, place.queue, review=row["id"])
        jobs = [
            new_row(place.draft.id, place.stream, place.draft.message_type, now)
            for place in places
            if place.stream is not None
        ]
        if jobs:
            await session.insert(tables.stream_jobs, [tuple(row[name] for name in _STREAM_JOBS) for row in jobs])

    async def fan_out(self, transaction: UnitOfWork, places: Sequence[Destination]) -> None:
        """Deliveries of what now waits in broadcast queues."""
        ids: dict[int, tuple[QueueRecord, list[str]]] = {}
        for place in places:
            if place.queue.consumer_mode == "broadcast" and place.ending == "waits":
                ids.setdefault(place.queue.id, (place.queue, []))[1].append(place.draft.id)
        for _, (queue, own) in sorted(ids.items()):
            if isinstance(transaction, SqlUnitOfWork):
                await _fan_out_cold(transaction, queue, own)
            else:
                await self._subscriptions.fan_out(transaction, queue, own)

    def place_of(self, place: Destination) -> int:
        """Its place in the queue's order."""
        draft = place.draft
        return sort_key(
            place.queue.ordering,
            created_at=draft.created_at,
            tier=TIERS.index(draft.priority_tier),
            score=draft.priority_score,
            deadline_at=draft.deadline,
        )

    def shaped(self, place: Destination, now: int) -> dict[str, Any]:
        """The columns that a journey decides over, of new rows as of those that were there before."""
        draft, queue = place.draft, place.queue
        state = state_of(place, now)
        values: dict[str, Any] = {
            "tenant_id": queue.tenant_id,
            "scope_id": queue.scope_id,
            "queue_id": queue.id,
            "standing": state if state in tables.STANDINGS else None,
            "sort_key": self.place_of(place),
            "visible_at": draft.visible_at if state == "delayed" else None,
            "message_type": draft.message_type,
            "priority_tier": TIERS.index(draft.priority_tier),
            "priority_score": draft.priority_score,
            "labels": msgspec.json.encode(draft.labels).decode(),
            "body": draft.body.decode(),
            "body_digest": draft.body_digest,
            "expires_at": draft.expires_at,
            "deadline_at": draft.deadline,
            "updated_at": now,
            "open_deliveries": None,
            "claim_until": None,
            "claim_token": None,
            "claimed_by": None,
            "claimed_at": None,
            "finished_at": now if place.ending in ("archived", "dropped") else None,
            "failure_reason": place.reason,
            "error": None,
        }
        if place.review is not None:
            values["hitl_spec"] = msgspec.json.encode(place.review).decode()
        if place.stream is not None:
            values |= claim_columns(place.stream, now)
        return values

    def lines(self, place: Destination, now: int, actor: str) -> str:
        """What goes into the message's history."""
        by = f"rule:{place.rule}" if place.rule is not None else actor
        text = "".join(history_line(now, "routed", f"rule:{move.rule}", move.line) for move in place.moves)
        if place.changed:
            text += history_line(now, "transformed", by)
        if place.ending == "review":
            text += history_line(now, "review_needed", by)
        elif place.ending in ("archived", "dropped"):
            text += history_line(now, "completed" if place.ending == "archived" else "cancelled", by, place.reason)
        return text

    def tell(self, transaction: UnitOfWork, caller: Caller, place: Destination) -> None:
        """Events and audit of what rules did."""
        if place.copied_from is not None:
            self._event(transaction, "published", place, place.queue, parent=place.copied_from)
        for move in place.moves:
            self._event(transaction, "routed", place, move.source, rule=move.rule, to=move.to, hop=move.hop)
        if place.ending == "dropped":
            self._event(transaction, "cancelled", place, place.queue, reason=place.reason or "")
        elif place.ending == "archived":
            self._event(transaction, "completed", place, place.queue, attempt=place.draft.attempts)
        if place.rule is not None or place.copied_from is not None:
            after = {
                "rule": place.rule or place.moves[0].rule,
                "ending": place.ending,
                "queue": place.queue.slug,
                "hops": [move.line for move in place.moves],
                "copy_of": place.copied_from,
            }
            transaction.audit(
                caller,
                "message.route",
                place.draft.id,
                tenant_id=place.queue.tenant_id,
                scope_id=place.queue.scope_id,
                queue_id=place.queue.id,
                correlation_id=place.draft.correlation_id,
                after=msgspec.json.encode(after).decode(),
            )

    def wait(self, transaction: UnitOfWork, place: Destination) -> None:
        """Has it enter `ready`, if it waits, and tells waiting claims once this is committed."""
        if state_of(place, transaction.now) == "pending":
            broadcast = place.queue.consumer_mode == "broadcast"
            transaction.ready.append(Ready(place.queue.id, self.place_of(place), place.draft.id, broadcast=broadcast))

    def _count(self, transaction: UnitOfWork, place: Destination) -> None:
        counters, queue = transaction.counters, place.queue
        counters.moved(queue.id, None, state_of(place, transaction.now))
        if place.copied_from is not None:
            counters.add(queue.id, "published", 1)
            counters.add(queue.id, "published_bytes", len(place.draft.body))
        if place.ending == "archived":
            counters.add(queue.id, "completed", 1)
        elif place.ending == "dropped":
            counters.add(queue.id, "cancelled", 1)
        self.wait(transaction, place)

    def _row(self, place: Destination, now: int, actor: str) -> dict[str, Any]:
        draft = place.draft
        detail = None if place.copied_from is None else f"copy of {place.copied_from}"
        row: dict[str, Any] = {
            **dict.fromkeys(COLUMNS),
            **self.shaped(place, now),
            "id": draft.id,
            "attempts": 0,
            "claim_no": 0,
            "reclaims": 0,
            "replays": 0,
            "source_type": draft.source_type,
            "source_id": draft.source_id,
            "correlation_id": draft.correlation_id,
            "causation_id": draft.causation_id,
            "parent_id": draft.parent_id,
            "content_type": draft.content_type,
            "idempotency_key": draft.idempotency_key,
            "created_at": draft.created_at,
            "trail": history_line(now, "published", actor, detail) + self.lines(place, now, actor),
        }
        if place.moves and place.moves[-1].source.id != place.queue.id:
            row["origin_queue_id"] = place.moves[-1].source.id
        return row

    def _review_row(self, place: Destination, now: int, source: Any) -> dict[str, Any]:
        assert place.review is not None
        draft, queue = place.draft, place.queue
        return self._reviews.row(
            place.review,
            tenant_id=queue.tenant_id,
            scope_id=queue.scope_id,
            queue_id=queue.id,
            message_id=draft.id,
            source=source,
            origin=Origin(queue_id=queue.id, replays=draft.replays),
            correlation_id=draft.correlation_id,
            now=now,
        )

    def _event(
        self, transaction: UnitOfWork, name: Any, place: Destination, queue: QueueRecord, **extras: int | str
    ) -> None:
        draft = place.draft
        transaction.tell(name, queue.id, [draft.id], draft.message_type, draft.correlation_id, extras)


async def _fan_out_cold(transaction: SqlUnitOfWork, queue: QueueRecord, ids: Sequence[str]) -> None:
    """As `Subscriptions.fan_out`, in SQLAlchemy."""
    connection, m, s = transaction.connection, tables.messages.c, tables.subscriptions.c
    await connection.execute(select(tables.queues.c.id).where(tables.queues.c.id == queue.id).with_for_update())
    state = case((m.visible_at.is_(None), "pending"), else_="delayed")
    each = (
        select(s.id, m.id, state, m.sort_key, m.visible_at, literal(0), literal(0), m.updated_at)
        .join_from(tables.messages, tables.subscriptions, s.queue_id == m.queue_id)
        .where(m.id.in_(ids))
    )
    columns = "subscription_id", "message_id", "state", "sort_key", "visible_at", "attempts", "reclaims", "updated_at"
    await connection.execute(insert(tables.deliveries).from_select(columns, each))
    count = select(func.count()).select_from(tables.subscriptions).where(s.queue_id == queue.id)
    number = (await connection.execute(count)).scalar_one()
    await connection.execute(update(tables.messages).where(m.id.in_(ids)).values(open_deliveries=number))
    transaction.wakes[queue.id] = transaction.wakes.get(queue.id, 0) + len(ids)
