"""`python -m benchmarks`: interleaved rounds of everyone, then a table, the goals, a JSON file and the report.

`python -m benchmarks growth` measures what a job costs as things grow; `python -m benchmarks report` writes the report anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.case import BY_NAME, CASES
from benchmarks.goals import outcomes
from benchmarks.growth import Growth
from benchmarks.roster import BASE, chosen
from benchmarks.rounds import Rounds
from benchmarks.tally import Tally
from tests.servers.cache import cache_folder

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    asked = _parser().parse_args()
    console = Console()
    if asked.what == "report":
        console.print(f"written: {report.write(asked.json, asked.growth_json)}")
    elif asked.what == "growth":
        growth = Growth(console, scale=0.01 if asked.quick else 1.0, only=asked.case)
        growth.run().save(asked.growth_json)
        console.print(growth.points.table())
        _complain(console, growth.points.failures)
        console.print(f"all numbers: {asked.growth_json}")
    else:
        rounds = Rounds(chosen(asked.only), asked.case, console, venvs=cache_folder() / "bench-venvs")
        tally = rounds.run(1 if asked.quick else asked.rounds, seconds=0.1 if asked.quick else asked.seconds)
        tally.save(asked.json)
        show(console, tally)
        console.print(f"all numbers: {asked.json}; `python -m benchmarks report` makes a page of them")


def show(console: Console, tally: Tally) -> None:
    # A line a contestant: there are more of them than a terminal has columns, so the cases come in blocks.
    for block in _blocks([case.name for case in CASES], 6):
        cases = [case for case in block if any(tally.median(who, case) is not None for who in tally.contestants)]
        if not cases:
            continue
        table = Table("", *(f"{BY_NAME[case].title}, {BY_NAME[case].unit}" for case in cases))
        for column in table.columns[1:]:
            column.justify = "right"
        for who in tally.contestants:
            cells = [tally.cell(who, case, BASE) for case in cases]
            if any(cell != "-" for cell in cells):
                table.add_row(who, *cells)
        console.print(table)
    goals = Table("goal, as a ratio in this run", "wanted", "reached", "", title="goals")
    for goal, reached, met in outcomes(tally):
        shown = "-" if reached is None else f"{reached:.2f}"
        goals.add_row(
            goal.title, f"{goal.times:g}", shown, {True: "[green]met[/]", False: "[yellow]not met[/]"}.get(met)
        )
    console.print(goals)
    _complain(console, tally.failures)


def _complain(console: Console, failures: list[str]) -> None:
    for failure in failures:
        console.print(failure, style="red", markup=False)


def _blocks(names: list[str], size: int) -> list[list[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("run", "growth", "report"), default="run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.6, help="about what each run is to take")
    parser.add_argument("--only", action="append", default=[], help="a contestant (part of its name); may be repeated")
    parser.add_argument("--case", action="append", default=[], help="a case, or a line of growth; may be repeated")
    parser.add_argument("--quick", action="store_true", help="one round of short runs: does everything work?")
    parser.add_argument("--json", type=Path, default=RESULTS / "latest.json")
    parser.add_argument("--growth-json", type=Path, default=RESULTS / "growth.json")
    return parser


if __name__ == "__main__":
    main()
