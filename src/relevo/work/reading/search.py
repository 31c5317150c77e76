"""Looking for messages: those at work and those in the archive, through one listing, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from sqlalchemy import BigInteger, ColumnElement, and_, null, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.messages import Message, Step
from relevo.contract.pages import Page
from relevo.errors import NotFound
from relevo.wire.ids import first_id
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.message.failure import failure_of
from relevo.work.message.history import trail_of
from relevo.work.message.model import STATES, TIERS
from relevo.work.message.standing import with_claims
from relevo.work.pagination import cursor_at, page_of, places_of
from relevo.work.reading.candidates import Span, first_matching
from relevo.work.reading.message_filter import Asked, MessageFilter
from relevo.work.store.database import Database
from relevo.work.store.search_index import AT_ONCE, unknown
from relevo.work.store.tables import archive, live, queues
from relevo.work.tenancy.queues import require_scope

_SHOWN = tuple(
    column.name
    for column in live.columns
    if column.name in archive.columns
    and column.name
    not in (
        "tenant_id",
        "scope_id",
        "sort_key",
        "claim_token",
        "body_digest",
        "open_deliveries",
        "published_by",
        "trail",
    )
)
"""All that a reader may see. Not the claim's token: it is the right to settle, and belongs to the worker alone."""


NULL = msgspec.Raw(b"null")
"""Nothing, where any JSON may stand: msgspec takes `Raw` only by itself, not beside None."""


_LISTING = "messages"


class Search:
    """Reads messages and their history."""

    def __init__(self, database: Database, now_ms: Clock) -> None:
        self._database = database
        self._now_ms = now_ms

    async def list(
        self, caller: Caller, scope: str, wanted: MessageFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Message]:
        """Newest first, of both tables; a message on its way into the archive is seen once."""
        caller.require("view", scope, wanted.queue)
        span = _span_of(wanted, cursor)
        async with self._database.connect() as connection:
            slugs, scope_id = await self._slugs(connection, caller, scope)
            asked = Asked(scope_id, wanted, slugs, caller.queues)
            left = await unknown(connection)
            source = await asked.source(connection, left)
            found, place = await first_matching(
                connection, source, lambda ids: _rows(connection, asked, ids), span, limit
            )
            rows = await with_claims(connection, found)
        behind_s = left.behind_s(self._now_ms())
        next_cursor = None if place is None else cursor_at(_LISTING, place)
        return Page([_message(row, slugs, stack=False) for row in rows], next_cursor, behind_s)

    async def behind_s(self) -> float:
        """How far the search table is behind."""
        async with self._database.connect() as connection:
            return (await unknown(connection)).behind_s(self._now_ms())

    async def get(self, caller: Caller, scope: str, message_id: str) -> Message:
        row, slugs = await self._row(caller, scope, message_id)
        return _message(row, slugs, stack=True)

    async def history(
        self, caller: Caller, scope: str, message_id: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Step]:
        """What happened to it, oldest first."""
        row, _ = await self._row(caller, scope, message_id)
        return page_of("history", steps_of(trail_of(row)), limit=limit, cursor=cursor)

    async def _row(self, caller: Caller, scope: str, message_id: str) -> tuple[Any, dict[int, str]]:
        caller.require("view", scope)
        async with self._database.connect() as connection:
            slugs, scope_id = await self._slugs(connection, caller, scope)
            row = None
            for table in (live, archive, live):  # it may move on to the archive, or back, between two looks
                mine = and_(table.c.id == message_id, table.c.scope_id == scope_id)
                row = (await connection.execute(select(table).where(mine))).mappings().one_or_none()
                if row is not None:
                    (row,) = [row] if table is archive else await with_claims(connection, [row])
                    break
        if row is None or (caller.queues is not None and not _seen(caller, row, slugs)):
            raise NotFound(what="message", name=message_id)
        return row, slugs

    async def _slugs(self, connection: AsyncConnection, caller: Caller, scope: str) -> tuple[dict[int, str], int]:
        scope_id: int = (await require_scope(connection, caller.tenant_id, scope))["id"]
        rows = await connection.execute(select(queues.c.id, queues.c.slug).where(queues.c.scope_id == scope_id))
        return {row.id: row.slug for row in rows}, scope_id


def steps_of(trail: str) -> list[Step]:
    """The `trail` column, read.

    >>> [step.event for step in steps_of('[1,"published","key:1",null],[2,"claimed","key:2",{"by":"w"}],')]
    ['published', 'claimed']
    """
    rows: list[list[Any]] = msgspec.json.decode(f"[{trail.rstrip(',')}]")
    return [
        Step(at=row[0], event=row[1], actor=row[2] if len(row) > 2 else None, detail=row[3] if len(row) > 3 else None)
        for row in rows
    ]


async def _rows(connection: AsyncConnection, asked: Asked, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of these messages that are asked for, newest first. What is in both tables was archived between two looks."""
    rows: dict[str, dict[str, Any]] = {}
    for table in asked.tables():
        own: list[ColumnElement[Any]] = [
            table.c[name] if name in table.c else sql_cast(null(), BigInteger).label(name)
            for name in ("archived_at", "claim_no")
        ]
        shown: list[ColumnElement[Any]] = [table.c[name] for name in _SHOWN]
        query = select(*shown, *own).where(*asked.conditions(table))
        for at in range(0, len(ids), AT_ONCE):
            some = query.where(table.c.id.in_(ids[at : at + AT_ONCE]))
            rows |= {row["id"]: dict(row) for row in (await connection.execute(some)).mappings()}
    return [rows[message_id] for message_id in sorted(rows, reverse=True)]


def _span_of(wanted: MessageFilter, cursor: str | None) -> Span:
    """Ids begin with the time of their making: what orders the listing also bounds it."""
    before = [] if wanted.until is None else [first_id(wanted.until)]
    if cursor is not None:
        before += [str(place) for place in places_of(_LISTING, cursor, [str])]
    return Span(None if wanted.since is None else first_id(wanted.since), min(before, default=None))


def _seen(caller: Caller, row: Any, slugs: dict[int, str]) -> bool:
    return any(caller.sees_queue(slugs.get(row[name], "")) for name in ("queue_id", "origin_queue_id"))


def _message(row: Any, slugs: dict[int, str], *, stack: bool) -> Message:
    fields = cast("dict[str, Any]", dict(row))
    origin = fields["origin_queue_id"]
    assert fields["state"] in STATES
    return Message(
        queue=slugs.get(fields["queue_id"], "?"),
        origin_queue=None if origin is None else slugs.get(origin, "?"),
        priority_tier=TIERS[int(fields["priority_tier"])],
        deadline=fields["deadline_at"],
        archived_at=fields.get("archived_at"),
        error=failure_of(fields["error"], stack=stack),
        **{name: _raw(fields[name]) for name in ("labels", "body", "result", "hitl_spec")},
        **{name: fields[name] for name in Message.__struct_fields__ if name in fields and name not in _MADE},
    )


_MADE = frozenset(
    {
        "queue",
        "origin_queue",
        "priority_tier",
        "deadline",
        "archived_at",
        "error",
        "labels",
        "body",
        "result",
        "hitl_spec",
    }
)


def _raw(text: str | None) -> msgspec.Raw:
    return NULL if text is None else msgspec.Raw(text)
