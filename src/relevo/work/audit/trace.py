"""Everything that happened under one correlation id, in the order it happened: messages, reviews, webhooks, audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import FromClause, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.audit import Trace, TraceStep
from relevo.errors import NotFound
from relevo.wire.ids import minted_ms
from relevo.work.caller import Caller
from relevo.work.message.history import trail_of
from relevo.work.message.standing import with_claims
from relevo.work.reading.search import steps_of
from relevo.work.review.case import Case
from relevo.work.store.database import Database
from relevo.work.store.search_index import AT_ONCE, ids_having
from relevo.work.store.tables import archive, audit, live, queues, reviews, scopes, webhook_deliveries

MOST = 500
"""Messages, reviews, deliveries and audit entries of one trace, each: more than a person reads."""


class Traces:
    """Tells the stories of one tenant, as far as the caller may look."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, caller: Caller, correlation_id: str, *, scope: str | None = None) -> Trace:
        caller.require("view")
        async with self._database.connect() as connection:
            seen = await _Sight.of(connection, caller, scope)
            story = _Story(connection, seen, correlation_id)
            await story.tell_messages()
            await story.tell_reviews()
            await story.tell_webhooks()
            await story.tell_audit(caller)
        story.steps.sort(key=lambda step: (step.at, _ORDER[step.source]))
        return Trace(
            messages=story.messages,
            reviews=story.reviews,
            steps=story.steps,
            complete=story.complete,
        )


_ORDER = {"message": 0, "review": 1, "audit": 2, "webhook": 3}


class _Sight(msgspec.Struct, frozen=True):
    """The scopes and queues that the caller may look into, by their numbers."""

    scopes: dict[int, str]
    queues: dict[int, str]
    all_queues: bool

    @staticmethod
    async def of(connection: AsyncConnection, caller: Caller, scope: str | None) -> _Sight:
        query = select(scopes.c.id, scopes.c.slug).where(scopes.c.tenant_id == caller.tenant_id)
        if scope is not None:
            query = query.where(scopes.c.slug == scope)
        seen = {row.id: row.slug for row in await connection.execute(query) if caller.sees_scope(row.slug)}
        if scope is not None and not seen:
            raise NotFound(what="scope", name=scope)
        its_queues = select(queues.c.id, queues.c.slug).where(queues.c.scope_id.in_(seen))
        found = {row.id: row.slug for row in await connection.execute(its_queues) if caller.sees_queue(row.slug)}
        return _Sight(seen, found, caller.queues is None)

    def sees(self, *queue_ids: int | None) -> bool:
        return self.all_queues or any(queue_id in self.queues for queue_id in queue_ids)


class _Story:
    def __init__(self, connection: AsyncConnection, sight: _Sight, correlation_id: str) -> None:
        self._connection = connection
        self._sight = sight
        self._correlation_id = correlation_id
        self.messages: list[str] = []
        self.reviews: list[str] = []
        self.steps: list[TraceStep] = []
        self.complete = True

    async def tell_messages(self) -> None:
        ids = await self._ids()
        for table in (archive, live):
            rows = await self._messages(table, ids)
            for row in rows if table is archive else await with_claims(self._connection, rows):
                if not self._sight.sees(row["queue_id"], row["origin_queue_id"]) or row["id"] in self.messages:
                    continue
                self.messages.append(row["id"])
                for step in steps_of(trail_of(row)):
                    self._tell("message", row, step.at, row["id"], step.event, step.actor, step.detail)

    async def tell_reviews(self) -> None:
        for row in await self._rows(reviews, self._in_scopes(reviews)):
            if row["queue_id"] is not None and not self._sight.sees(row["queue_id"]):
                continue
            self.reviews.append(row["id"])
            case = msgspec.json.decode(row["document"], type=Case)
            self._tell("review", row, row["created_at"], row["id"], "opened", None, row["title"])
            for note in case.notes:
                self._tell("review", row, note.at, row["id"], note.did, note.person, note.text or None)
            if case.finished_at is not None:
                self._tell("review", row, case.finished_at, row["id"], case.state, None, case.outcome or case.reason)

    async def tell_webhooks(self) -> None:
        if not self.messages:
            return
        d = webhook_deliveries.c
        for row in await self._rows(webhook_deliveries, d.message_id.in_(self.messages)):
            detail = {"event": row["event"], "message_id": row["message_id"], "attempts": row["attempts"]}
            place = {"scope_id": None, "queue_id": None}
            self._tell("webhook", place, row["updated_at"], row["id"], row["state"], None, detail)

    async def tell_audit(self, caller: Caller) -> None:
        a = audit.c
        about = or_(a.correlation_id == self._correlation_id, a.target.in_([*self.messages, *self.reviews]))
        for row in await self._rows(audit, and_(a.tenant_id == caller.tenant_id, about)):
            limited = caller.scopes is not None or not self._sight.all_queues
            if row["scope_id"] not in self._sight.scopes and (limited or row["scope_id"] is not None):
                continue
            if not self._sight.sees(row["queue_id"]) and row["target"] not in self.messages:
                continue
            detail = {name: msgspec.json.decode(row[name]) for name in ("before", "after") if row[name] is not None}
            self._tell("audit", row, row["at"], row["target"], row["action"], row["actor"], detail or None)

    async def _ids(self) -> list[str]:
        """Messages that may have this correlation id, or are it."""
        scope_ids = list(self._sight.scopes)
        found = await ids_having(self._connection, scope_ids, "correlation_id", [self._correlation_id])
        return found if minted_ms(self._correlation_id) is None else sorted({*found, self._correlation_id})

    async def _messages(self, table: FromClause, ids: Sequence[str]) -> Sequence[Any]:
        """The oldest of them, as many as are told of."""
        found: list[Any] = []
        for at in range(0, len(ids), AT_ONCE):
            mine = and_(table.c.id.in_(ids[at : at + AT_ONCE]), self._in_scopes(table))
            found += await self._rows(table, mine)
            if len(found) > MOST:
                self.complete = False
                break
        return found[:MOST]

    async def _rows(self, table: FromClause, condition: Any) -> Sequence[Any]:
        query = select(table).where(condition).order_by(table.c.id).limit(MOST + 1)
        rows = (await self._connection.execute(query)).mappings().all()
        self.complete = self.complete and len(rows) <= MOST
        return rows[:MOST]

    def _in_scopes(self, table: FromClause) -> Any:
        return and_(table.c.scope_id.in_(self._sight.scopes), table.c.correlation_id == self._correlation_id)

    def _tell(self, source: Any, row: Any, at: int, about: str, what: str, actor: str | None, detail: Any) -> None:
        self.steps.append(
            TraceStep(
                at=at,
                source=source,
                scope=self._sight.scopes.get(row["scope_id"]),
                queue=self._sight.queues.get(row["queue_id"]),
                id=about,
                what=what,
                actor=actor,
                detail=detail,
            )
        )
