"""Whether a worker can claim jobs right now."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerHealth:
    """Whether this worker can claim jobs right now, and if not, why."""

    can_claim: bool
    reason: str
    """Empty, or "paused" for a worker that could claim and is told not to, or why it cannot."""
    paused: bool
    running: int
    held: int
    last_read_s: float
    last_renewal_s: float
