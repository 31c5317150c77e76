"""`python -m benchmarks.work_queues compare --base COMMIT`: two versions of relevo in turns, and their ratios.

A version is a commit, which is built in a folder of its own, or a folder with a checkout and its .venv; `.` is this checkout.
Both serve at the same time, each with a database and a Redis of its own, everything on and every commit on disk.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.figures import shown
from benchmarks.work.choice import names_of
from benchmarks.work.comparison import Comparison, Line
from benchmarks.work.contestants import STORES
from benchmarks.work.stores import Store
from benchmarks.work.tables import console_of, costs
from benchmarks.work.turns import TURNS
from benchmarks.work.version import version_of

_USUAL = ["single", "batch_100", "batch_500", "claim_complete_50", "claim_complete_500"]


def main(words: list[str]) -> None:
    asked = _asked(words)
    console = console_of(asked.json)
    console.print(f"making {asked.base} and {asked.head} ready (a minute for a commit that is new here)", style="dim")
    base, head = version_of(asked.base), version_of(asked.head)
    comparison = Comparison(base, head, asked.only, seconds=asked.seconds)
    stores = [Store(name) for name in asked.databases]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
            bar = progress.add_task("measuring", total=asked.rounds * len(stores))
            for number in range(asked.rounds):
                for store in stores:
                    told = f"round {number + 1}, "
                    comparison.round(store, number, lambda words, t=told: progress.update(bar, description=t + words))
                    progress.advance(bar)
    finally:
        for store in stores:
            store.close()
    lines = comparison.lines()
    if asked.json:
        told = [line._asdict() | {"ratio": line.ratio, "cpu_ratio": line.cpu_ratio} for line in lines]
        print(json.dumps({"base": base.name, "head": head.name, "rounds": asked.rounds, "cases": told}, indent=1))
    else:
        console.print(_table(lines, base.name, head.name))


def _table(lines: list[Line], base: str, head: str) -> Table:
    title = f"{head} against {base}: medians of messages a second, µs of CPU a message (server + database), MB of serve"
    table = Table(title=title, title_justify="left")
    for heading in (
        "store",
        "case",
        "base/s",
        "head/s",
        "ratio",
        "rounds",
        "base CPU",
        "head CPU",
        "ratio",
        "rounds",
        "MB",
    ):
        table.add_column(heading, justify="left" if heading in ("store", "case") else "right")
    for line in lines:
        cpu = [costs(line.cpu_us[side], line.database_cpu_us[side]) for side in (0, 1)]
        table.add_row(
            *(line.store, line.case, shown(line.rates[0]), shown(line.rates[1]), f"{line.ratio:.2f}"),
            _range(line.pairs),
            *(*cpu, f"{line.cpu_ratio:.2f}", _range(line.cpu_pairs), " → ".join(f"{mb:.0f}" for mb in line.memory_mb)),
        )
    return table


def _range(ratios: list[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _asked(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.work_queues compare", description=__doc__)
    parser.add_argument("--base", required=True, help="commit or checkout to compare with")
    parser.add_argument("--head", default=".", help="commit or checkout that is compared; this one unless told")
    parser.add_argument("--only", type=names_of(TURNS), default=_USUAL, help=f"of {','.join(TURNS)}")
    parser.add_argument("--databases", type=names_of(STORES), default=list(STORES), help=f"of {','.join(STORES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each case, for each version, twice a round")
    parser.add_argument("--json", action="store_true", help="figures as JSON on standard output")
    return parser.parse_args(words)


if __name__ == "__main__":
    main(sys.argv[1:])
