"""The tallies of past days: many rows a queue and day, one for each lane of each process, become one.

A depth is the sum over all rows of a queue, and a publish to a queue with a limit reads it, so rows of days that are over must
not pile up. Adding up is exact whenever it happens: the rows that are summed are held until they are gone, and their sum is
added in the same transaction. Whoever adds to one of them meanwhile (a transaction that began before midnight, a clock that is
late) waits, finds no row and makes a new one, which the next day's fold takes in.
"""

from __future__ import annotations

from itertools import groupby

from sqlalchemy import and_, delete, or_, select

from relevo.work.faults import fault
from relevo.work.store.counters import TALLIES
from relevo.work.store.database import Database
from relevo.work.store.tables import tallies
from relevo.work.store.transactions import SqlUnitOfWork, Transactions

FOLDED_SLOT = 32_766
"""Where the sum of a past day is; no process writes to it by itself."""

DAY_MS = 86_400_000

_TOGETHER = 50
"""Queues and days in one transaction."""


async def fold(database: Database, transactions: Transactions, *, before: int) -> tuple[int, bool]:
    """Folds some of the days before the day `before` (since 1970): how many rows are gone, and whether there is more."""
    t = tallies.c
    loose = (
        select(t.queue_id, t.day)
        .where(t.day < before, t.slot != FOLDED_SLOT)
        .group_by(t.queue_id, t.day)
        .order_by(t.queue_id, t.day)
        .limit(_TOGETHER)
    )
    async with database.connect() as connection:
        pairs = [(row.queue_id, row.day) for row in await connection.execute(loose)]
    if not pairs:
        return 0, False
    gone = await transactions.run(lambda transaction: _fold(transaction, pairs))
    return gone, len(pairs) == _TOGETHER


async def _fold(transaction: SqlUnitOfWork, pairs: list[tuple[int, int]]) -> int:
    t = tallies.c
    places = or_(*(and_(t.queue_id == queue_id, t.day == day) for queue_id, day in pairs))
    # In the order in which everybody adds to tallies, so that nobody waits for whom it blocks.
    query = select(tallies).where(places, t.slot != FOLDED_SLOT).order_by(t.queue_id, t.day, t.slot)
    rows = (await transaction.connection.execute(transaction.held(query, wait=True))).all()
    for (queue_id, day), own in groupby(rows, key=lambda row: (row.queue_id, row.day)):
        loose = list(own)
        sums = [sum(getattr(row, name) for row in loose) for name in TALLIES]
        await transaction.session.add_counters([(queue_id, day, FOLDED_SLOT, *sums)])
        fault("fold.added")
        slots = [row.slot for row in loose]
        await transaction.connection.execute(
            delete(tallies).where(t.queue_id == queue_id, t.day == day, t.slot.in_(slots))
        )
    return len(rows)
