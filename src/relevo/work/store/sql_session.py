"""What the end of every unit of work asks of a session, in SQLAlchemy: for paths that ask many things seldom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.work.store.audit_chain import HEAD, LINKED, Head
from relevo.work.store.counters import TALLIES
from relevo.work.store.interface import Dialect, MessageUpdate, Row
from relevo.work.store.lease import Lease
from relevo.work.store.tables import audit, audit_chains, due, leases, messages, ready, tallies


class SqlSession:
    """A part of `Session` on a connection of SQLAlchemy's."""

    def __init__(self, connection: AsyncConnection, dialect: Dialect) -> None:
        self._connection = connection
        self.dialect: Dialect = dialect

    async def insert(self, table: Table, rows: Sequence[Row], *, columns: Sequence[str] | None = None) -> None:
        names = columns or [column.name for column in table.columns]
        await self._connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])

    async def add_counters(self, rows: Sequence[Row]) -> None:
        names = [column.name for column in tallies.columns]
        values = [dict(zip(names, row, strict=True)) for row in rows]
        if not values:
            return
        statement: Any
        if self.dialect == "mariadb":
            adding = mysql.insert(tallies)
            statement = adding.on_duplicate_key_update(
                {name: tallies.c[name] + adding.inserted[name] for name in TALLIES}
            )
        else:
            adding = (postgresql if self.dialect == "postgresql" else sqlite).insert(tallies)
            statement = adding.on_conflict_do_update(
                index_elements=["queue_id", "day", "slot"],
                set_={name: tallies.c[name] + adding.excluded[name] for name in TALLIES},
            )
        await self._connection.execute(statement, values)

    async def update_messages(self, updates: Sequence[MessageUpdate]) -> None:
        """As a driver's, but of any columns. Rows that change alike are changed together."""
        alike: dict[tuple[tuple[str, ...], bool], list[dict[str, Any]]] = {}
        for each in updates:
            values = {f"b_{name}": value for name, value in each.columns.items()} | {"b_trail": each.trail}
            alike.setdefault((tuple(each.columns), bool(each.trail)), []).append(values | {"b_id": each.row.id})
        for (names, told), rows in alike.items():
            columns: dict[str, Any] = {name: bindparam(f"b_{name}", type_=messages.c[name].type) for name in names}
            if told:
                columns["trail"] = messages.c.trail + bindparam("b_trail", type_=messages.c.trail.type)
            ids = [row.pop("b_id") for row in rows]
            if all(row == rows[0] for row in rows):
                mine = messages.c.id.in_(ids)
                await self._connection.execute(update(messages).where(mine).values(columns), rows[0])
            else:
                each_row = update(messages).where(messages.c.id == bindparam("b_id")).values(columns)
                given = [row | {"b_id": message_id} for row, message_id in zip(rows, ids, strict=True)]
                await self._connection.execute(each_row, given)

    async def leave_ready(self, places: Sequence[tuple[int, int, str]]) -> None:
        names = [column.name for column in ready.columns]
        gone = delete(ready).where(*(column == bindparam(f"b_{column.name}") for column in ready.columns))
        given = [{f"b_{name}": value for name, value in zip(names, place, strict=True)} for place in places]
        await self._connection.execute(gone, given)

    async def add_due(self, rows: Sequence[tuple[str, int, str]]) -> None:
        statement: Any
        if self.dialect == "mariadb":
            statement = mysql.insert(due).on_duplicate_key_update(id=due.c.id)
        else:
            statement = (postgresql if self.dialect == "postgresql" else sqlite).insert(due).on_conflict_do_nothing()
        given = [{"kind": kind, "at": at, "id": message_id} for kind, at, message_id in rows]
        await self._connection.execute(statement, given)

    async def leases(self, tokens: Sequence[str]) -> list[Lease]:
        rows = await self._connection.execute(select(leases).where(leases.c.token.in_(tokens)))
        return [Lease.of_row(row) for row in rows]

    async def drop_leases(self, tokens: Sequence[str]) -> None:
        await self._connection.execute(delete(leases).where(leases.c.token.in_(tokens)))

    async def chain_heads(self, limit: int) -> list[Row]:
        columns = (audit_chains.c[name] for name in ("chain", "last_no", "last_hash"))
        query = select(*columns).order_by(audit_chains.c.chain.desc()).limit(limit)
        return [tuple(row) for row in reversed((await self._connection.execute(query)).all())]

    async def add_audit(self, rows: Sequence[Row], head: Head, *, is_new: bool) -> None:
        await self._connection.execute(insert(audit), [dict(zip(LINKED, row, strict=True)) for row in rows])
        if is_new:
            moved: Any = insert(audit_chains).values(dict(zip(HEAD, head.row, strict=True)))
        else:
            its_row = update(audit_chains).where(audit_chains.c.chain == head.chain)
            moved = its_row.values(last_no=head.last_no, last_hash=head.last_hash)
        await self._connection.execute(moved)
