"""One page of a listing, and the cursor that leads to the next. Cursors say which listing they belong to."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.pages import Page
from relevo.errors import BadCursor

T = TypeVar("T")
AnySelect = TypeVar("AnySelect", bound=Select[*tuple[Any, ...]])
Place = int | str

LONGEST = 500
"""The most a page may hold."""
LONGEST_CURSOR = 1_000

_LONGEST_TEXT = 200


class Listing:
    """A listing of rows in the order of `columns`, which together name a row: each by the name that it has in the row.

    by_name = Listing("schemas", name=schemas.c.name)
    return await by_name.page(connection, select(schemas), shown, limit=limit, cursor=cursor)
    """

    def __init__(self, name: str, /, *, newest_first: bool = False, **columns: ColumnElement[Any]) -> None:
        self.name = name
        self._newest_first = newest_first
        self._columns = columns

    async def page(
        self,
        connection: AsyncConnection,
        query: Select[*tuple[Any, ...]],
        shown: Callable[[Any], T],
        *,
        limit: int,
        cursor: str | None,
    ) -> Page[T]:
        """The rows of `query` behind the cursor, as `shown` makes them."""
        rows = (await connection.execute(self.narrowed(query, limit=limit, cursor=cursor))).mappings().all()
        return Page([shown(row) for row in rows[:limit]], self.cursor_at(rows[limit - 1]) if rows[limit:] else None)

    def narrowed(self, query: AnySelect, *, limit: int, cursor: str | None) -> AnySelect:
        """The query in our order, from the cursor on, with one row more than the page: it tells whether a page follows."""
        columns = list(self._columns.values())
        if cursor is not None:
            places = places_of(self.name, cursor, [column.type.python_type for column in columns])
            here, there = (tuple_(*columns), tuple_(*places)) if len(columns) > 1 else (columns[0], places[0])
            query = query.where(here < there if self._newest_first else here > there)
        ordered = [column.desc() if self._newest_first else column.asc() for column in columns]
        return query.order_by(*ordered).limit(limit + 1)

    def cursor_at(self, row: Any) -> str:
        return cursor_at(self.name, *(row[name] for name in self._columns))


def page_of(listing: str, items: Sequence[T], *, limit: int, cursor: str | None) -> Page[T]:
    """A page of a list that is there as a whole, and to whose end alone is added."""
    begin = 0
    if cursor is not None:
        (begin,) = places_of(listing, cursor, [int])
    end = int(begin) + limit
    return Page(list(items[int(begin) : end]), cursor_at(listing, end) if end < len(items) else None)


def cursor_at(listing: str, *places: Place) -> str:
    """An opaque cursor.

    >>> places_of("audit", cursor_at("audit", 17), [int])
    [17]
    """
    return base64.urlsafe_b64encode(msgspec.json.encode([listing, *places])).decode().rstrip("=")


def places_of(listing: str, cursor: str, kinds: Sequence[type]) -> list[Place]:
    """Where a cursor leads; refuses what another listing, or nobody, gave out."""
    if cursor.isascii() and len(cursor) <= LONGEST_CURSOR:
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            found = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=list[Place])
            if found[:1] == [listing] and [type(place) for place in found[1:]] == list(kinds) and _fit(found[1:]):
                return found[1:]
        except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError):
            pass
    raise BadCursor(cursor=cursor[:200])


def _fit(places: Sequence[Place]) -> bool:
    """What a database takes for a number of its own, or for text."""
    return all(
        -(2**63) <= place < 2**63 if isinstance(place, int) else len(place) <= _LONGEST_TEXT and "\0" not in place
        for place in places
    )
