"""What a job before this one in its flow came to."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

NodeState = Literal["waiting", "queued", "done", "failed", "skipped", "cancelled"]


class ParentResult(NamedTuple):
    """What a job before this one came to: its state, and what it returned (or None)."""

    state: NodeState
    value: Any
    reason: str
