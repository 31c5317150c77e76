"""The order index: each queue's pending messages in a sorted set of Redis. It can be deleted at any moment.

Rows are the truth. The set only says in which order they come, to spare the database that question; what it lacks is asked of
SQL, what it has too much is dropped when it is taken, because a claim changes a row only while that is pending.
"""

from __future__ import annotations

from collections.abc import Sequence

from relevo.work.queues import Ordering
from relevo.work.transaction import Ready

NO_DEADLINE = 2**53 - 1
"""The place of a message without a deadline: last. Scores are doubles, and this is the last whole number they tell apart."""


def sort_key(ordering: Ordering, *, created_at: int, tier: int, score: int, deadline_at: int | None) -> int:
    """A message's place in its queue: lowest first, ties by id.

    >>> sort_key("priority", created_at=5, tier=2, score=7, deadline_at=None)
    -2007
    """
    if ordering == "fifo":
        return created_at
    if ordering == "priority":
        return -(tier * 1000 + score)
    return NO_DEADLINE if deadline_at is None else deadline_at


class Order:
    """The order indexes of all queues, as one process uses them. No method raises because Redis is away."""

    async def add(self, ready: Sequence[Ready]) -> None:
        """These messages are pending: committed rows only. `Office.transact` calls it after its commits."""
        raise NotImplementedError

    async def put_back(self, older_than_s: float = 5.0) -> int:
        """Members that a claim took out and never settled (its process died) go back in; for the enforcer, each second."""
        raise NotImplementedError

    async def rebuild(self, queue_id: int) -> bool:
        """Makes a queue's index anew from its rows, while claims and publishes go on. False: Redis is away, or another
        process is at it."""
        raise NotImplementedError

    async def size(self, queue_id: int) -> int | None:
        """Members of the index, those just being taken included; None when there is no complete index. For the auditor."""
        raise NotImplementedError
