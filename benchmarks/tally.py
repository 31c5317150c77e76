"""Collects the numbers of all rounds and says what they mean: medians, and ratios to a rival in the same run."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.case import BY_NAME, CASES


@dataclass
class Tally:
    """Numbers by contestant and case, a list of one for each round."""

    server: str
    scale: float
    numbers: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    )
    failures: list[str] = field(default_factory=list[str])

    def note(self, contestant: str, measured: dict[str, float]) -> None:
        for case, value in measured.items():
            self.numbers[contestant][case].append(value)

    def median(self, contestant: str, case: str) -> float | None:
        values = self.numbers.get(contestant, {}).get(case)
        return statistics.median(values) if values else None

    def ratio(self, case: str, ours: str, theirs: str, *, their_case: str | None = None) -> float | None:
        """How many times better `ours` is; for latency, CPU and memory less is better."""
        mine, other = self.median(ours, case), self.median(theirs, their_case or case)
        if not mine or not other:
            return None
        known = BY_NAME.get(case)
        return other / mine if known is not None and not known.more_is_better else mine / other

    def table(self, contestants: list[str], base: str) -> Table:
        table = Table(title=f"medians on {self.server}; in brackets: times better than {base}")
        table.add_column("case")
        for contestant in contestants:
            table.add_column(contestant, justify="right")
        for case in CASES:
            cells = [self._cell(contestant, case.name, case.unit, base) for contestant in contestants]
            if any(cell != "-" for cell in cells):
                table.add_row(f"{case.title}, {case.unit}", *cells)
        return table

    def _cell(self, contestant: str, case: str, unit: str, base: str) -> str:
        value = self.median(contestant, case)
        if value is None:
            return "-"
        shown = f"{value:,.0f}" if unit == "jobs/s" else f"{value:,.2f}"
        better = self.ratio(case, contestant, base)
        return shown if better is None or contestant == base else f"{shown} ({better:.1f})"

    def as_dict(self) -> dict[str, Any]:
        return {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"cores": _cores(), "python": platform.python_version(), "system": platform.system()},
            "server": self.server,
            "scale": self.scale,
            "rounds": {who: dict(cases) for who, cases in self.numbers.items()},
            "failures": self.failures,
        }

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_dict(), indent=1) + "\n")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
