"""How a job tells how far it is: a line a step, for a bar, a log or nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

State = Literal["began", "built", "unchanged", "broken", "skipped"]


@dataclass(frozen=True)
class Step:
    """What happened to one table."""

    table: str
    state: State
    rows: int = 0
    partitions: int = 0
    seconds: float = 0.0
    reason: str = ""
    warnings: tuple[str, ...] = ()
    """Expectations that do not hold and did not stop the table."""


Tell = Callable[[Step], None]


def nobody(_: Step) -> None:
    """Told to nobody."""
