"""The search table, and the feed of what it does not know yet.

A transaction that makes messages which have such attributes, or changes them, leaves one row in the feed: their ids. An agent
writes the table from there, thousands of messages at once. So whoever searches looks in the table, and through the messages
from the oldest in the feed on, and finds all of them at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import FromClause, and_, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.wire.ids import minted_ms
from relevo.work.faults import fault
from relevo.work.store.interface import Dialect
from relevo.work.store.search_attributes import ARCHIVE_COLUMNS, LIVE_COLUMNS, Name, attribute, attributes_of, stale_of
from relevo.work.store.statements import statement
from relevo.work.store.tables import archive, messages, search, search_feed

AT_ONCE = 500
"""Values in one IN: SQLite takes so many parameters and no more."""
_MOST_ALTERED = 200
"""Rows of the feed that a search reads: more there are only while nobody empties it."""

Entry = tuple[int, int, str]
"""A row of the search table: scope, attribute, message."""

_ids = msgspec.json.Decoder(list[str])


class Unknown(NamedTuple):
    """What the search table does not know yet."""

    first_id: str | None
    """New messages have this id or a later one; None: it knows all of them."""
    altered: tuple[str, ...]
    """Messages that are found by something else by now, the newest first."""

    def behind_s(self, now: int) -> float:
        """How far the table is behind."""
        since = None if self.first_id is None else minted_ms(self.first_id)
        return 0.0 if since is None else max(0, now - since) / 1000


async def unknown(connection: AsyncConnection) -> Unknown:
    """Asked before the table: what leaves the feed meanwhile is in it."""
    f = search_feed.c
    fresh = select(f.first_id).where(f.fresh == 1).order_by(f.first_id).limit(1)
    first = (await connection.execute(fresh)).scalar()
    changed = select(f.ids).where(f.fresh == 0).order_by(f.id.desc()).limit(_MOST_ALTERED)
    altered = {each for text in (await connection.execute(changed)).scalars() for each in _ids.decode(text)}
    return Unknown(first, tuple(sorted(altered, reverse=True)))


async def ids_having(
    connection: AsyncConnection, scope_ids: Sequence[int], name: Name, values: Iterable[str]
) -> list[str]:
    """All messages of these scopes, archived or not, that may have one of these values; whoever reads their rows compares."""
    wanted = sorted(set(values))
    left = await unknown(connection)
    found = set(left.altered)
    for at in range(0, len(wanted), AT_ONCE):
        some = wanted[at : at + AT_ONCE]
        numbers = [attribute(name, value) for value in some]
        mine = and_(search.c.scope_id.in_(scope_ids), search.c.attribute.in_(numbers))
        found |= set((await connection.execute(select(search.c.id).where(mine))).scalars())
        if left.first_id is not None:
            for table in (messages, archive):
                new = (table.c.id >= left.first_id, table.c.scope_id.in_(scope_ids), table.c[name].in_(some))
                found |= set((await connection.execute(select(table.c.id).where(*new))).scalars())
    return sorted(found)


@dataclass(frozen=True)
class Fed:
    """A part of the feed, and what the search table says when it is in it."""

    numbers: list[int]
    count: int
    """Messages in it."""
    entries: list[Entry]


async def read_feed(connection: AsyncConnection, limit: int) -> Fed | None:
    """The oldest rows of the feed, up to so many messages; None when it is empty."""
    numbers: list[int] = []
    ids: set[str] = set()
    query = select(search_feed.c.id, search_feed.c.ids).order_by(search_feed.c.id).limit(max(1, limit // 8))
    for row in await connection.execute(query):
        numbers.append(row.id)
        ids |= set(_ids.decode(row.ids))
        if len(ids) >= limit:
            break
    if not numbers:
        return None
    wanted = sorted(ids)
    entries: list[Entry] = []
    for at in range(0, len(wanted), AT_ONCE):
        some = wanted[at : at + AT_ONCE]
        entries += await _entries(connection, messages, LIVE_COLUMNS, some)
        entries += await _entries(connection, archive, ARCHIVE_COLUMNS, some)
    return Fed(numbers, len(ids), sorted(entries))


async def _entries(
    connection: AsyncConnection, table: FromClause, columns: Sequence[Any], ids: Sequence[str]
) -> list[Entry]:
    rows = (await connection.execute(select(*columns).where(table.c.id.in_(ids)))).mappings()
    return [(row["scope_id"], number, row["id"]) for row in rows for number in attributes_of(row)]


async def write_fed(connection: AsyncConnection, dialect: Dialect, fed: Fed) -> None:
    """Writes the entries in the place of those rows of the feed, in one transaction. Of two who do so at once the second finds
    all of it there."""
    await connection.execute(delete(search_feed).where(search_feed.c.id.in_(fed.numbers)))
    fault("search.taken")
    if fed.entries:
        sql = statement(dialect, "add_search")
        values: Any = tuple(map(list, zip(*fed.entries, strict=True))) if dialect == "postgresql" else fed.entries
        await connection.exec_driver_sql(sql, values)
    fault("search.written")


async def forget(connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Takes messages out of the search table for good, whose rows these are: of the archive."""
    entries = [(row["scope_id"], number, row["id"]) for row in rows for number in attributes_of(row) | stale_of(row)]
    c = search.c
    for at in range(0, len(entries), 100):
        exactly = (
            and_(c.scope_id == scope_id, c.attribute == number, c.id == message_id)
            for scope_id, number, message_id in entries[at : at + 100]
        )
        await connection.execute(delete(search).where(or_(*exactly)))
