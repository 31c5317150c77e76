"""What growth costs: a list of points, each a size and what a job (or a fire, or an idle second) cost there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Point:
    """At `size`, something cost so much; `flat` is how much dearer than at the smallest size."""

    line: str
    size: int
    what: str
    process_us: float
    server_us: float
    rate: float


@dataclass
class Points:
    """All lines of growth."""

    machine: dict[str, str] = field(default_factory=dict[str, str])
    points: list[Point] = field(default_factory=list[Point])
    failures: list[str] = field(default_factory=list[str])
    measured_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def lines(self) -> dict[tuple[str, str], list[Point]]:
        """Points by line and by what was measured, in the order of their sizes."""
        found: dict[tuple[str, str], list[Point]] = {}
        for point in sorted(self.points, key=lambda point: point.size):
            found.setdefault((point.line, point.what), []).append(point)
        return dict(sorted(found.items()))

    @staticmethod
    def dearer(points: list[Point]) -> list[float]:
        """The cost at each point against the first of its line: 1.0 everywhere is flat."""
        first = points[0].process_us + points[0].server_us
        return [(point.process_us + point.server_us) / first if first else 0.0 for point in points]

    def table(self) -> Table:
        table = Table(
            "", "size", "µs of the process", "µs of Redis", "a second", "against the smallest", title="growth"
        )
        for column in table.columns[1:]:
            column.justify = "right"
        for (line, what), points in self.lines.items():
            for point, dearer in zip(points, self.dearer(points), strict=True):
                cells = (f"{point.process_us:,.1f}", f"{point.server_us:,.1f}", f"{point.rate:,.0f}", f"{dearer:.2f}")
                table.add_row(f"{line}: {what}", f"{point.size:,}", *cells)
        return table

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Points:
        kept: dict[str, Any] = json.loads(path.read_text())
        return Points(**{**kept, "points": [Point(**each) for each in kept["points"]]})
