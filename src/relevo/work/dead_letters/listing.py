"""Dead letters: messages that ran out of tries, lost their workers, or expired, in their scope's `_dead_letter`.

A dead letter is the message's own row: its queue is `_dead_letter`, `origin_queue_id` says where it came from, `finished_at`
when it died. Nobody claims it; it is listed, replayed (replays.py) or cancelled, and it is never archived by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.elements import ColumnElement

from relevo.contract.dead_letters import DeadLetter
from relevo.contract.pages import Page
from relevo.errors import InvalidInput, NotFound
from relevo.wire.ids import minted_ms
from relevo.work.broadcast.deliveries import SUBSCRIPTION
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.message.failure import failure_of
from relevo.work.message.model import AS_WRITTEN
from relevo.work.pagination import cursor_at, places_of
from relevo.work.queue_record import QueueRecord
from relevo.work.reading.candidates import (
    InQueues,
    Named,
    Source,
    Span,
    first_matching,
    having,
    labelled,
    rarest,
    with_unknown,
)
from relevo.work.store.database import Database
from relevo.work.store.search_attributes import USUAL_TYPE, Name
from relevo.work.store.search_index import AT_ONCE, Unknown, unknown
from relevo.work.store.tables import labels, messages, queues
from relevo.work.tenancy.queues import Queues

MOST_IDS = 1_000
_LISTING = "dead-letters"


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are meant; what is left out is not asked."""

    queue: str | None = None
    """The queue they came from."""
    reason: str | None = None
    """Part of the reason."""
    message_type: str | None = None
    correlation_id: str | None = None
    labels: dict[str, str] = {}
    since: int | None = None
    until: int | None = None
    """When they died, in milliseconds since 1970."""
    text: str | None = None
    """Part of the body, as it was sent. Looks at every dead letter that the rest of the filter leaves."""
    ids: list[str] | None = None


class DeadLetters:
    """The dead letters of an installation."""

    def __init__(self, database: Database, queues: Queues, now_ms: Clock) -> None:
        self._database = database
        self._queues = queues
        self._now_ms = now_ms

    async def list(
        self,
        caller: Caller,
        scope: str,
        wanted: DeadLetterFilter | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[DeadLetter]:
        """The dead letters of a scope, newest first."""
        caller.require("view")
        home = await self._queues.scope_of(caller, scope)
        wanted = wanted or DeadLetterFilter()
        before = None if cursor is None else str(places_of(_LISTING, cursor, [str])[0])
        async with self._database.connect() as connection:
            conditions = await matching(connection, home, wanted, caller)
            left = await unknown(connection)
            source = await _source(connection, home, wanted, left)
            rows, place = await first_matching(
                connection, source, lambda ids: _rows(connection, conditions, ids), Span(before=before), limit
            )
        next_cursor = None if place is None else cursor_at(_LISTING, place)
        return Page([_dead_letter(row) for row in rows], next_cursor, left.behind_s(self._now_ms()))


async def _source(connection: AsyncConnection, home: QueueRecord, wanted: DeadLetterFilter, left: Unknown) -> Source:
    """Where to look, in as few places as an index can name."""
    if wanted.ids is not None:
        return Named(wanted.ids)
    asked: list[tuple[Name, str]] = []
    if wanted.message_type not in (None, USUAL_TYPE):
        asked.append(("message_type", wanted.message_type))
    if wanted.correlation_id is not None:
        asked.append(("correlation_id", wanted.correlation_id))
    if wanted.queue is not None:
        origin = select(queues.c.id).where(queues.c.scope_id == home.scope_id, queues.c.slug == wanted.queue)
        asked.append(("origin_queue_id", str((await connection.execute(origin)).scalar_one())))
    by_label = [labelled(home.scope_id, *each) for each in wanted.labels.items()]
    marked = [having(home.scope_id, *each) for each in asked]
    if not by_label and not marked:
        return InQueues(messages, [home.id])
    fewest, _ = await rarest(connection, [*by_label, *marked])
    if fewest in by_label:
        return fewest
    own = wanted.correlation_id or ""  # which a message has by itself, and the search table does not say
    return with_unknown(left, [home.id], fewest, *([Named([own])] if minted_ms(own) is not None else []))


async def _rows(
    connection: AsyncConnection, conditions: Sequence[ColumnElement[bool]], ids: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of these dead letters that meet the conditions, newest first."""
    origin = queues.alias("origin")
    query = select(messages, origin.c.slug.label("origin_slug")).outerjoin(
        origin, origin.c.id == messages.c.origin_queue_id
    )
    found: list[dict[str, Any]] = []
    for at in range(0, len(ids), AT_ONCE):
        some = query.where(messages.c.id.in_(ids[at : at + AT_ONCE]), *conditions)
        found += [dict(row) for row in (await connection.execute(some)).mappings()]
    return sorted(found, key=lambda row: row["id"], reverse=True)


async def matching(
    connection: Any, home: QueueRecord, wanted: DeadLetterFilter, caller: Caller
) -> list[ColumnElement[bool]]:
    """The conditions of a filter on `messages`. `home` is the scope's `_dead_letter`."""
    m = messages.c
    conditions: list[ColumnElement[bool]] = [m.queue_id == home.id, m.standing == "dead"]
    if caller.queues is not None:  # a key for some queues sees their dead letters and no others
        own = select(queues.c.id).where(queues.c.scope_id == home.scope_id, queues.c.slug.in_(caller.queues))
        conditions.append(m.origin_queue_id.in_(own))
    if wanted.queue is not None:
        origin = and_(queues.c.scope_id == home.scope_id, queues.c.slug == wanted.queue)
        origin_id = (await connection.execute(select(queues.c.id).where(origin))).scalar_one_or_none()
        if origin_id is None or not caller.sees_queue(wanted.queue):
            raise NotFound(what="queue", name=wanted.queue)
        conditions.append(m.origin_queue_id == origin_id)
    equal = ((m.message_type, wanted.message_type), (m.correlation_id, wanted.correlation_id))
    conditions += [column == value for column, value in equal if value is not None]
    within = ((m.failure_reason, wanted.reason), (m.body, wanted.text))
    conditions += [column.contains(text, autoescape=True) for column, text in within if text is not None]
    for name, value in wanted.labels.items():
        carried = and_(
            labels.c.scope_id == home.scope_id,
            labels.c.name == name,
            labels.c.value == value,
            labels.c.message_id == m.id,
        )
        conditions.append(exists().where(carried))
    if wanted.since is not None:
        conditions.append(m.finished_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(m.finished_at < wanted.until)
    if wanted.ids is not None:
        if len(wanted.ids) > MOST_IDS:
            raise InvalidInput(where="ids", reason=f"{len(wanted.ids)} ids; name at most {MOST_IDS} at once")
        conditions.append(m.id.in_(wanted.ids))
    return conditions


def _dead_letter(row: Any) -> DeadLetter:
    return DeadLetter(
        id=row["id"],
        queue=row["origin_slug"],
        message_type=row["message_type"],
        reason=row["failure_reason"],
        error=failure_of(row["error"], stack=False),
        attempts=row["attempts"],
        reclaims=row["reclaims"],
        replays=row["replays"],
        labels=AS_WRITTEN(row["labels"].encode()),
        content_type=row["content_type"],
        body=msgspec.Raw((row["body"] or "null").encode()),
        correlation_id=row["correlation_id"],
        parent_id=row["parent_id"],
        subscription=row["source_id"] if row["source_type"] == SUBSCRIPTION else None,
        created_at=row["created_at"],
        died_at=row["finished_at"],
    )
