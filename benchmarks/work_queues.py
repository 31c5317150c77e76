"""`python -m benchmarks.work_queues` (`make bench-work`): work queues over HTTP on three stores with real fsync, beside the
direct API of procrastinate, pgqueuer and oban on PostgreSQL, in interleaved rounds; then the growth of one queue to a million.

Everything is on, as a user has it: keys, idempotency, outbox, audit, order index, agents. Run it on a quiet machine.
`python -m benchmarks.work_queues report` writes benchmarks/work_report.md anew from the figures of the last run.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figures, kept
from benchmarks.work import report
from benchmarks.work.contestants import CEILING, RIVALS, STORES
from benchmarks.work.goals import outcomes
from benchmarks.work.rivals import PACKAGES, Rival, environment
from benchmarks.work.rounds import GROWN_TO, growth, one_round
from benchmarks.work.stores import DurablePostgres, Store
from tests.servers.server import EmbeddedValkey

RESULTS = Path(__file__).parent / "results" / "work_queues.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.work_queues", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "report"), default="run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of messages of each case")
    parser.add_argument("--store", action="append", choices=STORES, default=[], help="only this one; may be repeated")
    parser.add_argument("--rival", action="append", choices=(*RIVALS, CEILING), default=[], help="only this one")
    parser.add_argument("--no-stores", action="store_true", help="only rivals")
    parser.add_argument("--no-rivals", action="store_true", help="only relevo")
    parser.add_argument("--growth", type=int, default=GROWN_TO[-1], help="the longest queue; 0 leaves growth out")
    parser.add_argument("--json", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    console = Console()
    measured = chosen.what == "run"
    figures = kept(lambda: _run(console, chosen), chosen.json) if measured else Figures.load(chosen.json)
    console.print(f"all figures: {chosen.json}")
    _tell(console, figures)
    if chosen.json == RESULTS:
        report.write(figures)
        console.print(f"the report: {report.PAGE}")


def _run(console: Console, chosen: argparse.Namespace) -> Figures:
    figures = Figures()
    wanted = () if chosen.no_rivals else chosen.rival or (*RIVALS, CEILING)
    for name in wanted:
        environment(name)  # made before the clock of anybody runs
    stores = [Store(name) for name in (() if chosen.no_stores else chosen.store or STORES)]
    rival_server = DurablePostgres() if wanted else None
    try:
        rivals = [Rival(name, rival_server) for name in wanted] if rival_server is not None else []
        figures.facts = _facts(stores)
        with EmbeddedValkey() as redis:
            for number in range(chosen.rounds):
                for store in stores:
                    console.print(f"round {number + 1}: relevo on {store.name}")
                    _try(figures, store.name, lambda s=store: one_round(figures, s, redis.url, chosen.scale))
                for rival in rivals:
                    console.print(f"round {number + 1}: {rival.name}")
                    _try(figures, rival.name, lambda r=rival: r.measure(figures, chosen.scale))
            for store in stores if chosen.growth else ():
                console.print(f"growth: relevo on {store.name}")
                sizes = (*(size for size in GROWN_TO if size < chosen.growth), chosen.growth)
                _try(figures, store.name, lambda s=store, n=sizes: growth(figures, s, redis.url, n))
    finally:
        for store in stores:
            store.close()
        if rival_server is not None:
            rival_server.close()
    return figures


def _facts(stores: list[Store]) -> dict[str, str]:
    facts = {store.name: store.version() for store in stores}
    return facts | {"rivals": ", ".join(PACKAGES[name][0].replace("==", " ") for name in RIVALS)}


def _try(figures: Figures, who: str, work: Callable[[], None]) -> None:
    """One contestant that fails must not take the figures of the others with it."""
    try:
        work()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        figures.failures.append(f"{who}: {str(error)[-500:]}")


def _tell(console: Console, figures: Figures) -> None:
    people = [who for who in (*STORES, *RIVALS, CEILING) if who in figures.all]
    table = Table(title="medians: messages a second, milliseconds, CPU microseconds")
    table.add_column("case")
    for who in people:
        table.add_column(f"relevo, {who}" if who in STORES else who, justify="right")
    for case in dict.fromkeys(case for who in people for case in figures.all[who]):
        table.add_row(case, *(report.shown(figures.median(who, case)) for who in people))
    console.print(table)
    told = Table(title="goals, as ratios in this run")
    for column in ("store", "goal", "wanted", "reached", ""):
        told.add_column(column, justify="right" if column in ("wanted", "reached") else "left")
    for goal in outcomes(figures, [who for who in people if who in STORES]):
        verdict = {True: "[green]met[/]", False: "[yellow]not met[/]", None: ""}[goal.met]
        reached = "-" if goal.reached is None else f"{goal.reached:.2f}"
        told.add_row(goal.store, goal.title, f"{goal.wanted:g}", reached, verdict)
    console.print(told)
    for failure in figures.failures:
        console.print(failure, style="red", markup=False)


if __name__ == "__main__":
    main()
