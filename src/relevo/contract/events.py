"""What happens to messages, by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from relevo.contract.fields import about

EventName = Literal[
    "published",
    "claimed",
    "completed",
    "failed",
    "retried",
    "released",
    "extended",
    "reclaimed",
    "expired",
    "dead_lettered",
    "replayed",
    "cancelled",
    "routed",
    "review_needed",
    "review_decided",
]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a scope. `place` goes on after it; `gap` as a name: some were not kept, look at the rows."""

    name: Annotated[str, about("What happened, such as `completed`.")]
    data: Annotated[dict[str, Any], about("What is known of it.")]
    place: Annotated[str | None, about("Pass it as `after` to go on behind this event.")] = None
