"""A message's history: one line for each change, appended to its row in the UPDATE that makes the change."""

from __future__ import annotations

import msgspec

_encode = msgspec.json.Encoder().encode


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One line of a history."""

    at: int
    event: str
    actor: str
    detail: str | None = None


def history_line(at: int, event: str, actor: str, detail: str | None = None) -> str:
    """The text to append: JSON and a comma, so that appending needs no reading.

    >>> history_line(1_700_000_000_000, "completed", "key:01J9")
    '[1700000000000,"completed","key:01J9",null],'
    """
    return _encode((at, event, actor, detail)).decode() + ","


def steps(trail: str) -> list[Step]:
    """The history, oldest first.

    >>> [step.event for step in steps(history_line(1, "published", "cli") + history_line(2, "claimed", "cli"))]
    ['published', 'claimed']
    """
    return msgspec.json.decode(f"[{trail.rstrip(',')}]", type=list[Step])
