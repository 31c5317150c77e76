"""A message's history: one line for each change, appended to its row in the UPDATE that makes the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from relevo.work.message.transition import PUBLISH

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


def trail_of(row: Mapping[Any, Any]) -> str:
    """A message's whole history, of its row: that it was published stands in columns of their own, as a rule.

    >>> trail_of({"published_by": "cli", "created_at": 1, "trail": '[2,"claimed","cli",null],'})
    '[1,"published","cli",null],[2,"claimed","cli",null],'
    """
    by: str | None = row["published_by"]
    return row["trail"] if by is None else history_line(row["created_at"], PUBLISH.history, by) + row["trail"]


def steps(trail: str) -> list[Step]:
    """The history, oldest first.

    >>> [step.event for step in steps(history_line(1, "published", "cli") + history_line(2, "claimed", "cli"))]
    ['published', 'claimed']
    """
    return msgspec.json.decode(f"[{trail.rstrip(',')}]", type=list[Step])
