"""The report: benchmarks/report.md and its drawings, written from the JSON files of the runs and from nothing else."""

from __future__ import annotations

from pathlib import Path

from benchmarks import chart
from benchmarks.case import CASES
from benchmarks.goals import outcomes
from benchmarks.points import Points
from benchmarks.reasons import FLAT, not_flat, standing_in_the_way
from benchmarks.roster import BASE
from benchmarks.tally import Tally

HERE = Path(__file__).parent

INTRODUCTION = """# How fast, and next to whom

Written by `python -m benchmarks report` from the numbers in [results](results); `make bench` makes new ones. Ratios within
one run count: absolute figures belong to one machine on one day.

Everyone is driven by its public API from one process, in a virtual environment of its own ([rivals.toml](rivals.toml) has
every version), with the payload `{"i": n}`, a handler that does nothing, and 100 jobs at a time or what comes nearest:
libraries of threads have 8, and 100 where handlers wait; `rq` runs one. Where a library can use uvloop or hiredis it has
them; relevo and chasquimq run on plain asyncio unless "tuned" says otherwise, and relevo with all its defaults (leases,
owner-checked settles, metrics).

The clock of a drain starts with the first handler, so that nobody pays for starting up, and stops with the last. Relevo and
chasquimq are timed harder: from the start of the worker until Redis has let the last job go. A dash means that the library
cannot do it, or only with another program beside it. BullMQ always writes events, so its drain is the one with events. The
server itself is a pipelining client that packs its commands beforehand and does no work with the answers.
"""


def write(results: Path, growth: Path, into: Path = HERE) -> Path:
    """Writes report.md and its drawings into a folder; a part without numbers is left out."""
    parts = [INTRODUCTION]
    if results.exists():
        tally = Tally.load(results)
        (into / "rivals.svg").write_text(chart.bars(tally))
        parts += [run_section(tally), goals_section(tally), numbers_section(tally), server_section(tally)]
        parts += failures_section(tally.failures)
    if growth.exists():
        points = Points.load(growth)
        (into / "growth.svg").write_text(chart.growth(points))
        parts += [growth_section(points), *failures_section(points.failures)]
    page = into / "report.md"
    page.write_text("\n".join(parts))
    return page


def run_section(tally: Tally) -> str:
    facts = [f"| {name} | {value} |" for name, value in tally.machine.items()]
    return "\n".join(
        [
            "## The run",
            "",
            f"{tally.rounds} interleaved rounds, medians. Each run has as many jobs as its contestant does in",
            f"{tally.seconds:g} s. Measured at {tally.measured_at}.",
            "",
            "| | |",
            "|---|---|",
            *facts,
            "",
            "![bars for each contestant](rivals.svg)",
            "",
        ]
    )


def goals_section(tally: Tally) -> str:
    rows: list[str] = []
    for goal, reached, met in outcomes(tally):
        shown = "not measured" if reached is None else f"{reached:.2f}"
        verdict = {True: "met", False: "**not met**", None: ""}[met]
        rows.append(f"| {goal.title} | {goal.rival} | {goal.times:g} | {shown} | {verdict} |")
    head = ["## Goals", "", "| goal, as a ratio in this run | against | wanted | reached | |", "|---|---|---|---|---|"]
    unmet = list(standing_in_the_way(tally))
    why = ["", "What stands in the way of those that are not met:", "", *unmet] if unmet else []
    return "\n".join([*head, *rows, *why, ""])


def numbers_section(tally: Tally) -> str:
    """One line a contestant; as many tables as there are kinds of cases."""
    parts = [f"## Numbers\n\nMedians; in brackets how many times better than {BASE} like for like.\n"]
    for unit in dict.fromkeys(case.unit for case in CASES):
        cases = [case for case in CASES if case.unit == unit and not case.name.startswith("raw_")]
        lines = [f"| {unit} | " + " | ".join(case.title for case in cases) + " |", "|---" * (len(cases) + 1) + "|"]
        for who in tally.contestants:
            cells = [tally.cell(who, case.name, BASE) for case in cases]
            if any(cell != "-" for cell in cells):
                lines.append(f"| {who} | " + " | ".join(cells) + " |")
        parts.append("\n".join([*lines, ""]))
    spread = [tally.spread("relevo", case.name) for case in CASES]
    widest = max((each for each in spread if each is not None), default=None)
    if widest is not None:
        parts.append(f"The rounds of relevo's most restless case lie {widest:.0%} of their median apart.\n")
    return "\n".join(parts)


def server_section(tally: Tally) -> str:
    rows = [
        f"| {case.title} | {case.shown(value)} |"
        for case in CASES
        if (value := tally.median("the server itself", case.name)) is not None
    ]
    return "\n".join(["## The server itself", "", "| commands | a second |", "|---|---|", *rows, ""]) if rows else ""


def growth_section(points: Points) -> str:
    parts = [
        "## Growth",
        "",
        "What one job (or fire, or idle second) costs in CPU microseconds as one thing grows; the last column is process and",
        f"Redis together against the smallest size. {points.machine.get('CPU', '')};",
        f"{points.machine.get('redis86', '')}.",
        "",
        "![cost as things grow](growth.svg)",
        "",
        "Larger payloads are in the table only: their bytes cost what bytes cost.",
        "",
        "| what grows | size | measured | process, µs | Redis, µs | a second | against the smallest |",
        "|---|---|---|---|---|---|---|",
    ]
    for (line, what), each in points.lines.items():
        for point, dearer in zip(each, Points.dearer(each), strict=True):
            numbers = f"{point.process_us:,.1f} | {point.server_us:,.1f} | {point.rate:,.0f} | {dearer:.2f}"
            parts.append(f"| {line} | {point.size:,} | {what} | {numbers} |")
    steep = list(not_flat(points))
    parts += (
        ["", f"What is more than {FLAT:g} times as dear as at its smallest size, and why:", "", *steep] if steep else []
    )
    return "\n".join([*parts, ""])


def failures_section(failures: list[str]) -> list[str]:
    # The first line only: the rest of a traceback has paths of the machine in it.
    return (
        ["\n".join(["## Runs that failed", "", *(f"- {each.splitlines()[0]}" for each in failures), ""])]
        if failures
        else []
    )
