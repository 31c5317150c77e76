"""gold.expectations: what every renewal of a table found of its expectations, for as long as the table is kept."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from relevo.pipeline.lake.expectations import Finding
from relevo.pipeline.lake.instants import DAY_MS
from relevo.pipeline.lake.lake import Lake

TABLE = "gold.expectations"


@dataclass(frozen=True)
class Checked:
    """The findings of one renewal. `version` is what the table has been since: the new version, or the one that stayed."""

    table: str
    version: int
    findings: tuple[Finding, ...]
    at_ms: int


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def record(lake: Lake, checked: Iterable[Checked]) -> int:
    """Adds a row for each expectation; returns how many. Builds that run at once all add theirs."""
    days: dict[int, list[dict[str, Any]]] = {}
    for one in checked:
        rows = days.setdefault(one.at_ms // DAY_MS, [])
        rows += (
            {
                "checked_at": datetime.fromtimestamp(one.at_ms / 1000, UTC),
                "table_name": one.table,
                "version": one.version,
                "expectation": finding.expectation,
                "severity": finding.severity,
                "outcome": finding.outcome,
                "checked_rows": finding.rows,
                "broken_rows": finding.broken,
                "samples": f"[{', '.join(finding.samples)}]",
            }
            for finding in one.findings
        )
    schema = lake.spec(TABLE).arrow_schema()
    parts = {day: pa.Table.from_pylist(rows, schema) for day, rows in days.items() if rows}
    if parts:
        lake.commit(lake.stage_arrow(TABLE, parts), instead=False)
    return sum(len(rows) for rows in days.values())
