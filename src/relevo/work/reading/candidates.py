"""Where a list looks: ids of messages, newest first, a page at a time, each page from an index that is in their order.

What a source gives may not be what is asked for. Whoever reads the rows compares, so a source must leave out nothing and may
give too much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, FromClause, Select, and_, func, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.work.store.search_attributes import Name, attribute
from relevo.work.store.search_index import Unknown
from relevo.work.store.tables import archive, labels, messages, queues, ready, search

MOST_LOOKED_AT = 20_000
"""Candidates that one page looks at. Behind them it ends, full or not, and its cursor leads on."""
_MOST_TOGETHER = 2_000
_SHORTEST_STRIDE = 500
"""Messages of a queue at which one look for what meets conditions goes past, however many queues there are."""
_QUEUES_TOGETHER = 20
COUNTED = 1_000
"""How far a source counts, when it is to be compared with others."""


_OWN_PLACE = and_(
    ready.c.queue_id == messages.c.queue_id, ready.c.sort_key == messages.c.sort_key, ready.c.id == messages.c.id
)
"""Of a message that can be claimed: where it stands in `ready`."""


class Span(NamedTuple):
    """Ids from one on, up to before another; None for no bound."""

    first: str | None = None
    before: str | None = None

    def of(self, column: Any) -> list[Any]:
        bounds: list[Any] = []
        if self.first is not None:
            bounds.append(column >= self.first)
        if self.before is not None:
            bounds.append(column < self.before)
        return bounds

    def since(self, first: str | None) -> Span:
        """The part of it from an id on."""
        return self if first is None else self._replace(first=max(first, self.first or ""))


class Part(NamedTuple):
    """Ids of a span, newest first, and how far the look went: whatever follows lies before that id. None: nothing follows."""

    ids: list[str]
    reached: str | None
    looked_at: int

    @staticmethod
    def of(ids: list[str], count: int) -> Part:
        """Of a look for so many, all of which count."""
        return Part(ids, ids[-1] if len(ids) == count else None, len(ids))


class _Queue(NamedTuple):
    """A queue, and the newest of its messages in a span."""

    newest: str
    id: int


class Source(Protocol):
    """Ids that lie somewhere in the order of ids."""

    async def part(self, connection: AsyncConnection, span: Span, count: int, /) -> Part:
        """The newest of the span, at most so many."""
        ...


class Marked(Source, Protocol):
    """A source that is a part of an index."""

    async def size(self, connection: AsyncConnection) -> int:
        """How many there are; at most COUNTED."""
        ...


class _Indexed:
    """Ids in a column of an index, behind conditions that fix what stands before it."""

    def __init__(self, column: Any, *conditions: Any) -> None:
        self._column = column
        self._conditions = conditions

    async def part(self, connection: AsyncConnection, span: Span, count: int, /) -> Part:
        query = select(self._column).where(*self._conditions, *span.of(self._column))
        ids = (await connection.execute(query.order_by(self._column.desc()).limit(count))).scalars()
        return Part.of(list(ids), count)

    async def size(self, connection: AsyncConnection) -> int:
        some = select(self._column).where(*self._conditions).limit(COUNTED).subquery()
        return int((await connection.execute(select(func.count()).select_from(some))).scalar_one())


def having(scope_id: int, name: Name, value: str) -> Marked:
    """Messages that the search table knows to have this attribute."""
    c = search.c
    return _Indexed(c.id, c.scope_id == scope_id, c.attribute == attribute(name, value))


def labelled(scope_id: int, name: str, value: str) -> Marked:
    """Messages with a label, which are known at once."""
    c = labels.c
    return _Indexed(c.message_id, c.scope_id == scope_id, c.name == name, c.value == value)


class Named:
    """These messages."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = sorted(set(ids), reverse=True)

    async def part(self, _: AsyncConnection, span: Span, count: int, /) -> Part:
        first, before = span.first or "", span.before
        ids = [each for each in self._ids if each >= first and (before is None or each < before)]
        return Part.of(ids[:count], count)


