"""The same facts reckoned in plain Python, one event after the other, without a line of the lake's own code."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from relevo.wire.ids import minted_ms
from tests.spark.lake.happenings import Row

ENDS = {"completed": "done", "failed": "failed", "cancelled": "cancelled", "rate-limited": "parked"}


@dataclass
class Run:
    attempt: int | None
    ready: int | None
    started: int
    ended: int | None = None
    us: int | None = None
    outcome: str = "running"
    reason: str | None = None
    backoff: int | None = None


@dataclass
class Job:
    queue: str
    id: str
    name: str = ""
    first: int = 0
    runs: list[Run] = field(default_factory=list[Run])
    done: int | None = None
    cancelled: int | None = None
    dead: int | None = None
    buried: bool = False
    deaths: int = 0

    @property
    def outcome(self) -> str:
        if self.done is not None:
            return "done"
        if self.cancelled is not None:
            return "cancelled"
        return "dead" if self.buried else "open"

    @property
    def finished(self) -> int | None:
        return {"done": self.done, "cancelled": self.cancelled, "dead": self.dead}.get(self.outcome)

    @property
    def came(self) -> int:
        return self.runs[0].ready if self.runs and self.runs[0].ready is not None else self.first


def jobs_of(rows: list[Row]) -> list[Job]:
    """Every job with its runs, from the events in the order of the wire."""
    jobs: dict[tuple[str, str], Job] = {}
    waiting: dict[tuple[str, str], int | None] = defaultdict(lambda: None)
    for row in rows:
        key = (row["queue"], row["id"])
        job = jobs.setdefault(key, Job(*key, first=row["ts"]))
        job.name = max(job.name, row["n"] or "")
        _tell(job, row, waiting, key)
    return list(jobs.values())


def _tell(job: Job, row: Row, waiting: dict[Any, int | None], key: tuple[str, str]) -> None:
    event, at = row["e"], row["ts"]
    if event == "waiting":
        waiting[key] = at
    elif event == "active":
        ready = waiting.pop(key, None)
        if ready is None and job.runs and job.runs[-1].backoff is not None:
            ready = (job.runs[-1].ended or 0) + 1 + job.runs[-1].backoff
        if ready is None and not job.runs and (made := minted_ms(job.id)) is not None:
            ready = made
        if job.runs and job.runs[-1].outcome == "running":
            job.runs[-1].outcome = "lost"
        job.runs.append(Run(row["attempt"], ready, at))
        job.buried = False
    elif event in ENDS:
        run = job.runs[-1]
        run.ended, run.us, run.outcome, run.reason = at, row["duration_us"], ENDS[event], row["reason"]
        if event == "completed":
            job.done = at
        elif event == "cancelled":
            job.cancelled = at
    elif event == "retry-scheduled":
        job.runs[-1].backoff = row["backoff_ms"]
    elif event == "dlq":
        job.dead, job.buried = at, True
        job.deaths += 1


def minutes_of(jobs: list[Job]) -> dict[tuple[int, str, str], Counter[str]]:
    """What each minute, queue and name saw."""
    found: dict[tuple[int, str, str], Counter[str]] = defaultdict(Counter)

    def count(at: int | None, job: Job, what: str) -> None:
        if at is not None:
            found[at // 60_000 * 60_000, job.queue, job.name][what] += 1

    for job in jobs:
        count(job.came, job, "arrived")
        count(job.dead, job, "dead")
        if job.outcome == "cancelled":
            count(job.finished, job, "cancelled")
        for run in job.runs:
            count(run.started, job, "started")
            if run.outcome in ("done", "failed"):
                count(run.ended, job, run.outcome)
            if run.outcome == "failed" and run.backoff is not None:
                count(run.ended, job, "retried")
    return found


def backlogs_of(jobs: list[Job], minutes: dict[tuple[int, str, str], Counter[str]]) -> dict[tuple[int, str, str], int]:
    """How much was left at the end of each minute."""
    found: dict[tuple[int, str, str], int] = {}
    for minute, queue, name in minutes:
        mine = [job for job in jobs if (job.queue, job.name) == (queue, name)]
        end = minute + 60_000
        found[minute, queue, name] = sum(
            job.came < end and not (job.finished is not None and job.finished < end) for job in mine
        )
    return found


def times_of(jobs: list[Job]) -> dict[tuple[str, str, str], list[float]]:
    """All waits, runs and totals in ms, by measure, queue and name."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for job in jobs:
        for run in job.runs:
            if run.ready is not None:
                found["wait", job.queue, job.name].append(max(0, run.started - run.ready))
            if run.outcome in ("done", "failed"):
                found["run", job.queue, job.name].append((run.us or 0) / 1000)
        if job.outcome == "done":
            found["total", job.queue, job.name].append(max(0, (job.finished or 0) - job.came))
    return found
