"""The run: every contestant does every task it can once a round, side by side in time, on servers started for it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.case import Task
from benchmarks.contestant import Contestant, RunFailed
from benchmarks.machine import describe
from benchmarks.pace import Pace
from benchmarks.tally import Tally
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, SingleServer

KINDS: dict[str, type[SingleServer]] = {kind.name: kind for kind in (Redis86, Redis7, EmbeddedValkey)}
# The default parameters of a server without persistence: what is measured is the queue, not the disk.
SETTINGS = {"save": '""', "appendonly": "no"}
TIMEOUT_S = 60.0

Step = tuple[Contestant, Task]


class Rounds:
    """Plans the steps, and takes them."""

    def __init__(self, contestants: list[Contestant], cases: list[str], console: Console, *, venvs: Path) -> None:
        self._contestants = contestants
        self._plan = planned(contestants, cases)
        self._console = console
        self._venvs = venvs

    def run(self, rounds: int, *, seconds: float) -> Tally:
        pace, self._tally = Pace(seconds), Tally(machine=describe(), seconds=seconds)
        self._tally.versions = {each.name: each.version for each in self._contestants}
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with (
            ExitStack() as stack,
            Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self._console) as progress,
        ):
            self._install(progress)
            servers = self._start(stack)
            bar = progress.add_task("measuring", total=rounds * len(self._plan))
            for number in range(rounds):
                # There and back again: whoever follows a heavy neighbour goes before it in the next round.
                for contestant, task in self._plan if number % 2 == 0 else self._plan[::-1]:
                    case = next(iter(task.answers.values()))
                    progress.update(bar, description=f"round {number + 1}: {case}, {contestant.name}")
                    self._take(contestant, task, servers[contestant.server], pace)
                    progress.advance(bar)
        return self._tally

    def _install(self, progress: Progress) -> None:
        bar = progress.add_task("installing", total=len(self._contestants))
        for each in list(self._contestants):
            progress.update(bar, description=f"installing {each.name}")
            try:
                each.install(self._venvs)
            except RunFailed as failure:  # one rival less; the others are still worth measuring
                self._tally.failures.append(str(failure))
                self._plan = [step for step in self._plan if step[0] is not each]
            progress.advance(bar)
        progress.update(bar, description="installed")

    def _start(self, stack: ExitStack) -> dict[str, SingleServer]:
        servers: dict[str, SingleServer] = {}
        for name in dict.fromkeys(contestant.server for contestant, _ in self._plan):
            servers[name] = stack.enter_context(KINDS[name](settings=SETTINGS))
            version = KINDS[name].binary().text
            self._tally.machine[name] = (
                f"{'Valkey' if name == 'valkey' else 'Redis'} {version}, loopback, no persistence"
            )
        return servers

    def _take(self, contestant: Contestant, task: Task, server: SingleServer, pace: Pace) -> None:
        for _ in range(3):
            jobs = pace.jobs(contestant, task)
            server.flush()
            try:
                measures = contestant.run(task, server.url, jobs, self._venvs, timeout_s=TIMEOUT_S)
            except RunFailed as failure:
                self._tally.failures.append(str(failure))
                return
            pace.learn(contestant, task, measures)
            if not pace.too_short(contestant, task, jobs):
                break
        self._tally.note(contestant.name, task.answers, measures)


def planned(contestants: list[Contestant], cases: list[str]) -> list[Step]:
    """By task, then by contestant, so that whatever else the machine does meets all of them alike. The ceiling is always
    measured: ratios need it."""
    steps = [(each, task) for each in contestants for task in each.tasks]
    if cases:
        steps = [
            (each, task) for each, task in steps if task.name == "ceiling" or set(cases) & set(task.answers.values())
        ]
    order = {case: at for at, case in enumerate(dict.fromkeys(next(iter(task.answers.values())) for _, task in steps))}
    return sorted(steps, key=lambda step: order[next(iter(step[1].answers.values()))])
