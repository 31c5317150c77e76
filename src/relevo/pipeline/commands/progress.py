"""How a command tells how far it is: a line a step, for a bar, a log or nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    version: int = 0
    """The new version of the table, when it was built."""
    built_from: Mapping[str, int] = field(default_factory=dict[str, int])
    """The tables it was made from, at which version."""
    warnings: tuple[str, ...] = ()
    """Expectations that do not hold and did not stop the table."""


@dataclass(frozen=True)
class Built:
    """What a build did."""

    steps: tuple[Step, ...]
    seconds: float

    @property
    def broken(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.state in ("broken", "skipped"))


Tell = Callable[[Step], None]


def nobody(_: Step) -> None:
    """Told to nobody."""
