"""Outcomes handed in one by one, to be written many at a time (settler.py, settle_request.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from relevo.engine.events.event_log import RunEvent
from relevo.engine.settling.delivery import Completed, DeadLettered, Delivery, Frame, Retry

FULL = 256
"""Jobs in a flush that is worth a write of its own; one that waited longer than it took to fill would only hold jobs up."""

_FRAME = 8  # a frame is settled by a script, in about the time of so many plain acks


@dataclass(slots=True)
class OutcomeBatch:
    """What has been handed in since the last flush."""

    done: list[Completed] = field(default_factory=list[Completed])
    retries: list[Retry] = field(default_factory=list[Retry])
    dead_lettered: list[DeadLettered] = field(default_factory=list[DeadLettered])
    frames: list[Frame] = field(default_factory=list[Frame])
    events: list[bytes | RunEvent] = field(default_factory=list[bytes | RunEvent])

    def __bool__(self) -> bool:
        return bool(self.done or self.events or self.retries or self.dead_lettered or self.frames)

    @property
    def full(self) -> bool:
        failed = len(self.retries) + len(self.dead_lettered)
        return len(self.done) + failed + _FRAME * len(self.frames) >= FULL

    def deliveries(self) -> list[Delivery]:
        return [item.delivery for item in (*self.done, *self.retries, *self.dead_lettered, *self.frames)]

    def put(self, item: Completed | Retry | DeadLettered | Frame) -> None:
        if isinstance(item, Frame):
            self.frames.append(item)
        elif isinstance(item, Completed):
            self.done.append(item)
        elif isinstance(item, Retry):
            self.retries.append(item)
        else:
            self.dead_lettered.append(item)
