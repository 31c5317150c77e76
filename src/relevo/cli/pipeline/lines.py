"""What `relevo pipeline` shows people: a build, the state of a lake, the main numbers of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from relevo.cli.shell.output import count, moment, span, table

if TYPE_CHECKING:
    from relevo.pipeline.commands.progress import Built
    from relevo.pipeline.commands.status import TableStatus
    from relevo.pipeline.report.figures import Figures

_STYLES = {"built": "green", "unchanged": "dim", "broken": "bold red", "skipped": "yellow"}
_STATE_STYLES = {"broken": "bold red", "behind": "yellow", "new": "green"}


def built_lines(built: Built) -> Iterator[RenderableType]:
    made = table("table", "", "rows", "partitions", "seconds", numbers=("rows", "partitions", "seconds"))
    for step in built.steps:
        style = _STYLES.get(step.state, "")
        seconds = f"{step.seconds:.1f}" if step.seconds else ""
        parts = count(step.partitions) if step.partitions else ""
        made.add_row(step.table, Text(step.state, style), count(step.rows), parts, seconds)
    yield made
    for step in built.steps:
        for warning in step.warnings:
            yield Text(f"{step.table}: {warning}", "yellow")
    for step in built.broken:
        yield Text(f"{step.table}: {' '.join(step.reason.split())}", "red")
    yield f"built in {built.seconds:.1f} s"


def status_lines(tables: list[TableStatus]) -> Iterator[RenderableType]:
    made = table(
        "table", "rows", "size", "files", "version", "written", "state", numbers=("rows", "size", "files", "version")
    )
    for one in tables:
        if not one.version and not one.broken:
            continue
        state = "broken" if one.broken else "behind" if one.behind else "new"
        written = moment(one.written_at_ms)[:19].replace("T", " ") if one.written_at_ms else "-"
        size = f"{one.bytes / 1e6:.1f} MB"
        made.add_row(
            one.table,
            count(one.rows),
            size,
            count(one.files),
            str(one.version),
            written,
            Text(state, _STATE_STYLES[state]),
        )
    yield made
    for one in tables:
        for reason in one.broken:
            yield Text(f"{one.table}: {' '.join(reason.split())}", "red")
    if any(one.behind for one in tables):
        yield Text("some tables are behind their sources: run `relevo pipeline build`", "yellow")


def figures_lines(figures: Figures) -> Iterator[RenderableType]:
    total = figures.totals
    made = table(
        "queue", "objective met (3 d)", "burn 1 h", "burn 6 h", numbers=("objective met (3 d)", "burn 1 h", "burn 6 h")
    )
    for row in figures.slo:
        met = "-" if row["attained_3d"] is None else f"{row['attained_3d'] * 100:.2f} %"
        made.add_row(
            row["queue"], met, *("-" if row[name] is None else f"{row[name]:.2f}" for name in ("burn_1h", "burn_6h"))
        )
    yield (
        f"{count(int(total['arrived']))} arrived, {count(int(total['done']))} done, {count(int(total['failed']))} runs failed, "
        f"{count(int(total['dead']))} dead, backlog {count(int(total['backlog']))}"
    )
    if figures.slo:
        yield made
    for row in figures.day_latency:
        if row["measure"] == "total":
            yield (
                f"{row['queue']} {row['name']}: p50 {span(round(row['p50_ms']))}, p99 {span(round(row['p99_ms']))}".replace(
                    " :", ":"
                )
            )
    for row in figures.failures[:3]:
        yield Text(f"{count(row['count'])} x {row['reason']}  ({row['queue']} {row['name']})", "yellow")
