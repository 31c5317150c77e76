"""The report: benchmarks/work_report.md, written from the JSON file of a run and from the remarks beside it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from benchmarks.figures import Figures, shown
from benchmarks.outcome import in_the_way
from benchmarks.work.cases import old
from benchmarks.work.contestants import (
    CEILING,
    DRAINED_IN,
    PUBLISHED_1KB_IN,
    PUBLISHED_IN,
    RIVALS,
    SINGLE,
    STORES,
    best_rival,
)
from benchmarks.work.goals import outcomes
from benchmarks.work.notebook import COSTS
from benchmarks.work.tables import costs
from benchmarks.work.turns import TURNS

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
- **batch**: publishes of 100 or 500 messages from 4 clients; for the goal each side's better size counts. With **random keys**
  the idempotency keys are UUIDs, which rivals do not have: they are compared with the same figures. With **1 kB** the bodies
  of both sides have that size.
- **claim + complete**: claims of 50 or 500 that are completed in one call, by 4 clients; of a rival its worker with a handler
  that does nothing, in batches of 50 or 500 where it has any. For the goal each side's better size counts.
- **settle each**: claims of 10 or of 1, each message completed with a call of its own, by 50 clients. **settle part**: claims
  of 50, completed in two calls. Compared with the relevo of an earlier commit, in the same rounds.
- **priorities, labels, delays, retries**: batches of 100 of all tiers and claims of 50 by urgency; batches of 100 with two
  labels, and claims by one of them; delayed batches of 500, and how fast messages with one moment to wait for can be claimed
  after it; claims of 50 that fail and are tried again at once.
- **wake**: from the sending of a publish until a claim that waits is answered.
- **claims at n**: claims of 50, completed, while the queue is kept at n pending messages; in turns on two databases.
- **beside 5M**: the same and batches of 500 beside five million messages that finished within the hour, and beside none.
- **two processes**: two `serve` with a queue each, against one with both, by the same clients.
- **lists**: each list of the API and each of its filters, twenty times, at a million live and five million archived messages.

The load is a process of its own (plain sockets, no HTTP library); on a machine of two cores it takes its share of what it
measures, and so does the database: four processes share two cores here, two in a rival's case. `CPU` is what the server's own
processes use for a message, agents included. Memory is the most that the largest process of `serve` had.
"""


def write(figures: Figures, page: Path = PAGE) -> None:
    """Writes the report; a part without figures is left out."""
    stores = [store for store in STORES if store in figures.all]
    parts = [_INTRODUCTION, _run(figures), _goals(figures, stores), _rates(figures, stores), _costs(figures, stores)]
    parts += [_others(figures, stores), _lists(figures, stores)]
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
    told = {"single": SINGLE, "batch": PUBLISHED_IN, "batch of 1 kB": PUBLISHED_1KB_IN, "claim + complete": DRAINED_IN}
    for case, cases in told.items():
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
    titles = ("single", "batch 100", "batch 500", "1 kB, 100", "1 kB, 500", "claim + complete 50", "500")
    cases = (*SINGLE, *PUBLISHED_IN, *PUBLISHED_1KB_IN, *DRAINED_IN)
    lines = ["## Messages a second", "", f"| | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
    for who in (*stores, *RIVALS, CEILING):
        if who in figures.all:
            cells = [shown(figures.median(who, case)) for case in cases]
            name = f"relevo, {who}" if who in stores else who
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _costs(figures: Figures, stores: list[str]) -> str:
    people = [who for store in stores for who in (store, old(store)) if who in figures.all]
    title = "## Messages a second, CPU of a message (the server + its database / the load, µs), memory of `serve` (MB)"
    lines = [title, "", f"| | {' | '.join(people)} |", "|---" * (len(people) + 1) + "|"]
    for turn, about in TURNS.items():
        cells: list[str] = []
        for who in people:
            cpu, database, load, memory = (figures.median(who, f"{turn}_{cost}") for cost in COSTS)
            cpus = f"{costs(cpu, database)} / {shown(load)}"
            cells.append("-" if memory is None else f"{shown(figures.median(who, turn))}; {cpus}; {memory:.0f}")
        if set(cells) != {"-"}:
            lines.append(f"| {about.title} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _others(figures: Figures, stores: list[str]) -> str:
    """What was built up once for a case: rates, and milliseconds where it says so."""
    lines = ["## On servers of their own", "", f"| | {' | '.join(stores)} |", "|---" * (len(stores) + 1) + "|"]
    cases = dict.fromkeys(case for who in stores for case in figures.all[who])
    for case in cases:
        if case not in TURNS and not case.startswith("list ") and not case.endswith(COSTS):
            cells = [shown(figures.median(who, case)) for who in stores]
            lines.append(f"| {case.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""]) if len(lines) > 4 else ""


def _lists(figures: Figures, stores: list[str]) -> str:
    names = dict.fromkeys(case for who in stores for case in figures.all[who] if case.startswith("list "))
    if not names:
        return ""
    lines = ["## Lists at 1M live and 5M archived, p95, ms", "", f"| | {' | '.join(stores)} |"]
    lines.append("|---" * (len(stores) + 1) + "|")
    for name in names:
        cells = [shown(figures.median(who, name)) for who in stores]
        lines.append(f"| {name.removeprefix('list ')} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
