"""Which delivery the code that runs right now works for: for log records and spans, through awaits, tasks and threads."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import NamedTuple, TypeVar

from relevo.engine.settling.delivery import Delivery

T = TypeVar("T")

# One `set` for each job is all that the hot path pays; whoever wants to know puts the parts together.
QUEUE: ContextVar[str | None] = ContextVar("relevo-queue", default=None)
DELIVERY: ContextVar[Delivery | None] = ContextVar("relevo-delivery", default=None)


class JobContext(NamedTuple):
    """The job that is running; `attempt` counts from 1."""

    queue: str
    job_id: str
    name: str
    attempt: int

    @staticmethod
    def current() -> JobContext | None:
        """None outside of handlers."""
        delivery = DELIVERY.get()
        if delivery is None:
            return None
        envelope = delivery.envelope
        return JobContext(QUEUE.get() or "", envelope.id, delivery.name, envelope.attempt + 1)


def here(call: Callable[[], T]) -> Callable[[], T]:
    """`call`, to be made on another thread and yet in the context of this line: a pool's threads have none."""
    return partial(copy_context().run, call)
