"""How many messages of a queue are in each state, and what a queue has done on each day: the `tallies` table.

A transaction collects its own counters in a `CounterDelta` and adds them once, at its end, ordered by queue: no counter is
locked for longer than a commit, and no two transactions can wait for each other's counters. Each lane of each process has a row
of its own (`slot`), so that they do not queue up either. A depth is the sum over all rows of a queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, select

from relevo.work.store.database import Database
from relevo.work.store.tables import tallies

COUNTED_STATES = ("pending", "delayed", "claimed", "in_review", "dead")
"""States whose depth is kept; a message in another state is only counted once, as what it became."""

TALLIES: tuple[str, ...] = tuple(column.name for column in tallies.columns)[3:]
"""All columns that count, in the table's order."""

_PLACE = {name: place for place, name in enumerate(TALLIES)}
_DAY_MS = 86_400_000


class Depth(NamedTuple):
    """A queue at one moment."""

    pending: int = 0
    delayed: int = 0
    claimed: int = 0
    in_review: int = 0
    dead: int = 0


class CounterDelta:
    """What one transaction changes in the tallies.

    >>> counters = CounterDelta()
    >>> counters.moved(7, None, "pending", 2)
    >>> counters.moved(7, "pending", "claimed")
    >>> counters.add(7, "claims", 1)
    >>> [row[:1] + row[3:6] for row in counters.rows(now_ms=0, slot=0)]
    [(7, 1, 0, 1)]
    """

    def __init__(self) -> None:
        self._of: dict[int, list[int]] = {}

    def add(self, queue_id: int, name: str, by: int) -> None:
        """Adds to one column, such as `published` or `handler_ms`."""
        counts = self._of.get(queue_id)
        if counts is None:
            counts = self._of[queue_id] = [0] * len(TALLIES)
        counts[_PLACE[name]] += by

    def moved(self, queue_id: int, before: str | None, after: str | None, count: int = 1) -> None:
        """`count` messages of a queue went from one state to another (None: from or to nowhere)."""
        if before in COUNTED_STATES:
            self.add(queue_id, before, -count)
        if after in COUNTED_STATES:
            self.add(queue_id, after, count)

    def waiting(self, queue_id: int) -> int:
        """What this transaction adds to those pending or delayed."""
        counts = self._of.get(queue_id)
        return 0 if counts is None else counts[_PLACE["pending"]] + counts[_PLACE["delayed"]]

    def rows(self, *, now_ms: int, slot: int) -> list[tuple[Any, ...]]:
        """Rows to add to the table, by queue."""
        day = now_ms // _DAY_MS
        return [(queue_id, day, slot, *counts) for queue_id, counts in sorted(self._of.items()) if any(counts)]


async def depths_of(database: Database, queue_ids: Sequence[int]) -> dict[int, Depth]:
    """The depths of these queues now; queues that never held anything are all zero."""
    if not queue_ids:
        return {}
    c = tallies.c
    sums = [func.coalesce(func.sum(c[name]), 0) for name in COUNTED_STATES]
    query = select(c.queue_id, *sums).where(c.queue_id.in_(queue_ids)).group_by(c.queue_id)
    async with database.connect() as connection:
        found = {row[0]: Depth(*(int(value) for value in row[1:])) for row in await connection.execute(query)}
    return {queue_id: found.get(queue_id, Depth()) for queue_id in queue_ids}
