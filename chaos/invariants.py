"""What must hold whatever happened, judged from the ledger. What is left in Redis is up to the test."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from chaos.ledger import Mark


class Run(NamedTuple):
    """One run of one job, from its start to its end or to the death of its process."""

    job_id: str
    pid: int
    began: float
    ended: float
    completed: bool


def runs(marks: list[Mark]) -> list[Run]:
    """All runs; one that neither ended nor died is taken to run still."""
    deaths = {mark.pid: mark.at for mark in marks if mark.kind == "died"}
    begun: dict[tuple[int, str], float] = {}
    found: list[Run] = []
    for mark in marks:
        place = (mark.pid, mark.job_id)
        if mark.kind == "start":
            begun[place] = mark.at
        elif mark.kind in ("end", "cut"):
            found.append(Run(mark.job_id, mark.pid, begun.pop(place), mark.at, mark.kind == "end"))
    for (pid, job_id), began in begun.items():
        found.append(Run(job_id, pid, began, deaths.get(pid, float("inf")), completed=False))
    return sorted(found, key=lambda run: run.began)


def lost(added: Collection[str], marks: list[Mark]) -> set[str]:
    """Jobs that were added and never ran to their end."""
    return set(added) - {run.job_id for run in runs(marks) if run.completed}


def overlaps(marks: list[Mark]) -> Iterator[tuple[Run, Run]]:
    """Pairs of runs of one job that went on at the same time."""
    latest: dict[str, Run] = {}
    for run in runs(marks):
        before = latest.get(run.job_id)
        if before is not None and run.began < before.ended:
            yield before, run
        if before is None or run.ended > before.ended:
            latest[run.job_id] = run


def strangers(added: Collection[str], marks: list[Mark]) -> set[str]:
    """Jobs that ran and were never added."""
    return {run.job_id for run in runs(marks)} - set(added)
