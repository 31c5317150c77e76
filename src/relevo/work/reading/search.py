"""Looking for messages: those at work and those in the archive, through one listing, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from sqlalchemy import BigInteger, ColumnElement, FromClause, Select, and_, false, null, select, union_all
from sqlalchemy import cast as sql_cast
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.messages import Message, State, Step
from relevo.contract.pages import Page
from relevo.errors import NotFound
from relevo.wire.ids import first_id
from relevo.work.caller import Caller
from relevo.work.message.failure import failure_of
from relevo.work.message.history import trail_of
from relevo.work.message.model import STATES, TIERS
from relevo.work.message.standing import with_claims
from relevo.work.pagination import Listing, page_of
from relevo.work.store.database import Database
from relevo.work.store.tables import archive, correlated, in_state, labels, live, queues
from relevo.work.tenancy.queues import DEAD_LETTER, require_scope

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


class MessageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages are wanted; what is None is not asked. Labels must all match."""

    queue: str | None = None
    state: State | None = None
    message_type: str | None = None
    correlation_id: str | None = None
    parent_id: str | None = None
    source_id: str | None = None
    idempotency_key: str | None = None
    labels: Mapping[str, str] = {}
    since: int | None = None
    until: int | None = None
    archived: bool | None = None
    """True: only the archive; False: only what is not there yet."""


def _by_id(column: ColumnElement[Any]) -> Listing:
    return Listing("messages", newest_first=True, id=column)


class Search:
    """Reads messages and their history."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, caller: Caller, scope: str, wanted: MessageFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Message]:
        """Newest first. One statement over both tables: a message on its way into the archive is seen once."""
        caller.require("view", scope, wanted.queue)
        async with self._database.connect() as connection:
            slugs, scope_id = await self._slugs(connection, caller, scope)
            halves = [
                _by_id(table.c.id)
                .narrowed(_half(table, scope_id, wanted, slugs, caller), limit=limit, cursor=cursor)
                .subquery()
                for table in (live, archive)
                if wanted.archived is None or wanted.archived == (table is archive)
            ]
            both = union_all(*(select(half) for half in halves)).subquery()

            page = await _by_id(both.c.id).page(connection, select(both), dict[str, Any], limit=limit, cursor=cursor)
            rows = await with_claims(connection, page.items)
        return Page([_message(row, slugs, stack=False) for row in rows], page.next_cursor)

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


def _half(
    table: FromClause, scope_id: int, wanted: MessageFilter, slugs: dict[int, str], caller: Caller
) -> Select[*tuple[Any, ...]]:
    own: list[ColumnElement[Any]] = [
        table.c[name] if name in table.c else sql_cast(null(), BigInteger).label(name)
        for name in ("archived_at", "claim_no")
    ]
    shown: list[ColumnElement[Any]] = [table.c[name] for name in _SHOWN]
    query = select(*shown, *own)
    return query.where(table.c.scope_id == scope_id, *_conditions(table, scope_id, wanted, slugs, caller))


def _conditions(
    table: FromClause, scope_id: int, wanted: MessageFilter, slugs: dict[int, str], caller: Caller
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    ids = {slug: number for number, slug in slugs.items()}
    if wanted.queue is not None:
        conditions.append(_in_queue(table, ids, wanted.queue, dead=wanted.state == "dead"))
    if caller.queues is not None:
        visible = [number for slug, number in ids.items() if slug in caller.queues]
        conditions.append(table.c.queue_id.in_(visible) | table.c.origin_queue_id.in_(visible))
    if wanted.state is not None:
        conditions.append(_in_state(table, wanted.state))
    conditions += [
        table.c[name] == value
        for name in ("message_type", "parent_id", "source_id", "idempotency_key")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.correlation_id is not None:
        conditions.append(correlated(table, [scope_id], wanted.correlation_id))
    for name, value in wanted.labels.items():
        labelled = select(labels.c.message_id).where(
            labels.c.scope_id == scope_id, labels.c.name == name, labels.c.value == value
        )
        conditions.append(table.c.id.in_(labelled))
    # Ids begin with the time of their making: the index that sorts the listing also bounds it.
    if wanted.since is not None:
        conditions.append(table.c.id >= first_id(wanted.since))
    if wanted.until is not None:
        conditions.append(table.c.id < first_id(wanted.until))
    return conditions


def _in_queue(table: FromClause, ids: dict[str, int], slug: str, *, dead: bool) -> ColumnElement[bool]:
    queue_id = ids.get(slug)
    if queue_id is None:
        raise NotFound(what="queue", name=slug)
    return table.c.origin_queue_id == queue_id if dead and slug != DEAD_LETTER else table.c.queue_id == queue_id


def _in_state(table: FromClause, state: State) -> ColumnElement[bool]:
    if state == "archived":
        return table.c.id.is_not(None) if table is archive else false()
    return in_state(state) if table is live else table.c.state == state


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
