"""Outcomes: what became of the jobs a worker ran, handed in one by one and written many at a time (settler.py, flush.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from relevo.engine.delivery import Delivery
from relevo.engine.events import Telling
from relevo.engine.frame import Frame
from relevo.wire.dead import DeadLetterFields

FULL = 256
"""Jobs in a flush that is worth a write of its own; one that waited longer than it took to fill would only hold jobs up."""

_FRAME = 8  # a frame is settled by a script, in about the time of so many plain acks


# Structs without the collector's attention, as `Delivery` is: one of these is made for every run.
class Done(msgspec.Struct, eq=False, gc=False):
    """A job that ran to its end; `result` is empty when nothing is to be stored."""

    delivery: Delivery
    result: bytes
    cancelled: bool = False
    by_script: bool = False
    """A full server refused the plain commands: it still lets a script free an entry and then write."""


class Retry(msgspec.Struct, eq=False, gc=False):
    """A job that failed and runs again after `wait_ms`."""

    delivery: Delivery
    wait_ms: int
    member: bytes
    failure: bytes = b""
    """How the run failed (`wire.failure`); empty when it is not counted."""

    @property
    def attempt(self) -> int:
        """The one to come, counted from 1."""
        return self.delivery.envelope.attempt + (2 if self.failure else 1)


class Burial(msgspec.Struct, eq=False, gc=False):
    """A job that will not run again."""

    delivery: Delivery
    letter: DeadLetterFields
    attempt: int


class Parking(msgspec.Struct, eq=False, gc=False):
    """A job that was told to come back after `wait_ms`; the run does not count."""

    delivery: Delivery
    wait_ms: int
    member: bytes


@dataclass(slots=True)
class Outcomes:
    """What has been handed in since the last flush."""

    done: list[Done] = field(default_factory=list[Done])
    retries: list[Retry] = field(default_factory=list[Retry])
    burials: list[Burial] = field(default_factory=list[Burial])
    parkings: list[Parking] = field(default_factory=list[Parking])
    frames: list[Frame] = field(default_factory=list[Frame])
    events: list[bytes | Telling] = field(default_factory=list[bytes | Telling])

    def __bool__(self) -> bool:
        return bool(self.done or self.events or self.retries or self.burials or self.parkings or self.frames)

    @property
    def full(self) -> bool:
        failed = len(self.retries) + len(self.burials) + len(self.parkings)
        return len(self.done) + failed + _FRAME * len(self.frames) >= FULL

    def deliveries(self) -> list[Delivery]:
        return [item.delivery for item in (*self.done, *self.retries, *self.burials, *self.parkings, *self.frames)]

    def put(self, item: Done | Retry | Burial | Parking | Frame) -> None:
        if isinstance(item, Frame):
            self.frames.append(item)
        elif isinstance(item, Done):
            self.done.append(item)
        elif isinstance(item, Retry):
            self.retries.append(item)
        elif isinstance(item, Burial):
            self.burials.append(item)
        else:
            self.parkings.append(item)