class InQueues:
    """The messages of a table that are in these queues, from an id on. With conditions, which few may meet, one look goes past
    so many and no more; of live messages they may be about `ready` too."""

    def __init__(
        self, table: FromClause, queue_ids: Sequence[int], *conditions: ColumnElement[bool], since: str | None = None
    ) -> None:
        self._table = table
        self._queue_ids = queue_ids
        self._conditions = conditions
        self._since = since

    async def part(self, connection: AsyncConnection, span: Span, count: int, /) -> Part:
        """Queue by queue, since no index holds the ids of several in one order: first those whose newest is the newest, as
        long as the next queue may have one that belongs here."""
        span = span.since(self._since)
        ordered = await self._by_newest(connection, span)
        found: list[str] = []
        reached: str | None = None
        looked_at = 0
        for at in range(0, len(ordered), _QUEUES_TOGETHER):
            some = ordered[at : at + _QUEUES_TOGETHER]
            if found and len(found) == count and found[-1] > some[0].newest:
                break
            spans = [span] * len(some)
            if self._conditions:
                rows = max(_SHORTEST_STRIDE, MOST_LOOKED_AT // len(ordered))
                ends = await self._ends(connection, some, span, rows)
                spans = [span.since(ends.get(each.id)) for each in some]
                reached = max([reached, *ends.values()] if reached else ends.values(), default=None)
                looked_at += rows * len(some)
            queries = [
                self._newest(each.id, own, count, *self._conditions) for each, own in zip(some, spans, strict=True)
            ]
            found = sorted([*found, *await _all_of(connection, queries)], reverse=True)[:count]
        if len(found) == count:
            reached = max(found[-1], reached or "")
        return Part([each for each in found if each >= (reached or "")], reached, looked_at or len(found))

    async def _by_newest(self, connection: AsyncConnection, span: Span) -> list[_Queue]:
        """Those queues that have some."""
        if len(self._queue_ids) == 1:
            return [_Queue("", queue_id) for queue_id in self._queue_ids]
        newest = self._newest(queues.c.id, span, 1).correlate(queues).scalar_subquery()
        asked = select(newest, queues.c.id).where(queues.c.id.in_(self._queue_ids))
        rows = await connection.execute(asked)
        return sorted([_Queue(row[0], row[1]) for row in rows if row[0] is not None], reverse=True)

    async def _ends(self, connection: AsyncConnection, some: Sequence[_Queue], span: Span, rows: int) -> dict[int, str]:
        """Where so many messages end, in those queues that have as many."""
        ends = [(each.id, self._newest(each.id, span, 1).offset(rows - 1).subquery()) for each in some]
        parts = [select(literal(queue_id), end.c.id) for queue_id, end in ends]
        found = await connection.execute(union_all(*parts) if len(parts) > 1 else parts[0])
        return {row[0]: row[1] for row in found}

    def _newest(self, queue_id: Any, span: Span, count: int, *conditions: Any) -> Select[Any]:
        c = self._table.c
        query = select(c.id).where(c.queue_id == queue_id, *span.of(c.id), *conditions)
        if conditions and self._table is messages:
            query = query.select_from(messages.outerjoin(ready, _OWN_PLACE))
        index = f"ix_relevo_{str(self._table).removeprefix('relevo_store_')}_queue"
        for dialect in ("mysql", "mariadb"):  # which would take the primary key, and look at all that is newer
            query = query.with_hint(self._table, f"FORCE INDEX ({index})", dialect)
        return query.order_by(c.id.desc()).limit(count)


async def _all_of(connection: AsyncConnection, queries: Sequence[Select[Any]]) -> list[str]:
    parts = [select(query.subquery().c.id) for query in queries]
    return list((await connection.execute(union_all(*parts) if len(parts) > 1 else parts[0])).scalars())


class Together:
    """What any of these sources gives."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources

    async def part(self, connection: AsyncConnection, span: Span, count: int, /) -> Part:
        """As far as all of them have looked: the newest of all are among the newest of each."""
        parts = [await source.part(connection, span, count) for source in self._sources]
        reached = max((each.reached for each in parts if each.reached is not None), default=None)
        ids = sorted({each for part in parts for each in part.ids if each >= (reached or "")}, reverse=True)
        looked_at = sum(each.looked_at for each in parts)
        return Part(ids[:count], ids[count - 1] if len(ids) >= count else reached, looked_at)


async def rarest(connection: AsyncConnection, sources: Sequence[Marked]) -> tuple[Marked, int]:
    """The one with the fewest messages, and how many they are, as far as they were counted."""
    sizes = [await source.size(connection) for source in sources]
    fewest = min(sizes)
    return sources[sizes.index(fewest)], fewest


def with_unknown(left: Unknown, queue_ids: Sequence[int], *sources: Source) -> Source:
    """Beside what the search table knows what it does not know yet, of the messages in these queues."""
    more: list[Source] = [Named(left.altered)] if left.altered else []
    if left.first_id is not None:
        more += [InQueues(table, queue_ids, since=left.first_id) for table in (messages, archive)]
    return Together(*sources, *more)


Rows = list[dict[str, Any]]


async def first_matching(
    connection: AsyncConnection,
    source: Source,
    rows_of: Callable[[list[str]], Awaitable[Rows]],
    span: Span,
    limit: int,
) -> tuple[Rows, str | None]:
    """The first rows that `rows_of` leaves of the candidates, no more than the limit; and behind which id others may follow,
    None at the end."""
    found: Rows = []
    looked_at, count = 0, limit + 1
    while True:
        part = await source.part(connection, span, count)
        found += await rows_of(part.ids)
        if len(found) > limit:
            return found[:limit], found[limit - 1]["id"]
        looked_at += part.looked_at
        if part.reached is None or looked_at >= MOST_LOOKED_AT:
            return found, part.reached
        span = span._replace(before=part.reached)
        count = min(4 * count, _MOST_TOGETHER)
