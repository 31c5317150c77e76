"""The order of a queue: each message has a sort key, lowest first."""

from __future__ import annotations

NO_DEADLINE = 2**53 - 1
"""The place of a message without a deadline: last. Scores are doubles, and this is the last whole number they tell apart."""


def sort_key(ordering: str, *, created_at: int, tier: int, score: int, deadline_at: int | None) -> int:
    """A message's place in its queue: lowest first, ties by id.

    >>> sort_key("priority", created_at=5, tier=2, score=7, deadline_at=None)
    -2007
    """
    if ordering == "fifo":
        return created_at
    if ordering == "priority":
        return -(tier * 1000 + score)
    return NO_DEADLINE if deadline_at is None else deadline_at
