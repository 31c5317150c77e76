"""The archive: where finished messages go after an hour, so that the table of live ones stays small.

A message is in one of the two tables, never in both and never in none: it moves within one transaction, in either direction.
Its labels and its idempotency key stay where they are, so that it is found, and its key refused, wherever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, exists, func, insert, literal, or_, select

from relevo.work.faults import fault
from relevo.work.store.tables import archive, chunks, deliveries, messages
from relevo.work.store.transactions import SqlUnitOfWork

ARCHIVED_STATES = ("completed", "failed", "expired", "cancelled")
"""Dead letters stay: they wait for a decision."""

_COLUMNS = [column.name for column in messages.columns if column.name in archive.columns]


def may_be_archived() -> ColumnElement[bool]:
    """Of messages that are finished: all but those that wait for a decision."""
    standing = messages.c.standing
    return or_(standing.is_(None), standing.in_(ARCHIVED_STATES))


async def move(transaction: SqlUnitOfWork, first: str, last: str, *conditions: ColumnElement[bool]) -> int:
    """Archives the messages from one id to another that meet these conditions, but those that somebody holds; how many. What
    their subscriptions did is in their trail, and the whole of their parts in their result; deliveries and parts go."""
    connection = transaction.connection
    m = messages.c
    state = func.coalesce(m.standing, "completed")
    whole: Select[*tuple[Any, ...]] = select(*(m[name] for name in _COLUMNS), state, literal(transaction.now))
    held = transaction.held(whole.where(m.id >= first, m.id <= last, *conditions))
    copied = await connection.execute(insert(archive).from_select([*_COLUMNS, "state", "archived_at"], held))
    if not copied.rowcount:
        return 0
    fault("archive.copied")
    for ids in (deliveries.c.message_id, chunks.c.message_id, m.id):
        is_copied = exists().where(archive.c.id == ids)
        await connection.execute(delete(ids.table).where(ids >= first, ids <= last, is_copied))
    return copied.rowcount


async def bring_back(transaction: SqlUnitOfWork, ids: Sequence[str]) -> None:
    """Moves archived messages back among the live ones, in the state they had."""
    connection = transaction.connection
    for at in range(0, len(ids), 500):
        these = archive.c.id.in_(ids[at : at + 500])
        standing = func.nullif(archive.c.state, "completed")
        whole: Select[*tuple[Any, ...]] = select(*(archive.c[name] for name in _COLUMNS), standing).where(these)
        await connection.execute(insert(messages).from_select([*_COLUMNS, "standing"], whole))
        await connection.execute(delete(archive).where(these))
