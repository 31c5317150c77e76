"""A delivery: one entry that this worker holds, from the read until it is settled; what became of it; and all together."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from relevo.broker.resp import Argument
from relevo.engine.events.event_log import RunEvent
from relevo.errors import RelevoError
from relevo.wire.dead import DeadLetterFields
from relevo.wire.envelope import Envelope
from relevo.wire.notes import Notes


class Delivery(msgspec.Struct, eq=False, gc=False):
    """One held entry. The lease keeper writes `leased_at` and `lost` from its own thread; the rest belongs to the loop.

    Made for every job and held by the thousand: a struct is made in a third of a class's time, and the garbage collector,
    which walked over them again and again, need not know them (`slot` is the one way back to us, and is cleared).
    """

    entry_id: bytes
    envelope: Envelope
    name: str
    before: int
    """Deliveries before this one: workers that died with it."""
    leased_at: float
    """Monotonic time before which the server cannot have begun to count its idle time."""
    lost: bool = False
    """Another worker has taken it over: it must not start any more."""
    started: float = 0.0
    """When it began to run, by `time.perf_counter`; 0 before."""
    slot: asyncio.Task[Any] | None = None
    """Who runs it, while it runs."""
    ended_by: RelevoError | None = None
    """Why its run is being ended from outside."""
    notes: Notes | None = None
    """What relevo knows beyond the envelope; None for the ordinary job."""
    frame: Frame | None = None
    """The frame it came in; None for a job with an entry of its own."""

    @property
    def run_over(self) -> bool:
        """It ran, and its outcome is with the settler."""
        return self.started > 0 and self.slot is None

    @property
    def started_at_ms(self) -> float:
        """When it began to run, by the wall clock."""
        return time.time() * 1000 - (time.perf_counter() - self.started) * 1000 if self.started else time.time() * 1000


class HeldDeliveries(dict[bytes, Delivery]):
    """Everything this worker holds, by entry id, and for how long it may trust that it still does."""

    def __init__(self, *, idle_s: float) -> None:
        super().__init__()
        self.idle_s = idle_s
        self.trust_s: float = idle_s * 0.6
        """A lease renewed within this time cannot have lapsed, whatever the network does; beyond it the owner is checked."""

    def hold(self, delivery: Delivery) -> None:
        self[delivery.entry_id] = delivery

    def trusted(self, delivery: Delivery, now: float) -> bool:
        return now - delivery.leased_at < self.trust_s and not delivery.lost


# Structs without the collector's attention, as `Delivery` is: one of these is made for every run.
class Completed(msgspec.Struct, eq=False, gc=False):
    """A job that ran to its end; `result` is empty when nothing is to be stored."""

    delivery: Delivery
    result: bytes
    cancelled: bool = False
    by_script: bool = False
    """A full server refused the plain commands: it still lets a script free an entry and then write."""


class Retry(msgspec.Struct, eq=False, gc=False):
    """A job that runs again after `wait_ms`."""

    delivery: Delivery
    wait_ms: int
    member: bytes
    failure: bytes = b""
    """How the run failed (`wire.failure`); empty when it is not counted."""
    parked: bool = False
    """It was told to come back (`RateLimited`): nothing is said of a retry, and it keeps its place in its lane."""

    @property
    def attempt(self) -> int:
        """The one to come, counted from 1."""
        return self.delivery.envelope.attempt + (2 if self.failure else 1)


class DeadLettered(msgspec.Struct, eq=False, gc=False):
    """A job that will not run again."""

    delivery: Delivery
    letter: DeadLetterFields
    attempt: int


class Frame:
    """The jobs of one entry, and what became of them. `delivery` is the entry itself: it has the lease for all of them."""

    __slots__ = (
        "back",
        "begun",
        "dead_lettered",
        "delivery",
        "done",
        "events",
        "left",
        "results",
        "retries",
    )

    def __init__(self, delivery: Delivery, jobs: int) -> None:
        self.delivery: Delivery = delivery
        self.left: int = jobs
        """Jobs that have not come to their end."""
        self.begun: bool = False
        """Whether one of them has started: from then on the entry cannot be handed back as it came."""
        self.done: int = 0
        self.results: list[Completed] = []
        self.retries: list[Retry] = []
        self.dead_lettered: list[DeadLettered] = []
        self.back: list[Delivery] = []
        """Jobs that did not run here: they go on as entries of their own."""
        self.events: list[bytes | RunEvent] = []
        """What may be said once the frame is settled."""

    def clear(self) -> None:
        """Lets go of its jobs once they are settled. They know their frame, and the collector does not know them: what holds
        itself in a circle would stay for ever."""
        for outcomes in (self.results, self.retries, self.dead_lettered, self.back, self.events):
            outcomes.clear()

    def arguments(self) -> list[Argument]:
        """As `settle_frames.lua` takes them."""
        packed: list[Argument] = [
            self.delivery.entry_id,
            len(self.results),
            len(self.retries),
            len(self.dead_lettered),
            len(self.back),
        ]
        for done in self.results:
            packed += (done.delivery.envelope.id, done.result)
        for retry in self.retries:
            packed += (retry.wait_ms, retry.member, retry.delivery.envelope.id, retry.failure)
        for burial in self.dead_lettered:
            fields = burial.letter.encode()
            packed += (len(fields), *fields)
        for delivery in self.back:
            packed += (delivery.envelope.encode(), delivery.name)
        return packed
