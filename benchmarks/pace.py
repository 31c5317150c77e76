"""How many jobs each gets: so many that its run takes the time we give everyone, whatever its speed."""

from __future__ import annotations

from benchmarks.case import Task
from benchmarks.contestant import Contestant

FIRST = 200


class Pace:
    """Learns each contestant's speed at each task from the run before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._rates: dict[tuple[str, str], float] = {}

    def jobs(self, contestant: Contestant, task: Task) -> int:
        if task.jobs is not None:
            return task.jobs
        rate = self._rates.get(self._key(contestant, task))
        wanted = FIRST if rate is None else rate * self._seconds
        return min(max(round(wanted / task.step), 1) * task.step, max(task.most, task.step))

    def learn(self, contestant: Contestant, task: Task, measures: dict[str, float]) -> None:
        if "rate" in measures:
            self._rates[self._key(contestant, task)] = measures["rate"]

    def too_short(self, contestant: Contestant, task: Task, jobs: int) -> bool:
        """Whether a run of so many jobs was over before it told anything; ask again with what was learned from it."""
        return jobs * 3 < self.jobs(contestant, task)

    @staticmethod
    def _key(contestant: Contestant, task: Task) -> tuple[str, str]:
        return contestant.name, next(iter(task.answers.values()))
