"""A batch handler: many jobs in one call, each with an outcome of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from relevo.arguments import positive
from relevo.engine.consuming.handlers import checked_handler
from relevo.engine.consuming.job_context import DELIVERY
from relevo.engine.consuming.spans import without_span
from relevo.engine.job.job import Job
from relevo.errors import BadBatchOutcome

BatchHandler = Callable[[list[Job]], Awaitable[Sequence[Any] | None]]


class _Waiting:
    """One job of a batch, and who waits for its outcome."""

    def __init__(self, job: Job, future: asyncio.Future[Any]) -> None:
        self.job = job
        self.future = future
        self.batch: list[_Waiting] = []
        self.run: asyncio.Task[None] | None = None

    def give_up(self) -> None:
        """Nobody waits for this one any more; a run that nobody at all waits for is ended: its jobs run elsewhere."""
        if self.run is not None and all(each.future.done() for each in self.batch):
            self.run.cancel()


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
        checked_handler(handler, "a list of jobs")
        self.size: int = positive("size", size)
        self._handler = handler
        self._linger_s = positive("linger_ms", linger_ms, zero=True) / 1000
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, job: Job) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        waiting = _Waiting(job, future)
        self._waiting.append(waiting)
        if len(self._waiting) >= self.size:
            self._go()
        elif self._timer is None:
            self._timer = loop.call_later(self._linger_s, self._go)
        try:
            return await future
        except asyncio.CancelledError:
            if waiting.run is None and waiting in self._waiting:
                self._waiting.remove(waiting)  # it is no company for the others
            waiting.give_up()
            raise

    def function_of(self, _: str) -> BatchHandler:
        """What runs the jobs, for those who tell where it stands."""
        return self._handler

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Without those that were cancelled while they waited for company.
        batch = [each for each in self._waiting if not each.future.done()]
        self._waiting = []
        if batch:
            task = asyncio.get_running_loop().create_task(self._run(batch), name="relevo-batch")
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            for each in batch:
                each.batch, each.run = batch, task

    async def _run(self, batch: list[_Waiting]) -> None:
        DELIVERY.set(None)  # this task was begun by one of the jobs and works for all
        without_span()
        try:
            outcomes = await self._handler([each.job for each in batch])
            if outcomes is None:
                outcomes = [None] * len(batch)
            elif len(outcomes) != len(batch):
                raise BadBatchOutcome(given=len(outcomes), wanted=len(batch))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - is the outcome of all its jobs, also when it calls sys.exit()
            outcomes = [error] * len(batch)
        for future, outcome in zip((each.future for each in batch), outcomes, strict=True):
            if future.done():  # its slot was cancelled: shutdown, or the job was
                continue
            if isinstance(outcome, asyncio.CancelledError):
                future.cancel()
            elif isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
