"""The report: benchmarks/work_report.md, written from the JSON file of a run and from the remarks beside it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from benchmarks.figures import Figures, shown
from benchmarks.outcome import in_the_way
from benchmarks.work.contestants import CEILING, DRAINED_IN, PUBLISHED_IN, RIVALS, STORES, best_rival
from benchmarks.work.goals import outcomes

PAGE = Path(__file__).parents[1] / "work_report.md"
RESULTS = Path(__file__).parents[1] / "results" / "work_queues.json"
_REMARKS = Path(__file__).with_name("remarks.toml")

_INTRODUCTION = """# Work queues, and what a user would pick instead

Written by `python -m benchmarks.work_queues report` from the figures in [results](results/work_queues.json); `make bench-work`
makes new ones. Ratios within one run count: absolute figures belong to one machine on one day.

Relevo is measured over HTTP as a user runs it: `relevo serve` with keys, idempotency, outbox, audit, tallies, order index and
agents, on SQLite (WAL, synchronous FULL), PostgreSQL and MariaDB, every commit flushed to disk. The rivals are driven without
HTTP, by their own Python API at its best (pooled connections, uvloop, their batch calls, the better of 1 and 4 tasks), on
PostgreSQL with the same settings. Plain SQL is a table with one index and nothing else: the ceiling, not a rival.

- **single**: 50 clients, each with one publish in flight; of a rival 50 tasks.
- **batch**: publishes of 100 or 500 messages from 4 clients; for the goal each side's better size counts.
- **drain**: claims of 50 or 500 that are completed in one call, by 4 clients; of a rival its worker with a handler that does
  nothing, in batches of 50 or 500 where it has any. For the goal each side's better size counts.
- **wake**: from the sending of a publish until a claim that waits is answered.
- **claims at n**: claims of 50, completed, while the queue is kept at n pending messages.

The load is a process of its own (plain sockets, no HTTP library); on a machine of two cores it takes its share of what it
measures, and so does the database: four processes share two cores here, two in a rival's case. `CPU` is what the server's own
processes use for a message, agents included.
"""


def write(figures: Figures, page: Path = PAGE) -> None:
    """Writes the report; a part without figures is left out."""
    stores = [store for store in STORES if store in figures.all]
    parts = [_INTRODUCTION, _run(figures), _goals(figures, stores), _rates(figures, stores), _costs(figures, stores)]
    parts += [_growth(figures, stores)]
    if figures.failures:
        # The first line only: the rest of a traceback has paths of the machine in it.
        parts.append(
            "\n".join(["## Runs that failed", "", *(f"- {each.splitlines()[0]}" for each in figures.failures), ""])
        )
    page.write_text("\n".join(part for part in parts if part))


def _run(figures: Figures) -> str:
    rounds = max(
        (len(values) for case in figures.all.values() for name, values in case.items() if name == "single"), default=0
    )
    lines = [f"| {name} | {value} |" for name, value in figures.facts.items()]
    widest = max(
        (
            (figures.spread(who, case) or 0, who, case)
            for who in figures.all
            for case in ("single", *PUBLISHED_IN, *DRAINED_IN)
        ),
        default=(0.0, "", ""),
    )
    told = f"The rounds of the most restless case ({widest[1]}, {widest[2]}) lie {widest[0]:.0%} of their median apart."
    head = f"{rounds} interleaved rounds, medians; {figures.seconds / 60:.0f} minutes in all, at {figures.measured_at}. {told}"
    return "\n".join(["## The run", "", head, "", "| | |", "|---|---|", *lines, ""])


def _goals(figures: Figures, stores: list[str]) -> str:
    remarks: dict[str, dict[str, str]] = tomllib.loads(_REMARKS.read_text())
    lines = ["## Goals", ""]
    for case, cases in (("single", ("single",)), ("batch", PUBLISHED_IN), ("drain", DRAINED_IN)):
        rival = best_rival(figures, cases)
        if rival is not None:
            lines.append(f"- best rival, {case}: {rival[0]}, {shown(rival[1])} a second")
    lines += ["", "| store | goal | wanted | reached | |", "|---|---|---|---|---|"]
    found = list(outcomes(figures, stores))
    lines += [f"| {goal.store} | {goal.title} | {goal.cells} |" for goal in found]
    unmet = [
        (f"{goal.store}, {goal.title}", remark)
        for goal in found
        if goal.met is False and (remark := remarks.get(goal.name, {}).get(goal.store))
    ]
    return "\n".join([*lines, "", *in_the_way(unmet)])


def _rates(figures: Figures, stores: list[str]) -> str:
    cases = ("single", "single_two_processes", *PUBLISHED_IN, *DRAINED_IN)
    titles = (
        "single",
        "single, two processes",
        "batch 100",
        "batch 500",
        "drain 50",
        "drain 500",
        "wake p50 / p99, ms",
    )
    lines = ["## Messages a second", "", f"| | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for who in (*stores, *RIVALS, CEILING):
        if who in figures.all:
            cells = [shown(figures.median(who, case)) for case in cases]
            waits = [shown(figures.median(who, case)) for case in ("wake_p50_ms", "wake_p99_ms")]
            name = f"relevo, {who}" if who in stores else who
            lines.append(f"| {name} | {' | '.join(cells)} | {' / '.join(waits) if waits != ['-', '-'] else '-'} |")
    return "\n".join([*lines, ""])


def _costs(figures: Figures, stores: list[str]) -> str:
    cases = ("single", *PUBLISHED_IN, *DRAINED_IN)
    lines = [
        "## CPU of a message, µs: the server / the load",
        "",
        f"| | {' | '.join(cases)} |",
        "|---" * (len(cases) + 1) + "|",
    ]
    for who in stores:
        cells = [
            f"{shown(figures.median(who, f'{case}_cpu_us'))} / {shown(figures.median(who, f'{case}_load_cpu_us'))}"
            for case in cases
        ]
        lines.append(f"| relevo, {who} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _growth(figures: Figures, stores: list[str]) -> str:
    sizes = sorted(
        {int(case.rpartition("_")[2]) for who in stores for case in figures.all[who] if case.startswith("claims_at_")}
    )
    if not sizes:
        return ""
    lines = ["## Growth: messages claimed and completed a second", "", f"| pending | {' | '.join(stores)} |"]
    lines.append("|---" * (len(stores) + 1) + "|")
    for size in sizes:
        cells: list[str] = []
        for who in stores:
            rate, first = figures.median(who, f"claims_at_{size}"), figures.median(who, f"claims_at_{sizes[0]}")
            cells.append("-" if rate is None or first is None else f"{shown(rate)} ({rate / first:.2f})")
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
