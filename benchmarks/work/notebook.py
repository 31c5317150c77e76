"""Where a case writes what it has measured on one store, and what it is told about how long and how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.figures import Figures
from benchmarks.work.stores import Store

COSTS = ("cpu_us", "database_cpu_us", "load_cpu_us", "memory_mb")


class Notebook:
    """Of one contestant on one store."""

    def __init__(
        self,
        figures: Figures,
        store: Store,
        *,
        seconds: float,
        scale: float,
        tell: Callable[[str], None],
        who: str | None = None,
    ) -> None:
        self.store = store
        self.who = who or store.name
        self.seconds = seconds
        """How long a load lasts at most."""
        self.tell = tell
        self._figures = figures
        self._scale = scale

    def sized(self, count: int) -> int:
        """A number of messages, in whole batches of 500; fewer when the run is only tried out."""
        return max(500, int(count * self._scale) // 500 * 500)

    def note(self, case: str, measured: dict[str, Any]) -> None:
        """The rate of a load and what it cost."""
        if "rate" in measured:
            self.value(case, measured["rate"])
        for cost in COSTS:
            if cost in measured:
                self.value(f"{case}_{cost}", measured[cost])

    def value(self, case: str, value: float) -> None:
        self._figures.note(self.who, case, value)

    def waiting(self, turn: str) -> int:
        """How many messages a drain of this length needs, as the rounds before tell."""
        return int((self._figures.median(self.who, turn) or 0) * self.seconds)
