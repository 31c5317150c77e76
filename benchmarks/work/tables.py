"""The figures of a run as tables for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figures, shown
from benchmarks.outcome import Outcome, figure
from benchmarks.work.cases import old
from benchmarks.work.contestants import CEILING, RIVALS, STORES
from benchmarks.work.goals import MEMORY_MB
from benchmarks.work.notebook import COSTS

WIDE = 170


def console_of(json: bool) -> Console:
    """For people: on standard error when standard output is for programs, and wide enough where nobody looks."""
    console = Console(stderr=json)
    return console if console.is_terminal else Console(stderr=json, width=WIDE)


def costs(own: float | None, database: float | None) -> str:
    """CPU of the server and of its database; SQLite has none of its own."""
    return shown(own) if not database else f"{shown(own)} + {shown(database)}"


def show(console: Console, figures: Figures, found: list[Outcome]) -> None:
    people = [who for who in (*STORES, *map(old, STORES), *RIVALS, CEILING) if who in figures.all]
    console.print(_rates(figures, people))
    console.print(_costs(figures, [who for who in people if who not in (*RIVALS, CEILING)]))
    console.print(_goals(found))
    for failure in figures.failures:
        console.print(failure, style="red", markup=False)


def _rates(figures: Figures, people: list[str]) -> Table:
    table = Table(title="medians: messages a second, or milliseconds (ms) and 'list', in ms", title_justify="left")
    table.add_column("case")
    for who in people:
        table.add_column(f"relevo, {who}" if who.split(",")[0] in STORES else who, justify="right")
    cases = dict.fromkeys(case for who in people for case in figures.all[who] if not case.endswith(COSTS))
    for case in cases:
        table.add_row(case, *(shown(figures.median(who, case)) for who in people))
    return table


def _costs(figures: Figures, people: list[str]) -> Table:
    title = f"CPU of a message in µs: server + database; memory of serve in MB, at most {MEMORY_MB}"
    table = Table(title=title, title_justify="left")
    table.add_column("case")
    for who in people:
        table.add_column(who, justify="right")
    cases = dict.fromkeys(
        case.removesuffix("_memory_mb") for who in people for case in figures.all[who] if case.endswith("_memory_mb")
    )
    for case in cases:
        cells: list[str] = []
        for who in people:
            memory = figures.median(who, f"{case}_memory_mb")
            cpu = costs(*(figures.median(who, f"{case}_{part}") for part in ("cpu_us", "database_cpu_us")))
            colour = "yellow" if memory is not None and memory > MEMORY_MB else "green"
            cells.append("-" if memory is None else f"{cpu}, [{colour}]{memory:.0f} MB[/]")
        table.add_row(case, *cells)
    return table


def _goals(found: list[Outcome]) -> Table:
    table = Table(title="goals, as ratios in this run unless they say otherwise", title_justify="left")
    for column in ("store", "goal", "wanted", "reached", ""):
        table.add_column(column, justify="right" if column in ("wanted", "reached") else "left")
    for goal in found:
        verdict = {True: "[green]met[/]", False: "[yellow]not met[/]", None: ""}[goal.met]
        table.add_row(
            *(goal.store, goal.title, goal.bound),
            *("-" if goal.reached is None else figure(goal.reached), verdict),
        )
    return table
