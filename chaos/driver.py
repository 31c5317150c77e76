"""Runs a load against a fleet of worker processes while faults happen, and collects what is to be judged."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

from chaos.faults import WorkerProcess
from chaos.ledger import Ledger, Mark
from relevo import Queue


@dataclass
class Story:
    """What a scenario did and what came of it."""

    added: list[str] = field(default_factory=list[str])
    marks: list[Mark] = field(default_factory=list[Mark])
    faults: int = 0


class Driver:
    """A fleet, a producer and dice. The seed is part of every report: the same dice can be thrown again."""

    def __init__(self, ledger: Ledger, queue: str, url: str, *, workers: int, seed: int, **options: Any) -> None:
        self.ledger = ledger
        self.queue = Queue(queue, redis_url=url)
        self.dice = random.Random(seed)
        self.story = Story()
        self._make = lambda: WorkerProcess(ledger, queue, url, **options)
        self.fleet = [self._make() for _ in range(workers)]

    async def load(self, seconds: float, *, batch: int = 20, every: float = 0.05) -> None:
        """Adds jobs of 0 to 100 ms for a while."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            jobs = [{"name": "job", "data": {"seconds": self.dice.random() / 10}} for _ in range(batch)]
            self.story.added += [job.id for job in await self.queue.add_bulk(jobs)]
            await asyncio.sleep(every)  # the pace of the load is the subject

    async def replace(self, victim: int) -> None:
        """Kills one worker and starts another in its place."""
        self.fleet[victim].kill()
        self.story.faults += 1
        self.fleet[victim] = self._make()

    async def until_done(self, *, timeout: float = 60.0) -> None:
        """Waits until every job that was added has run to its end."""
        added = set(self.story.added)

        def all_done(marks: list[Mark]) -> bool:
            done = added <= {mark.job_id for mark in marks if mark.kind == "end"}
            for worker in () if done else self.fleet:
                worker.child.must_live("end of all jobs")
            return done

        await self.ledger.wait_for(all_done, timeout=timeout)

    async def close(self) -> None:
        for worker in self.fleet:
            if worker.child.alive:
                worker.child.process.terminate()
        for worker in self.fleet:
            await worker.ended()
        await self.queue.close()
        self.story.marks = self.ledger.marks()

    def abandon(self) -> None:
        """Ends every process at once, whatever happened."""
        for worker in self.fleet:
            if worker.child.alive:
                worker.kill()
