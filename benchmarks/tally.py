"""Collects the numbers of all rounds and says what they mean: medians, and ratios to a rival in the same run."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.case import BY_NAME, in_units


@dataclass
class Tally:
    """Numbers by contestant and case, a list of one for each round."""

    machine: dict[str, str] = field(default_factory=dict[str, str])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    numbers: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])
    failures: list[str] = field(default_factory=list[str])
    measured_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    """What each run was given."""

    def note(self, contestant: str, answers: dict[str, str], measures: dict[str, float]) -> None:
        """Takes a driver's measures; `answers` says to which case each belongs."""
        cases = self.numbers.setdefault(contestant, {})
        for measure, case in answers.items():
            if measure in measures:
                cases.setdefault(case, []).append(in_units(case, measures[measure]))

    @property
    def contestants(self) -> list[str]:
        return [name for name in self.versions if self.numbers.get(name)]

    @property
    def rounds(self) -> int:
        return max((len(values) for cases in self.numbers.values() for values in cases.values()), default=0)

    def median(self, contestant: str, case: str) -> float | None:
        values = self.numbers.get(contestant, {}).get(case)
        return statistics.median(values) if values else None

    def spread(self, contestant: str, case: str) -> float | None:
        """How far apart the rounds are: highest less lowest, as a share of the median."""
        values = self.numbers.get(contestant, {}).get(case)
        return (max(values) - min(values)) / statistics.median(values) if values and min(values) > 0 else None

    def ratio(self, case: str, ours: str, theirs: str, *, their_case: str | None = None) -> float | None:
        """How many times better `ours` is; of latency, CPU and memory less is better."""
        mine, other = self.median(ours, case), self.median(theirs, their_case or case)
        if not mine or not other:
            return None
        return mine / other if BY_NAME[case].more_is_better else other / mine

    def cell(self, contestant: str, case: str, base: str) -> str:
        """A median, with its ratio to `base` in brackets; `-` where there is none."""
        value = self.median(contestant, case)
        if value is None:
            return "-"
        better = self.ratio(case, contestant, base)
        shown = BY_NAME[case].shown(value)
        return shown if better is None or contestant == base else f"{shown} ({better:.2g}x)"

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.__dict__, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Tally:
        kept: dict[str, Any] = json.loads(path.read_text())
        return Tally(**kept)
