"""The report: benchmarks/spark_report.md, written from the JSON file of a run and from the remarks beside it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from benchmarks.figures import Figures, shown
from benchmarks.outcome import in_the_way
from benchmarks.spark.goals import GB, WIDE, lake, outcomes, sizes
from benchmarks.spark.rates import BATCH, BATCH_ROWS, CASES, PROGRAMS, RAW, STREAMING, STREAMING_ROWS

PAGE = Path(__file__).parents[1] / "spark_report.md"
_READING = (BATCH, STREAMING, BATCH_ROWS, STREAMING_ROWS)
_REMARKS = Path(__file__).with_name("remarks.toml")

_INTRODUCTION = """# The data pipeline, beside plain processes

Written by `python -m benchmarks.spark_ingest report` from the numbers in [results](results/spark.json); `make bench-spark`
makes new ones. Ratios within one run count: absolute figures belong to one machine on one day.

Redis, the driver, its JVM and the Python workers share the same cores (`local[2]`), as they do on a small machine.

- **raw reading**: two processes, each with a socket and hiredis, read half of a stream of events and keep nothing.
- **batch ingest**: `spark.read.format("relevo")` with the option `landing`: tasks write Parquet, the driver learns which files.
  **streaming ingest**: `relevo pipeline ingest`, which lands the same way and commits to a Delta table: `availableNow`,
  500k rows a trigger, the start of the query included.
- **batch, by rows** and **streaming, by rows**: the same without `landing`, `.write.parquet(…)` and `.writeStream`: every event
  passes through the JVM as a row. No goal is judged by them; this is what a query pays that looks at each event.
- **bulk add**: `Queue.add_bulk` of 10k jobs at a time, one process. **sink**: `df.write.format("relevo")` of as many rows.
- **ingest of one queue** and **of 1,000 queues**: `relevo pipeline ingest` of a tenth as many events, all in one queue, or
  spread evenly over a thousand.
- **worker's drain**: one `Worker` with its defaults runs and settles as many jobs, which do nothing. **consume**: a
  query with `mode=consume` takes and settles as many, 100k a trigger and 25k a task, the start of the query included.
- **build**: bronze to silver to gold of events spread over two days and four queues, all expectations checked, sums compared
  with what is known of the events; then 1 % new events, and built again.
- **a lake of 1,000 queues**: a week in which each has work in a minute of four. Its report and its forecast are made in a
  process each, whose Python has the memory that is told.
"""


def write(figures: Figures, page: Path = PAGE) -> None:
    parts = [_INTRODUCTION, _run(figures), _goals(figures), _rates(figures), _builds(figures)]
    page.write_text("\n".join(part for part in parts if part))


def _run(figures: Figures) -> str:
    rounds = len(figures.all[BATCH]["rate"]) if BATCH in figures.all else 0
    spreads = [f"{case} {figures.spread(case, 'rate') or 0:.0%}" for case in CASES if case in figures.all]
    told = f"Rounds lie apart, as a share of their median: {', '.join(spreads)}." if spreads else ""
    head = f"{rounds} interleaved rounds after one to get warm, medians; {figures.seconds / 60:.0f} minutes in all, at"
    lines = [f"| {name} | {value} |" for name, value in figures.facts.items()]
    return "\n".join(["## The run", "", f"{head} {figures.measured_at}. {told}", "", "| | |", "|---|---|", *lines, ""])


def _goals(figures: Figures) -> str:
    remarks: dict[str, str] = tomllib.loads(_REMARKS.read_text())
    found = list(outcomes(figures))
    lines = [f"| {goal.title} | {goal.cells} |" for goal in found]
    unmet = [(goal.title, remarks[goal.name]) for goal in found if goal.met is False and goal.name in remarks]
    return "\n".join(
        ["## Goals", "", "| goal | wanted | reached | |", "|---|---|---|---|", *lines, "", *in_the_way(unmet)]
    )


def _rates(figures: Figures) -> str:
    if BATCH not in figures.all:
        return ""
    head = ["", "rows a second", "share of raw reading", *PROGRAMS, "cores busy"]
    lines = ["## Rows a second, and what a row costs", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    raw = figures.median(RAW, "rate") or 1.0
    for case in CASES:
        rate = figures.median(case, "rate") or 0.0
        costs = [figures.median(case, f"{program} µs") for program in PROGRAMS]
        known = [cost for cost in costs if cost is not None]
        cells = ["-" if cost is None else f"{cost:.2f} µs" for cost in costs]
        share = f"{rate / raw:.2f}" if case in _READING else ""
        busy = f"{sum(known) * rate / 1e6:.1f}" if known else "-"
        lines.append(f"| {case} | {shown(rate)} | {share} | {' | '.join(cells)} | {busy} |")
    return "\n".join([*lines, ""])


def _builds(figures: Figures) -> str:
    built = sizes(figures)
    if not built:
        return ""
    lines = [
        "## Builds",
        "",
        "| events | build | an event | refresh | share | most memory |",
        "|---|---|---|---|---|---|",
    ]
    for size in built:
        who = lake(size)
        found = {case: figures.median(who, case) or 0.0 for case in figures.all[who]}
        lines.append(
            f"| {size:,} | {found['build s']:.1f} s | {found['µs an event']:.1f} µs | {found['refresh s']:.1f} s "
            f"| {found['refresh share']:.0%} | {found['peak bytes'] / GB:.2f} GB |"
        )
    wide = [f"{what} {(figures.median(WIDE, what) or 0.0) / GB:.2f} GB" for what in figures.all.get(WIDE, ())]
    told = ["", f"A lake of 1,000 queues, memory of the driver's Python: {', '.join(wide)}."] if wide else []
    return "\n".join([*lines, *told, ""])
