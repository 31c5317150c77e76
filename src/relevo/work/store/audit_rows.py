"""Writing to the audit from the cold paths, on a connection of SQLAlchemy's: rows go in linked, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.work.store.audit_chain import COLUMNS, HEAD, LINKED, Head
from relevo.work.store.database import Database
from relevo.work.store.tables import audit, audit_chains


class ColdAuditRows:
    """What `Linking.write` asks of a transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def chain_heads(self, limit: int) -> list[tuple[Any, ...]]:
        columns = (audit_chains.c[name] for name in ("chain", "last_no", "last_hash"))
        query = select(*columns).order_by(audit_chains.c.chain.desc()).limit(limit)
        return [tuple(row) for row in reversed((await self._connection.execute(query)).all())]

    async def add_audit(self, rows: Sequence[tuple[Any, ...]], head: Head, *, is_new: bool) -> None:
        values = [dict(zip(LINKED, row, strict=True)) for row in rows]
        await self._connection.execute(insert(audit), values)
        if is_new:
            moved: Any = insert(audit_chains).values(dict(zip(HEAD, head.row, strict=True)))
        else:
            its_row = update(audit_chains).where(audit_chains.c.chain == head.chain)
            moved = its_row.values(last_no=head.last_no, last_hash=head.last_hash)
        await self._connection.execute(moved)


class Audited:
    """A transaction whose audit rows are written when it ends."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.rows: list[tuple[Any, ...]] = []

    def note(self, row: Mapping[str, Any]) -> None:
        """Adds a row as `audit_row` makes it."""
        self.rows.append(tuple(row[name] for name in COLUMNS))


@contextlib.asynccontextmanager
async def audited(database: Database) -> AsyncGenerator[Audited]:
    """A transaction that writes, and tells the audit what it changed.

    async with audited(database) as change:
        await change.connection.execute(update(queues).where(...).values(state="paused"))
        change.note(audit_row(caller, at=now, action="queue.change", target="emails", after={"state": "paused"}))
    """
    with database.chains.linking() as linking:
        async with database.begin() as connection:
            change = Audited(connection)
            yield change
            if change.rows:
                await linking.write(change.rows, ColdAuditRows(connection))
