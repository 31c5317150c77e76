"""What is due: the agents take it from its table, and look at the messages, which say whether it still is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import bindparam, delete, select

from relevo.work.store.tables import due
from relevo.work.store.transactions import SqlUnitOfWork

Kind = Literal["visible", "ttl", "deadline", "dead"]


async def take_due(transaction: SqlUnitOfWork, kind: Kind, limit: int) -> Sequence[Any]:
    """The first rows of a kind whose time has come, taken out of the table; another who takes some passes over them."""
    d = due.c
    query = select(due).where(d.kind == kind, d.at <= transaction.now).order_by(d.at, d.id).limit(limit)
    rows = (await transaction.connection.execute(transaction.held(query))).all()
    if rows:
        gone = delete(due).where(d.kind == kind, d.at == bindparam("b_at"), d.id == bindparam("b_id"))
        await transaction.connection.execute(gone, [{"b_at": row.at, "b_id": row.id} for row in rows])
    return rows
