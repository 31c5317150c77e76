"""The line of deliveries that wait to run: what reader, limiter and runner share, and all that they know of each other.

    Reader ──put──▶ line ──────────────────────────────────────▶ a slot of the Runner ──▶ running
                 └▶ waiting ──let_in (QueueLimiter)──▶ line        │
                 └▶ aside, while paused                            │
                              doubted ◀── its lease has run out ◀──┤
                                 └─ leases_renewed ──▶ line         │
      ▲                                                            │
      └── room ◀──────────── freed ◀── the line is empty, or Redis has taken outcomes

Only a limited queue has a second line: its deliveries wait for a permit before they may start.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple

from relevo.engine.service.signals import Signal
from relevo.engine.settling.delivery import Delivery

MOST_AT_ONCE = 512
_AHEAD_S = 0.1
_RATE_S = 0.01
"""Over how long the rate is taken: reads grow with it, and until it is known a worker reads no more than its slots hold."""


class Demand(NamedTuple):
    """What the handlers can use: free slots, deliveries waiting for one, and jobs finished a second."""

    free: int
    waiting: int
    rate: float

    def wanted(self, most: int) -> int:
        """How many jobs to read now, `most` at most."""
        ahead = int(min(self.rate * _AHEAD_S, 2 * max(most, MOST_AT_ONCE)))
        wanted = min(most, self.free + ahead - self.waiting)
        # With work still in line a small read is not worth its round trip: wait until it is a good one.
        return wanted if wanted >= (most // 2 if self.waiting else 1) else 0


class RunQueue:
    """What one worker has read and not finished."""

    def __init__(self, slots: int, *, limited: bool = False) -> None:
        self.slots = slots
        self.line: deque[Delivery] = deque()
        """May start."""
        self.waiting: deque[Delivery] = deque()
        """Wait for a permit."""
        self.running: dict[Delivery, None] = {}
        """What runs, in the order of its start."""
        self.paused: bool = False
        """Nothing is read, and what a read under way brings is set aside."""
        self.room: asyncio.Event = asyncio.Event()
        """There may be room for another read."""
        self.stirred: asyncio.Event = asyncio.Event()
        """A permit may be asked for: something waits for one, or a slot is free."""
        self.set_aside: Signal[int] = Signal()
        """Emitted with the number of deliveries that came during a pause."""
        self.coming: bool = False
        """A slot has been told to look at the line and has not done so yet."""
        self._limited = limited
        self._came = 0
        self._aside: list[Delivery] = []
        self._doubted: list[Delivery] = []
        self._parked: deque[asyncio.Future[None]] = deque()
        self._rate = 0.0
        self._rate_at = time.monotonic()
        self._rate_from = 0

    # --- what comes in -------------------------------------------------------------------------------------------------

    def put(self, deliveries: list[Delivery]) -> None:
        """Takes what was read."""
        if self.paused:
            self._aside.extend(deliveries)
            self.set_aside.emit(len(deliveries))
            return
        self._came += len(deliveries)
        if self._limited:
            self.waiting.extend(deliveries)
            self.stirred.set()
        else:
            self.let_in(deliveries)

    def let_in(self, deliveries: list[Delivery]) -> None:
        """Lets deliveries start. Wakes one slot, unless one is on its way. Handlers that never wait are done with the whole
        line in its turn, and to wake the other slots for nothing would cost as much as the jobs; the end of the turn tells
        whether they are needed."""
        self.line.extend(deliveries)
        if not self.coming:
            self.wake(1)

    def doubt(self, delivery: Delivery) -> None:
        """Sets aside what came to its turn with a lease that has run out: the process was stopped, or Redis was away."""
        self._doubted.append(delivery)

    def leases_renewed(self) -> None:
        """Now it is known what is still ours: what is not, says so when its turn comes."""
        if self._doubted:
            doubted, self._doubted = self._doubted, []
            self.let_in(doubted)

    def demand(self) -> Demand:
        now = time.monotonic()
        since, running = now - self._rate_at, len(self.running)
        waiting = len(self.line) + len(self.waiting) + len(self._doubted)
        if since >= _RATE_S:
            finished = self._came - waiting - running
            latest = (finished - self._rate_from) / since
            self._rate = latest if latest > self._rate else (self._rate + latest) / 2
            self._rate_at, self._rate_from = now, finished
        return Demand(self.slots - running, waiting, self._rate)

    # --- what goes out -------------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many deliveries would start at once."""
        return self.slots - len(self.running) - len(self.line)

    def freed(self) -> None:
        """There may be room: for another read, and for another start."""
        self.room.set()
        self.stirred.set()

    def expect(self) -> None:
        """A slot is on its way to the line."""
        self.coming = True

    def attend(self) -> None:
        """A slot looks at the line."""
        self.coming = False

    def park(self) -> asyncio.Future[None]:
        """A slot has nothing to do: done when it has."""
        self.freed()
        parked = asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        return parked

    @property
    def attended(self) -> bool:
        """Whether a slot is parked or on its way: whatever is let in is then looked at."""
        return self.coming or any(not parked.done() for parked in self._parked)

    def wake(self, slots: int) -> int:
        """Wakes parked slots; how many of those wanted are missing."""
        while slots and self._parked:
            parked = self._parked.popleft()
            if not parked.done():
                parked.set_result(None)
                self.coming = True
                slots -= 1
        return slots

    def take_unstarted(self) -> list[Delivery]:
        """Empties the lines; the caller hands these back."""
        unstarted = [*self.line, *self.waiting, *self._aside, *self._doubted]
        self._came -= len(self.line) + len(self.waiting) + len(self._doubted)
        self._doubted.clear()
        self.line.clear()
        self.waiting.clear()
        self._aside.clear()
        return unstarted

    # --- pausing -------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """May be called from any thread."""
        self.paused = True

    def resume(self) -> None:
        """Goes on, with what came meanwhile."""
        self.paused = False
        aside, self._aside = self._aside, []
        if aside:
            self.put(aside)
        self.freed()
