"""`python -m benchmarks.spark_ingest` (`make bench-spark`): what Spark reads, writes and builds, beside plain processes.

One run on one machine, in interleaved rounds, so that the ratios mean something; a quarter of an hour on a quiet one. The
goals are those of the data pipeline. `python -m benchmarks.spark_ingest report` writes benchmarks/spark_report.md anew from
the last run. A run may be cut into pieces: `run --lake --no-wide` is the rates, `run --add --rounds 0 --no-wide` the lakes, and
`run --add --rounds 0 --lake` the lake of a thousand queues; `run --add --lake --no-wide --only "worker's drain" consume`
measures a rate anew together with what it is a share of.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figures
from benchmarks.spark import report
from benchmarks.spark.goals import WIDE, lake, outcomes
from benchmarks.spark.rates import CASES, Rates
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.session import session
from tests.servers.child import Child
from tests.servers.server import Redis86
from tests.spark.lake import wide
from tests.spark.lake.growth import grown

RESULTS = Path(__file__).parent / "results" / "spark.json"


def main() -> None:
    chosen = _arguments()
    console = Console()
    measured = chosen.what == "run"
    figures = _kept(console, chosen) if measured else Figures.load(chosen.json)
    console.print(f"all figures: {chosen.json}")
    _tell(console, figures)
    if chosen.json == RESULTS:
        report.write(figures)
        console.print(f"the report: {report.PAGE}")


def _kept(console: Console, chosen: argparse.Namespace) -> Figures:
    """Measures, and keeps what came of it with the time it took."""
    figures = Figures.load(chosen.json) if chosen.add else Figures()
    before, began = figures.seconds, time.monotonic()
    _run(console, chosen, figures)
    figures.seconds = before + time.monotonic() - began
    figures.save(chosen.json)
    return Figures.load(chosen.json)


def _run(console: Console, chosen: argparse.Namespace, figures: Figures) -> None:
    folder = Path(tempfile.mkdtemp(prefix="relevo-bench-"))
    try:
        if chosen.rounds or chosen.lake:
            _in_a_session(console, chosen, figures, folder)
        if chosen.wide:
            wide.fill(Lake(folder / "lake"))
            for what in ("report", "forecast"):
                told = Child.run(sys.executable, "-m", "tests.spark.lake.wide", what, folder, timeout=600)
                if told.code:
                    raise SystemExit(told.err)
                peak = json.loads(told.out.splitlines()[-1])["bytes"]
                console.print(f"{what} of {wide.QUEUES:,} queues: {peak / 1e9:.2f} GB in the driver's Python")
                figures.all[WIDE][what] = [peak]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_a_session(console: Console, chosen: argparse.Namespace, figures: Figures, folder: Path) -> None:
    spark: Any = session("local[2]", log=folder / "spark.log")
    try:
        figures.facts |= {"Spark": spark.version}
        if chosen.rounds:
            figures.facts |= {"events": f"{chosen.events:,}", "jobs of bulk add and sink": f"{chosen.jobs:,}"}
            with Redis86(settings={"save": "", "maxmemory": "0"}) as server:
                for case in chosen.only:
                    figures.all.pop(case, None)
                rates = Rates(server.url, spark, folder, events=chosen.events, jobs=chosen.jobs)
                try:
                    rates.run(figures, chosen.rounds, console.print, chosen.only)
                finally:
                    rates.close()
        figures.save(chosen.json)  # what was measured stays, whatever becomes of the rest
        if chosen.lake:
            grown(spark, folder / "warm", 100_000)
        for size in chosen.lake:
            found = grown(spark, folder / "lake", size)
            shutil.rmtree(folder / "lake")
            console.print(f"a lake of {found.events:,} events: {found}")
            figures.all.pop(lake(size), None)
            for case, value in (
                *(("build s", found.build_s), ("µs an event", found.us_an_event), ("refresh s", found.refresh_s)),
                *(("refresh share", found.refresh_share), ("peak bytes", found.peak_bytes)),
            ):
                figures.note(lake(size), case, value)
    finally:
        spark.stop()


def _tell(console: Console, figures: Figures) -> None:
    table = Table("", "wanted", "reached", "", title="Spark beside plain processes")
    for goal in outcomes(figures):
        reached = "-" if goal.reached is None else f"{goal.reached:.2f}"
        sign = "≤" if goal.less_is_better else "≥"
        verdict = {True: "[green]met[/]", False: "[red]not met[/]", None: ""}[goal.met]
        table.add_row(goal.title, f"{sign} {goal.wanted:g}", reached, verdict)
    console.print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.spark_ingest", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "report"), default="run")
    parser.add_argument("--events", type=int, default=2_000_000, help="in the stream that is read")
    parser.add_argument("--jobs", type=int, default=500_000, help="of bulk add and sink, and of those consumed")
    parser.add_argument("--rounds", type=int, default=3, help="0 leaves the rates out")
    parser.add_argument(
        "--lake",
        type=int,
        nargs="*",
        default=[1_000_000, 20_000_000],
        help="lakes of so many events; none leaves builds out",
    )
    parser.add_argument(
        "--wide", action=argparse.BooleanOptionalAction, default=True, help="a lake of a thousand queues"
    )
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, help="these rates and no others")
    parser.add_argument("--add", action="store_true", help="to the figures that are there, instead of beginning anew")
    parser.add_argument("--json", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
