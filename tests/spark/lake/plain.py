"""The same facts reckoned in plain Python, one event after the other, without a line of the lake's own code."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from relevo.wire.ids import minted_ms
from tests.spark.lake.happenings import Row

ENDS = {"completed": "done", "failed": "failed", "cancelled": "cancelled", "rate-limited": "parked"}
Key = tuple[str, str, str]
"""Source, queue and id."""
Place = tuple[int, str, str, str]
"""Minute, source, queue and name."""


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
    due: int | None = None


@dataclass
class Job:
    source: str
    queue: str
    id: str
    name: str = ""
    room: str = "stream"
    correlation: str | None = None
    first: int = 0
    published: int | None = None
    runs: list[Run] = field(default_factory=list[Run])
    done: int | None = None
    settled: bool = False
    """Done by a decision: no run has ended it."""
    closed: tuple[str, int] | None = None
    dead: int | None = None
    buried: bool = False
    deaths: int = 0
    reviews: int = 0

    @property
    def outcome(self) -> str:
        if self.done is not None:
            return "done"
        if self.closed is not None:
            return self.closed[0]
        return "dead" if self.buried else "open"

    @property
    def finished(self) -> int | None:
        if self.done is not None:
            return self.done
        if self.closed is not None:
            return self.closed[1]
        return self.dead if self.buried else None

    @property
    def came(self) -> int:
        if self.published is not None:
            return self.published
        return self.runs[0].ready if self.runs and self.runs[0].ready is not None else self.first

    @property
    def attempts(self) -> int:
        return sum(run.outcome not in ("parked", "released") for run in self.runs)

    @property
    def total(self) -> int | None:
        return None if self.finished is None else max(0, self.finished - self.came)

    @property
    def platform(self) -> bool:
        return self.queue.startswith("work-agents-") or self.queue.rpartition(".")[2].startswith("_")


def jobs_of(rows: list[Row]) -> list[Job]:
    """Every job and message with its runs: jobs from the events in the order of the wire, messages in that of their numbers."""
    jobs: dict[Key, Job] = {}
    waiting: dict[Key, int | None] = defaultdict(lambda: None)
    for row in rows:
        if row["seq"] is None:
            key = (row["source"], row["queue"], row["id"])
            _tell(_named(jobs, key, row), row, waiting, key)
    numbered = {(row["source"], row["seq"]): row for row in reversed(rows) if row["seq"] is not None}
    for row in sorted(numbered.values(), key=lambda row: int(row["seq"].partition("-")[0])):
        _tell_message(jobs, row)
    of_message = {(job.source, job.id): job.correlation for job in jobs.values() if job.room == "work"}
    for job in jobs.values():
        job.correlation = job.correlation or of_message.get((job.source, job.id.partition(".")[0]))
    return list(jobs.values())


def _named(jobs: dict[Key, Job], key: Key, row: Row) -> Job:
    job = jobs.setdefault(key, Job(*key, first=row["ts"]))
    job.name = max(job.name, row["n"] or "")
    return job


def _tell(job: Job, row: Row, waiting: dict[Any, int | None], key: Key) -> None:
    event, at = row["e"], row["ts"]
    if event == "waiting":
        waiting[key] = at
    elif event == "active":
        ready = waiting.pop(key, None)
        if ready is None and job.runs and job.runs[-1].backoff is not None:
            ready = (job.runs[-1].ended or 0) + 1 + job.runs[-1].backoff
        if ready is None and not job.runs and (made := minted_ms(job.id.partition(".")[0])) is not None:
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
            job.closed = ("cancelled", at)
    elif event == "retry-scheduled":
        job.runs[-1].backoff = row["backoff_ms"]
    elif event == "dlq":
        _die(job, at)


def _die(job: Job, at: int) -> None:
    if job.runs and job.runs[-1].outcome == "running":
        job.runs[-1].outcome = "lost"
    job.dead, job.buried = at, True
    job.deaths += 1


def _tell_message(jobs: dict[Key, Job], row: Row) -> None:
    event, at = row["e"], row["ts"]
    if event == "extended":
        return
    job = _named(jobs, (row["source"], row["queue"], row["id"]), row)
    job.room, job.correlation = "work", row["correlation_id"]
    if event in ("claimed", "routed", "completed", "failed", "retried", "released", "reclaimed"):
        _work_on(jobs, job, row)
    elif event == "published":
        job.published = at
    elif event == "dead_lettered":
        _die(job, at)
    elif event == "replayed":
        job.buried = False
    elif event in ("expired", "cancelled"):
        job.closed = (event, at)
    elif event == "review_needed":
        job.reviews += 1


def _work_on(jobs: dict[Key, Job], job: Job, row: Row) -> None:
    event, at = row["e"], row["ts"]
    if event == "claimed":
        job.runs.append(Run(row["attempt"], at - row["wait_ms"], at))
    elif event == "routed":
        _route(jobs, job, row)
    elif event == "retried":
        job.runs[-1].backoff, job.runs[-1].due = row["backoff_ms"], at + row["backoff_ms"]
    elif event in ("released", "reclaimed"):
        job.runs[-1].outcome = "released" if event == "released" else "lost"
        job.runs[-1].ended = at if event == "released" else None
    elif row["duration_us"] is not None:
        _end_run(job, row)
    elif event == "completed":
        job.done, job.settled = at, True
    else:
        job.closed = ("failed", at)


def _route(jobs: dict[Key, Job], job: Job, row: Row) -> None:
    at, to = row["ts"], dict(row["rest"])["to"]
    if to.startswith("stream:"):
        job.runs.append(Run(None, at, at))
        return
    job.closed = ("routed", at)
    target = ".".join([*row["queue"].split(".")[:-1], to])
    there = _named(jobs, (row["source"], target, row["id"]), row)
    there.room, there.correlation, there.published = "work", row["correlation_id"], at


def _end_run(job: Job, row: Row) -> None:
    event, at = row["e"], row["ts"]
    if not job.runs or job.runs[-1].outcome != "running":
        due = job.runs[-1].due if job.runs else None
        job.runs.append(Run(None, due, at - row["duration_us"] // 1000))
    run = job.runs[-1]
    run.ended, run.us, run.outcome = at, row["duration_us"], ENDS[event]
    run.reason, run.attempt = row["reason"], row["attempt"]
    if event == "completed":
        job.done = at


def minutes_of(jobs: list[Job]) -> dict[Place, Counter[str]]:
    """What each minute, source, queue and name saw."""
    found: dict[Place, Counter[str]] = defaultdict(Counter)

    def count(at: int | None, job: Job, what: str) -> None:
        if at is not None:
            found[at // 60_000 * 60_000, job.source, job.queue, job.name][what] += 1

    for job in jobs:
        count(job.came, job, "arrived")
        count(job.dead, job, "dead")
        if job.outcome in ("cancelled", "expired", "routed"):
            count(job.finished, job, job.outcome)
        if job.settled:
            count(job.done, job, "done")
        for run in job.runs:
            if run.outcome != "released":
                count(run.started, job, "started")
            if run.outcome in ("done", "failed"):
                count(run.ended, job, run.outcome)
            if run.outcome == "failed" and run.backoff is not None:
                count(run.ended, job, "retried")
    return found


def backlogs_of(jobs: list[Job], minutes: dict[Place, Counter[str]]) -> dict[Place, int]:
    """How much was left at the end of each minute."""
    found: dict[Place, int] = {}
    for minute, source, queue, name in minutes:
        mine = [job for job in jobs if (job.source, job.queue, job.name) == (source, queue, name)]
        end = minute + 60_000
        found[minute, source, queue, name] = sum(
            job.came < end and not (job.finished is not None and job.finished < end) for job in mine
        )
    return found


def times_of(jobs: list[Job]) -> dict[tuple[str, str, str, str], list[float]]:
    """All waits, runs and totals in ms, by measure, source, queue and name."""
    found: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for job in jobs:
        place = (job.source, job.queue, job.name)
        for run in job.runs:
            if run.ready is not None:
                found["wait", *place].append(max(0, run.started - run.ready))
            if run.outcome in ("done", "failed"):
                found["run", *place].append((run.us or 0) / 1000)
        if job.outcome == "done":
            found["total", *place].append(job.total or 0)
    return found
