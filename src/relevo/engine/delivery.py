"""A delivery: one entry that this worker holds, from the read until it is settled; and all of them together."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec

from relevo.errors import RelevoError
from relevo.wire.envelope import Envelope
from relevo.wire.notes import Notes

if TYPE_CHECKING:
    from relevo.engine.frame import Frame


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
    def started_at_ms(self) -> float:
        """When it began to run, by the wall clock."""
        return time.time() * 1000 - (time.perf_counter() - self.started) * 1000 if self.started else time.time() * 1000


class Holdings(dict[bytes, Delivery]):
    """Everything this worker holds, by entry id, and for how long it may trust that it still does."""

    def __init__(self, *, idle_s: float) -> None:
        super().__init__()
        self.idle_s = idle_s
        self.trust_s = idle_s * 0.6
        """A lease renewed within this time cannot have lapsed, whatever the network does; beyond it the owner is checked."""

    def hold(self, delivery: Delivery) -> None:
        self[delivery.entry_id] = delivery

    def trusted(self, delivery: Delivery, now: float) -> bool:
        return now - delivery.leased_at < self.trust_s and not delivery.lost
