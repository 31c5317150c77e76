"""Gold for a report: read a day at a time, as columns, and never as rows before it is added up."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from relevo.pipeline.lake.instants import part_number
from relevo.pipeline.lake.lake import Lake

Row = dict[str, Any]
_MS = pa.timestamp("ms", tz="UTC")


class GoldDays:
    """The last days of some queues, or of all. A table that is not kept by days counts as one."""

    def __init__(self, lake: Lake, *, queues: Iterable[str], days: int) -> None:
        self._lake = lake
        self._wanted = pa.array(sorted(set(queues)), pa.string())
        throughput = lake.table("gold.throughput")
        there = [part_number(key, "day") for key, partition in throughput.partitions.items() if partition.rows]
        self._first = max(there) - days + 1 if there else 0
        self._several = False
        sources = {
            name for day in self.each("gold.throughput", ["queue"]) for name in pc.unique(day["source"]).to_pylist()
        }
        self._several = len(sources) > 1

    def each(self, table: str, columns: list[str] | None = None, at: str | None = None) -> Iterator[Any]:
        """Each day that has rows. `at` is a column of times, which then is also there as milliseconds, `ms`."""
        for key in sorted(self._lake.table(table).partitions):
            if key != "all" and part_number(key, "day") < self._first:
                continue
            asked = columns if columns is None else sorted({*columns, "source"})
            found = self._lake.arrow(table, [key], asked)
            if found is None:
                continue
            if len(self._wanted):
                found = found.filter(pc.is_in(found["queue"], self._wanted))
            if self._several and "source" in found.column_names:  # one of an earlier version may not have it
                found = _with_full_names(found)
            if at is not None:
                found = found.append_column("ms", pc.cast(pc.cast(found[at], _MS, safe=False), pa.int64()))
            yield found

    def span(self, table: str, at: str) -> tuple[int, int]:
        """The first and the last time; zeros when there is none."""
        ends: list[int] = []
        for day in self.each(table, [at, "queue"], at):
            if day.num_rows:
                ends += pc.min_max(day["ms"]).as_py().values()
        return (min(ends), max(ends)) if ends else (0, 0)

    def rows(self, table: str, at: str | None = None) -> list[Row]:
        """A small table whole."""
        return [row for day in self.each(table, at=at) for row in day.to_pylist()]

    def newest(self, table: str, at: str, most: int) -> list[Row]:
        found = [
            row for day in self.each(table, at=at) for row in day.sort_by([("ms", "descending")])[:most].to_pylist()
        ]
        return sorted(found, key=lambda row: -row["ms"])[:most]

    def last(self, table: str, at: str, *, by: str) -> list[Row]:
        """The newest row of each."""
        newest: dict[Any, Row] = {}
        for day in self.each(table, at=at):
            others = [name for name in day.column_names if name != by]
            ends = day.sort_by("ms").group_by(by, use_threads=False).aggregate([(name, "last") for name in others])
            for row in ends.to_pylist():
                told = {by: row[by], **{name: row[f"{name}_last"] for name in others}}
                if row[by] not in newest or told["ms"] >= newest[row[by]]["ms"]:
                    newest[row[by]] = told
        return list(newest.values())

    def largest(self, table: str, column: str, *, by: str) -> dict[Any, float | None]:
        found: dict[Any, float | None] = {}
        for day in self.each(table, sorted({by, column, "queue"})):
            most = day.group_by(by).aggregate([(column, "max")])
            for key, value in zip(most[by].to_pylist(), most[f"{column}_max"].to_pylist(), strict=True):
                found[key] = max(filter(None, (found.get(key), value)), default=None)
        return found

    def sums(self, table: str, by: Sequence[str], columns: Sequence[str]) -> list[Row]:
        """The days added up."""
        found: dict[tuple[Any, ...], Row] = {}
        for day in self.each(table, [*by, *columns]):
            added = day.group_by(list(by)).aggregate([(name, "sum") for name in columns])
            for row in added.to_pylist():
                key = tuple(row[name] for name in by)
                total = found.setdefault(key, {**dict(zip(by, key, strict=True)), **dict.fromkeys(columns, 0)})
                for name in columns:
                    total[name] += row[f"{name}_sum"] or 0
        return list(found.values())


def _with_full_names(table: Any) -> Any:
    """Queues of one name on several servers are several queues."""
    queue, source = (pc.cast(table[name], pa.string()) for name in ("queue", "source"))
    source = pc.fill_null(source, "")
    full = pc.if_else(pc.equal(source, ""), queue, pc.binary_join_element_wise(queue, source, " on "))
    return table.set_column(table.column_names.index("queue"), "queue", full)


def with_bucket(table: Any, step: int) -> Any:
    """With the column `bucket`: the start, in milliseconds, of the step that `ms` lies in."""
    return table.append_column("bucket", pc.multiply(pc.divide(table["ms"], step), step))
