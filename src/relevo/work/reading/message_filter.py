"""Which messages a list is asked for: the filter, where it has the list look, and how it compares rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from sqlalchemy import ColumnElement, FromClause, false, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.messages import State
from relevo.errors import NotFound
from relevo.wire.ids import minted_ms
from relevo.work.reading.candidates import (
    COUNTED,
    InQueues,
    Marked,
    Named,
    Source,
    Together,
    having,
    labelled,
    rarest,
    with_unknown,
)
from relevo.work.store.search_attributes import FOUND_BY_STATE, USUAL_TYPE, Name
from relevo.work.store.search_index import Unknown
from relevo.work.store.tables import archive, in_state, keys, labels, live, messages, ready
from relevo.work.tenancy.queues import DEAD_LETTER

_FOUND_BY: tuple[Name, ...] = ("message_type", "parent_id", "source_id", "correlation_id")


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


class Asked:
    """A filter, of one scope, as one caller asks."""

    def __init__(
        self, scope_id: int, wanted: MessageFilter, slugs: Mapping[int, str], visible: Collection[str] | None
    ) -> None:
        """`slugs` are the scope's queues by number; `visible` those that the caller may see, None for all."""
        self._scope_id = scope_id
        self._wanted = wanted
        self._all = list(slugs)
        self._visible = None if visible is None else [number for number, slug in slugs.items() if slug in visible]
        self._queue_id: int | None = None
        self._origin_id: int | None = None
        if wanted.queue is not None:
            number = next((number for number, slug in slugs.items() if slug == wanted.queue), None)
            if number is None:
                raise NotFound(what="queue", name=wanted.queue)
            if wanted.state == "dead" and wanted.queue != DEAD_LETTER:
                self._origin_id = number
            else:
                self._queue_id = number

    def tables(self) -> list[FromClause]:
        """Where rows may be."""
        wanted = self._wanted
        if wanted.archived is None and wanted.state != "archived":
            return [live, archive]
        return [live] if wanted.archived is False else [archive]

    async def source(self, connection: AsyncConnection, left: Unknown) -> Source:
        """Where to look, in as few places as an index can name."""
        wanted = self._wanted
        if wanted.idempotency_key is not None:
            return await self._by_key(connection, left, wanted.idempotency_key)
        marked = self._marked()
        by_label = [labelled(self._scope_id, *each) for each in wanted.labels.items()]
        if by_label and not marked:
            return (await rarest(connection, by_label))[0]
        if marked:
            fewest, size = await rarest(connection, [*by_label, *marked])
            if size == COUNTED and self._queue_id is not None:  # as likely to be found along the queue, and cheaper
                return self._in_queues([self._queue_id])
            return fewest if fewest in by_label else self._with_unknown(left, fewest)
        if wanted.state == "pending" and (few := await self._few_pending(connection)) is not None:
            return few
        if self._visible is None or self._queue_id is not None:
            return self._in_queues(self._all if self._queue_id is None else [self._queue_id])
        came_from = [having(self._scope_id, "origin_queue_id", str(number)) for number in self._visible]
        return self._with_unknown(left, self._in_queues(self._visible), *came_from)

    def conditions(self, table: FromClause) -> list[ColumnElement[bool]]:
        """What a row of the live table or of the archive must be."""
        wanted, c = self._wanted, table.c
        conditions: list[ColumnElement[bool]] = [c.scope_id == self._scope_id]
        if self._queue_id is not None:
            conditions.append(c.queue_id == self._queue_id)
        if self._origin_id is not None:
            conditions.append(c.origin_queue_id == self._origin_id)
        if self._visible is not None:
            conditions.append(c.queue_id.in_(self._visible) | c.origin_queue_id.in_(self._visible))
        if wanted.state == "archived":
            conditions += [] if table is archive else [false()]
        elif wanted.state is not None:
            conditions.append(in_state(wanted.state) if table is live else c.state == wanted.state)
        conditions += self._equal_in(table)
        if wanted.idempotency_key is not None:
            conditions.append(c.idempotency_key == wanted.idempotency_key)
        for name, value in wanted.labels.items():
            mine = (labels.c.scope_id == self._scope_id, labels.c.message_id == c.id)
            conditions.append(select(1).where(*mine, labels.c.name == name, labels.c.value == value).exists())
        return conditions

    async def _by_key(self, connection: AsyncConnection, left: Unknown, key: str) -> Source:
        """A key belongs to the queue that its message was sent to, which may be in another scope than the message is now."""
        mine = (keys.c.queue_id.in_(self._all), keys.c.idempotency_key == key)
        sent_here = Named((await connection.execute(select(keys.c.message_id).where(*mine))).scalars())
        return self._with_unknown(left, sent_here, having(self._scope_id, "idempotency_key", key))

    def _marked(self) -> list[Marked]:
        """The parts of the search table that are to hold what is asked for."""
        asked: list[tuple[Name, str]] = []
        for name in _FOUND_BY:
            value = getattr(self._wanted, name)
            if value is not None and (name, value) != ("message_type", USUAL_TYPE):
                asked.append((name, value))
        if self._wanted.state in FOUND_BY_STATE:
            asked.append(("state", self._wanted.state))
        if self._origin_id is not None:
            asked.append(("origin_queue_id", str(self._origin_id)))
        return [having(self._scope_id, name, value) for name, value in asked]

    def _with_unknown(self, left: Unknown, *sources: Source) -> Source:
        """A message may also have its own id for its correlation, which the table does not say."""
        own = self._wanted.correlation_id
        if own is not None and minted_ms(own) is not None:
            sources = (*sources, Named([own]))
        return with_unknown(left, self._all, *sources)

    def _in_queues(self, queue_ids: list[int]) -> Source:
        sources: list[Source] = []
        for table in self.tables():
            rows = messages if table is live else archive
            sources.append(InQueues(rows, queue_ids, *self._state_of(table), *self._equal_in(rows)))
        return Together(*sources)

    def _equal_in(self, table: FromClause) -> list[ColumnElement[bool]]:
        asked = ((name, getattr(self._wanted, name)) for name in _FOUND_BY)
        return [table.c[name] == value for name, value in asked if value is not None]

    def _state_of(self, table: FromClause) -> list[ColumnElement[bool]]:
        """The same as `in_state`, of the rows themselves. Most messages are in a state that no index leads to: few are passed
        over."""
        state, m = self._wanted.state, messages.c
        if state in (None, "archived"):
            return []
        if table is archive:
            return [archive.c.state == state]
        if state == "completed":
            return [m.standing.is_(None), m.finished_at.is_not(None)]
        if state == "pending":
            return [ready.c.id.is_not(None)]
        if state == "claimed":
            return [m.standing.is_(None), m.finished_at.is_(None), m.visible_at.is_(None), ready.c.id.is_(None)]
        if state == "delayed":
            return [m.standing.is_(None), m.finished_at.is_(None), m.visible_at.is_not(None)]
        return [m.standing == state]

    async def _few_pending(self, connection: AsyncConnection) -> Source | None:
        """All that can be claimed, if it is little."""
        found: list[str] = []
        for queue_id in self._all if self._queue_id is None else [self._queue_id]:
            query = select(ready.c.id).where(ready.c.queue_id == queue_id).limit(COUNTED - len(found))
            found += (await connection.execute(query)).scalars()
            if len(found) == COUNTED:
                return None
        return Named(found)
