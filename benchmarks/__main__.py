"""`python -m benchmarks`: interleaved rounds of everyone on one Redis 8.6, then a table, the goals and a JSON file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.case import BY_NAME
from benchmarks.contestant import CONTESTANTS, Contestant, RunFailed, Task
from benchmarks.goals import goal_table
from benchmarks.tally import Tally
from tests.servers.cache import cache_folder
from tests.servers.server import Redis86

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of jobs of each case")
    parser.add_argument("--only", action="append", default=[], help="a contestant (part of its name); may be repeated")
    parser.add_argument("--case", action="append", default=[], help="a case; may be repeated")
    parser.add_argument("--json", type=Path, default=RESULTS / "latest.json")
    chosen = parser.parse_args()
    console = Console()
    contestants = [each for each in CONTESTANTS if not chosen.only or any(part in each.name for part in chosen.only)]
    venvs = cache_folder() / "bench-venvs"
    with Redis86(settings={"save": "", "appendonly": "no"}) as server:
        version = server.call("INFO", "server").decode().partition("redis_version:")[2].split("\r")[0]
        tally = Tally(f"Redis {version}", chosen.scale)
        plan = [(each, task) for each in contestants for task in each.tasks if _wanted(task, chosen.case)]
        with Progress(console=console) as progress:
            steps = progress.add_task("installing", total=len(contestants))
            for each in contestants:
                each.install(venvs)
                progress.advance(steps)
            steps = progress.add_task("measuring", total=chosen.rounds * len(plan))
            # By task, then by contestant: whatever else the machine does meets all of them alike.
            plan.sort(key=lambda step: step[1].cases)
            for number in range(chosen.rounds):
                for each, task in plan if number % 2 == 0 else plan[::-1]:
                    progress.update(steps, description=f"round {number + 1}: {each.name}, {task.cases[0]}")
                    _measure(tally, each, task, server, chosen.scale, venvs)
                    progress.advance(steps)
    console.print(tally.table([each.name for each in contestants], "chasquimq 1.3.0"))
    console.print(goal_table(tally))
    for failure in tally.failures:
        console.print(f"[red]{failure}[/]")
    tally.save(chosen.json)
    console.print(f"all numbers: {chosen.json}")


def _wanted(task: Task, cases: list[str]) -> bool:
    return not cases or any(case in cases for case in task.cases) or task.name == "ceiling"


def _measure(tally: Tally, each: Contestant, task: Task, server: Redis86, scale: float, venvs: Path) -> None:
    server.flush()
    size = BY_NAME[task.cases[0]].jobs if task.cases[0] in BY_NAME else 60_000
    jobs = max(1000, int(size * scale) // 1000 * 1000)
    try:
        tally.note(each.name, each.run(task, server.url, jobs, venvs, timeout_s=300))
    except RunFailed as failure:
        tally.failures.append(str(failure))


if __name__ == "__main__":
    main()
