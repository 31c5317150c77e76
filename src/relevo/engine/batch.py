"""A batch handler: many jobs in one call, each with an outcome of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from relevo.engine.job import Job
from relevo.engine.validation import positive
from relevo.errors import BadBatchOutcome

BatchHandler = Callable[[list[Job]], Awaitable[Sequence[Any] | None]]


class Batch:
    """Turns a function of many jobs into a handler: collects up to `size` jobs, or what came within `linger_ms` of the first.

    The function returns one outcome for each job, in their order: a value (the job's result), or an exception (that job
    failed; the others did not). None means that all went well. If it raises, all failed.

        async def insert(jobs: list[Job]) -> None:
            await table.insert_many([job.data for job in jobs])

        Worker("rows", Batch(insert, size=500, linger_ms=20), concurrency=500)

    A worker runs no more jobs at once than its `concurrency`: keep that at `size` or more.
    """

    def __init__(self, handler: BatchHandler, *, size: int, linger_ms: int = 50) -> None:
        self.size = positive("size", size)
        self._handler = handler
        self._linger_s = positive("linger_ms", linger_ms, zero=True) / 1000
        self._jobs: list[Job] = []
        self._futures: list[asyncio.Future[Any]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, job: Job) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._jobs.append(job)
        self._futures.append(future)
        if len(self._jobs) >= self.size:
            self._go()
        elif self._timer is None:
            self._timer = loop.call_later(self._linger_s, self._go)
        return await future

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        jobs, futures = self._jobs, self._futures
        self._jobs, self._futures = [], []
        if jobs:
            task = asyncio.get_running_loop().create_task(self._run(jobs, futures), name="relevo-batch")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, jobs: list[Job], futures: list[asyncio.Future[Any]]) -> None:
        try:
            outcomes = await self._handler(jobs)
            if outcomes is None:
                outcomes = [None] * len(jobs)
            elif len(outcomes) != len(jobs):
                raise BadBatchOutcome(given=len(outcomes), wanted=len(jobs))
        except Exception as error:  # noqa: BLE001 - whatever the handler raises is the outcome of all its jobs
            outcomes = [error] * len(jobs)
        for future, outcome in zip(futures, outcomes, strict=True):
            if future.done():  # its slot was cancelled: shutdown, or the job was
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
