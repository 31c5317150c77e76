"""A handler that remembers what it ran, and lets a test wait for it."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from relevo import Job
from tests.pace import limit


class Runs:
    """Every run of a worker, in the order in which they began. Returns `answer(job)`, or None without one.

    `fail` decides which runs raise: it gets the job and returns the error to raise, or None.
    """

    def __init__(
        self, answer: Callable[[Job], Any] | None = None, *, fail: Callable[[Job], Exception | None] | None = None
    ) -> None:
        self.jobs: list[Job] = []
        self._answer = answer
        self._fail = fail
        self._more = asyncio.Condition()

    async def __call__(self, job: Job) -> Any:
        async with self._more:
            self.jobs.append(job)
            self._more.notify_all()
        error = self._fail(job) if self._fail is not None else None
        if error is not None:
            raise error
        return None if self._answer is None else self._answer(job)

    async def until(self, count: int, *, timeout: float = 20.0) -> list[Job]:
        """The runs, once there have been `count` of them."""
        async with self._more:
            await asyncio.wait_for(self._more.wait_for(lambda: len(self.jobs) >= count), limit(timeout))
        return self.jobs

    @property
    def ids(self) -> list[str]:
        return [job.id for job in self.jobs]

    @property
    def names(self) -> list[str]:
        return [job.name for job in self.jobs]

    @property
    def data(self) -> list[Any]:
        return [job.data for job in self.jobs]

    @property
    def by_id(self) -> Counter[str]:
        """How often each job ran."""
        return Counter(self.ids)
