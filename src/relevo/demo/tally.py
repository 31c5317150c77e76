"""What the story promised and what happened: the demo fails when the two differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One promise: what it is about, what should be, what was."""

    what: str
    expected: str
    got: str

    @property
    def holds(self) -> bool:
        return self.expected == self.got


class Tally:
    """Counts runs by job id, and collects the checks of all acts.

    >>> tally = Tally()
    >>> tally.ran("a")
    >>> tally.finished("a")
    >>> tally.all_finished("parcels delivered", ["a"])
    >>> tally.holds
    True
    """

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.checks: list[Check] = []

    def ran(self, job_id: str) -> None:
        self.runs[job_id] += 1

    def finished(self, job_id: str) -> None:
        self.done[job_id] += 1

    def finished_of(self, job_ids: Iterable[str]) -> int:
        """How many of these have finished, each counted once."""
        return sum(1 for job_id in job_ids if job_id in self.done)

    def runs_of(self, job_ids: Iterable[str]) -> int:
        return sum(self.runs[job_id] for job_id in job_ids)

    def equal(self, what: str, expected: object, got: object) -> None:
        self.checks.append(Check(what, str(expected), str(got)))

    def within(self, what: str, limit: str, *, kept: bool, got: str) -> None:
        """A promise about time: met, or not."""
        self.checks.append(Check(f"{what} ({got})", limit, limit if kept else f"not {limit}"))

    def all_finished(self, what: str, job_ids: list[str]) -> None:
        self.equal(what, len(job_ids), self.finished_of(job_ids))

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)
