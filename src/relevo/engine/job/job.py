"""A job as producers and handlers see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from relevo.engine.job.parent_result import ParentResult
from relevo.errors import BadArgument, NoQueue, NotRunning


class ResultSource(Protocol):
    """Where a job's result can be waited for: its queue."""

    async def wait_for_result(self, job_id: str, *, timeout: float = ..., poll_interval: float = ...) -> Any: ...


class RunReports(Protocol):
    """Where a running job says how far it is, and learns what came before it: its worker."""

    async def update_progress(self, job_id: str, name: str, percent: float) -> int: ...

    async def log(self, job_id: str, line: str) -> int: ...

    async def parent_results(self, place: str) -> dict[str, ParentResult]: ...


@dataclass  # no slots: handlers and their decorators may put attributes of their own on a job
class Job:
    """One unit of work.

    `attempt` counts from 0: a handler that sees 2 runs the job for the third time. `data` is what the producer passed.

    >>> Job(id="01J9", name="send", data={"to": "a@b"}, attempt=0, created_at_ms=1_700_000_000_000).attempts_made
    0
    """

    id: str
    name: str
    data: Any
    attempt: int
    created_at_ms: int
    _queue: ResultSource | None = field(default=None, repr=False, compare=False)
    _progress: RunReports | None = field(default=None, repr=False, compare=False)
    flow: str | None = field(default=None, repr=False, compare=False)
    """Which place of which flow this job has, if any."""

    @property
    def attempts_made(self) -> int:
        """Runs before this one."""
        return self.attempt

    async def wait_for_result(self, *, timeout: float = 30.0, poll_interval: float = 0.1) -> Any:
        """What the handler returned, once it has; None when the job ended without a result: the handler returned None, or its
        worker runs without `store_results=True`.

        The queue's events wake the wait, so the answer comes with the job's end; `poll_interval` is only how often a queue
        whose workers run without events is looked at. Raises `JobDead` (with `reason`, `detail` and `traceback`) for a job
        that was dead-lettered, `JobCancelled` for one that was cancelled, and `ResultTimeout` for one that has not ended in
        time. A wait that begins after the job has ended is answered at once, while its result, its dead letter or the event
        of its end is there.
        """
        if self._queue is None:
            raise NoQueue(job_id=self.id)
        for argument, value in (("timeout", timeout), ("poll_interval", poll_interval)):
            if not value > 0:
                raise BadArgument(
                    argument=argument, value=value, reason="must be greater than 0", remedy="Pass seconds."
                )
        return await self._queue.wait_for_result(self.id, timeout=timeout, poll_interval=poll_interval)

    async def update_progress(self, percent: float) -> None:
        """Says how far the job is, from 0 to 100; anyone can read it, and a `progress` event tells those who listen."""
        await self._say().update_progress(self.id, self.name, percent)

    async def log(self, line: str) -> int:
        """Adds a line to the job's log, kept for a while after its end; returns how many lines there are."""
        return await self._say().log(self.id, line)

    async def parent_results(self) -> dict[str, ParentResult]:
        """What the jobs before this one in its flow returned, by their keys; empty for a job of no flow."""
        return {} if self.flow is None else await self._say().parent_results(self.flow)

    def _say(self) -> RunReports:
        if self._progress is None:
            raise NotRunning(job_id=self.id)
        return self._progress
