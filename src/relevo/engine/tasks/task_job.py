"""The job of a task: its result is what the function returned, not only the plain values that travelled."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast, overload

from relevo.engine.job.job import Job
from relevo.engine.tasks.results import ReturnValue

T_co = TypeVar("T_co", covariant=True)
V = TypeVar("V")


@dataclass
class TaskJob(Job, Generic[T_co]):
    """What `task.enqueue` returns: a `Job` that knows what its task returns.

        job = await price.enqueue(queue, order_id)
        total = await job.wait_for_result()     # a Decimal, as `price` says

    `Queue.wait_for_result(job.id)`, which knows no task, gives the plain values.
    """

    _returns: ReturnValue | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of(job: Job, returns: ReturnValue) -> TaskJob[Any]:
        """The job that was just added, as the job of a task. It is ours alone, so it changes its class: to make it a second
        time would be felt in every enqueue."""
        job.__class__ = TaskJob
        task_job = cast("TaskJob[Any]", job)
        if not returns.plain:
            task_job._returns = returns
        return task_job

    @overload
    async def wait_for_result(
        self: TaskJob[Coroutine[Any, Any, V]], *, timeout: float = ..., poll_interval: float = ...
    ) -> V: ...
    @overload
    async def wait_for_result(self: TaskJob[V], *, timeout: float = ..., poll_interval: float = ...) -> V: ...
    async def wait_for_result(self, *, timeout: float = 30.0, poll_interval: float = 0.1) -> Any:
        """What the task returned, as its annotation says; see `Job.wait_for_result` for what else may happen."""
        form = await super().wait_for_result(timeout=timeout, poll_interval=poll_interval)
        return form if self._returns is None else self._returns.decode(form)
