"""`python -m benchmarks.work_queues` (`make bench-work`): work queues over HTTP on three stores with real fsync, beside the
direct API of procrastinate, pgqueuer and oban on PostgreSQL, in interleaved rounds; then what takes millions of messages.

Everything is on, as a user has it: keys, idempotency, outbox, audit, order index, agents. Run it on a quiet machine.

    python -m benchmarks.work_queues --only claim_complete --databases sqlite,postgresql --rounds 1
    python -m benchmarks.work_queues --report                 # keeps the figures and writes benchmarks/work_report.md
    python -m benchmarks.work_queues report                   # writes it anew from the figures of the last such run
    python -m benchmarks.work_queues compare --base COMMIT    # two versions in turns, in a few minutes
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.figures import Figures, kept
from benchmarks.outcome import Outcome
from benchmarks.work import compare, report, tables
from benchmarks.work.cases import CASES
from benchmarks.work.choice import names_of
from benchmarks.work.contestants import CEILING, RIVALS, STORES
from benchmarks.work.goals import outcomes
from benchmarks.work.rivals import PACKAGES, Rival, environment
from benchmarks.work.rounds import Plan, Rounds
from benchmarks.work.stores import DurablePostgres, Store


def main() -> None:
    if sys.argv[1:2] == ["compare"]:
        compare.main(sys.argv[2:])
        return
    asked = _asked()
    console = tables.console_of(asked.json)
    if asked.what == "report":
        figures = Figures.load(report.RESULTS)
    elif asked.report:
        whole = set(asked.only) == set(CASES) and set(asked.databases) == set(STORES)
        older = Figures() if whole or not report.RESULTS.exists() else Figures.load(report.RESULTS)
        figures = kept(lambda: _run(console, asked).over(older), report.RESULTS)
    else:
        figures = _run(console, asked)
    if asked.report or asked.what == "report":
        report.write(figures)
        console.print(f"the report: {report.PAGE}; its figures: {report.RESULTS}")
    found = list(outcomes(figures, [name for name in STORES if name in figures.all], asked.only))
    if asked.json:
        print(json.dumps(_as_json(figures, found), indent=1))
    else:
        tables.show(console, figures, found)


def _run(console: Console, asked: argparse.Namespace) -> Figures:
    figures = Figures()
    plan = Plan(asked.only, asked.rounds, asked.seconds, asked.scale)
    wanted: list[str] = asked.rivals if any(CASES[name].rivals for name in plan.cases) else []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    stores: list[Store] = []
    rival_server: DurablePostgres | None = None
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("starting databases and making rivals ready", total=None)
            for name in wanted:
                environment(name)  # made before the clock of anybody runs
            stores += [Store(name) for name in asked.databases]
            rival_server = DurablePostgres() if wanted else None
            rivals = [Rival(name, rival_server) for name in wanted] if rival_server is not None else []
            figures.facts = _facts(stores)
            rounds = Rounds(figures, stores, rivals, plan)
            steps = rounds.steps()
            progress.update(bar, total=len(steps))
            for step in steps:
                rounds.take(step, lambda words: progress.update(bar, description=words))
                progress.advance(bar)
    finally:
        for store in stores:
            store.close()
        if rival_server is not None:
            rival_server.close()
    return figures


def _facts(stores: list[Store]) -> dict[str, str]:
    facts = {store.name: store.version() for store in stores}
    return facts | {"rivals": ", ".join(PACKAGES[name][0].replace("==", " ") for name in RIVALS)}


def _as_json(figures: Figures, found: list[Outcome]) -> dict[str, object]:
    goals = [
        {
            "database": goal.store,
            "name": goal.name,
            "title": goal.title,
            "wanted": goal.wanted,
            "reached": goal.reached,
            "less_is_better": goal.less_is_better,
            "met": goal.met,
        }
        for goal in found
    ]
    medians = {who: {case: figures.median(who, case) for case in cases} for who, cases in figures.all.items()}
    return {"goals": goals, "medians": medians, "rounds": figures.all, "failures": figures.failures}


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.work_queues", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("run", "report"), default="run")
    told = "\n".join(_told_cases())
    parser.epilog = f"cases:\n{told}"
    parser.add_argument("--only", type=names_of(CASES), default=list(CASES), help="cases, with commas between them")
    parser.add_argument("--databases", type=names_of(STORES), default=list(STORES), help=f"of {','.join(STORES)}")
    everyone = (*RIVALS, CEILING)
    parser.add_argument("--rivals", type=names_of(everyone), default=list(everyone), help="'' for none of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="that a load of a round lasts")
    parser.add_argument("--scale", type=float, default=1.0, help="times the millions of messages, to try a case out")
    parser.add_argument(
        "--report",
        action="store_true",
        help="keep the figures, and write the page from them and from older ones of what was not measured",
    )
    parser.add_argument("--json", action="store_true", help="figures and goals as JSON on standard output")
    return parser.parse_args()


def _told_cases() -> Iterator[str]:
    for name, case in CASES.items():
        yield f"  {name:<16} {case.title}"


if __name__ == "__main__":
    main()
