"""What was measured, by contestant and case, one number a round; kept as JSON. Of work queues and of the pipeline alike."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine


class Figures:
    """The figures of one run."""

    def __init__(self) -> None:
        self.all: dict[str, dict[str, list[float]]] = defaultdict(dict)
        self.failures: list[str] = []
        self.facts: dict[str, str] = {}
        """The machine and the versions, as a reader needs them."""
        self.measured_at = ""
        self.seconds = 0.0

    def note(self, who: str, case: str, value: float) -> None:
        self.all[who].setdefault(case, []).append(value)

    def median(self, who: str, case: str) -> float | None:
        values = self.all.get(who, {}).get(case)
        return statistics.median(values) if values else None

    def best(self, who: str, cases: tuple[str, ...]) -> float | None:
        """The best median of several ways to do the same."""
        return max((value for case in cases if (value := self.median(who, case)) is not None), default=None)

    def spread(self, who: str, case: str) -> float | None:
        """How far the rounds lie apart, as a share of their median."""
        values = self.all.get(who, {}).get(case, [])
        return None if len(values) < 2 else (max(values) - min(values)) / statistics.median(values)

    def over(self, older: Figures) -> Figures:
        """These, and of the older ones those that were not measured again."""
        for who, cases in older.all.items():
            self.all[who] = {**cases, **self.all[who]}
        self.facts = older.facts | self.facts
        return self

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._as_dict(), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Figures:
        kept = json.loads(path.read_text())
        figures = Figures()
        for who, cases in kept["figures"].items():
            figures.all[who].update(cases)
        figures.failures, figures.facts = kept["failures"], kept["facts"]
        figures.measured_at, figures.seconds = kept["measured_at"], kept["seconds"]
        return figures

    def _as_dict(self) -> dict[str, Any]:
        return {
            "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
            "seconds": round(self.seconds),
            "facts": machine.describe() | self.facts,
            "figures": self.all,
            "failures": self.failures,
        }


def kept(measure: Callable[[], Figures], path: Path) -> Figures:
    """Measures, and keeps what came of it with the time it took."""
    began = time.monotonic()
    figures = measure()
    figures.seconds = time.monotonic() - began
    figures.save(path)
    return Figures.load(path)


def shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
