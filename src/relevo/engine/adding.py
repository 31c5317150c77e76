"""One plain add on its way: a future of the job, begun with the call and not with its first step in a task.

`asyncio.gather` makes a task of every coroutine it is given, and takes a future as it is: for a hundred adds at once the tasks
cost as much as the adds. But callers may also write `create_task(queue.add(...))` or `asyncio.run(queue.add(...))`, which
want a coroutine. So this is both. (What cannot be had then is `asyncio.wait([ensure_future(queue.add(...))])`: `wait` refuses
whatever is a coroutine, and says to use `create_task`.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from relevo.engine.job import Job

Entry = tuple[bytes, bytes]
"""Envelope and name, as they stand in the stream."""


class Adding(asyncio.Future[Job], Coroutine[Any, Any, Job]):
    """Done when Redis has the job. To the sender it is a call of one entry."""

    __slots__ = ("_steps", "entries", "job")

    job: Job
    entries: tuple[Entry]
    _steps: Generator[Any, None, Job]

    @staticmethod
    def of(job: Job, entry: Entry, loop: asyncio.AbstractEventLoop) -> Adding:
        adding = Adding(loop=loop)  # without an `__init__` of its own: it would cost as much as the rest
        adding.job, adding.entries = job, (entry,)
        return adding

    # --- as the sender sees it -------------------------------------------------------------------------------------

    @property
    def future(self) -> Adding:
        return self

    def landed(self) -> None:
        if not self.done():
            self.set_result(self.job)

    def failed(self, error: Exception) -> None:
        if not self.done():
            self.set_exception(error)

    # --- as a coroutine: a task takes its steps through these ---------------------------------------------------------

    def send(self, value: Any, /) -> Any:
        try:
            steps = self._steps
        except AttributeError:
            steps = self._steps = self.__await__()
        return steps.send(value)

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        """Nobody waits any more; the job is on its way all the same."""
        self.cancel()
