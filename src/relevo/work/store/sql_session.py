"""What the end of every unit of work asks of a session, in SQLAlchemy: for paths that ask many things seldom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, insert, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.work.store.audit_chain import HEAD, LINKED, Head
from relevo.work.store.counters import TALLIES
from relevo.work.store.interface import Dialect, Row
from relevo.work.store.tables import audit, audit_chains, tallies


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
