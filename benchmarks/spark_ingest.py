"""`python -m benchmarks.spark_ingest` (`make bench-spark`): what Spark reads, writes and builds, beside plain processes.

One run on one machine, in interleaved rounds, so that the ratios mean something; a quarter of an hour on a quiet one. The
goals are those of the data pipeline. `python -m benchmarks.spark_ingest report` writes benchmarks/spark_report.md anew from
the last run.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figures, kept
from benchmarks.spark import report
from benchmarks.spark.goals import lake, outcomes
from benchmarks.spark.rates import Rates
from relevo.pipeline.session import session
from tests.servers.server import Redis86
from tests.spark.lake.growth import grown

RESULTS = Path(__file__).parent / "results" / "spark.json"


def main() -> None:
    chosen = _arguments()
    console = Console()
    measured = chosen.what == "run"
    figures = kept(lambda: _run(console, chosen), chosen.json) if measured else Figures.load(chosen.json)
    console.print(f"all figures: {chosen.json}")
    _tell(console, figures)
    if chosen.json == RESULTS:
        report.write(figures)
        console.print(f"the report: {report.PAGE}")


def _run(console: Console, chosen: argparse.Namespace) -> Figures:
    figures, folder = Figures(), Path(tempfile.mkdtemp(prefix="relevo-bench-"))
    spark: Any = session("local[2]", log=folder / "spark.log")
    try:
        figures.facts = {
            "Spark": spark.version,
            "events": f"{chosen.events:,}",
            "jobs of bulk add and sink": f"{chosen.jobs:,}",
        }
        if chosen.rounds:
            with Redis86(settings={"save": "", "maxmemory": "0"}) as server:
                rates = Rates(server.url, spark, folder, events=chosen.events, jobs=chosen.jobs)
                try:
                    rates.run(figures, chosen.rounds, console.print)
                finally:
                    rates.close()
        figures.save(chosen.json)  # what was measured stays, whatever becomes of the rest
        if chosen.lake:
            grown(spark, folder / "warm", 100_000)
        for size in chosen.lake:
            found = grown(spark, folder / "lake", size)
            shutil.rmtree(folder / "lake")
            console.print(f"a lake of {found.events:,} events: {found}")
            for case, value in (
                *(("build s", found.build_s), ("µs an event", found.us_an_event), ("refresh s", found.refresh_s)),
                *(("refresh share", found.refresh_share), ("peak bytes", found.peak_bytes)),
            ):
                figures.note(lake(size), case, value)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return figures


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
    parser.add_argument("--jobs", type=int, default=500_000, help="of bulk add and sink, and five times those consumed")
    parser.add_argument("--rounds", type=int, default=3, help="0 leaves the rates out")
    parser.add_argument(
        "--lake",
        type=int,
        nargs="*",
        default=[1_000_000, 20_000_000],
        help="lakes of so many events; none leaves builds out",
    )
    parser.add_argument("--json", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
