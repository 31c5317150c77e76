"""Limits of the whole queue: so many starts in a time, so many jobs running at once, over all its workers.

Deliveries wait here, leased like any other, until Redis gives leave. It is asked for as many as start at once, and told when
they have started; in between they count as not started yet. So the limit holds for starts, whatever the lag.
Limits for a key (a tenant, an account) are lanes: see lanes.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, command
from relevo.broker.scripts import script
from relevo.engine.service.signals import Signal
from relevo.engine.settling.delivery import Delivery
from relevo.errors import RelevoError
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.limiter")

ACQUIRE = script("acquire", __name__)
STARTED = script("started", __name__)

_AT_ONCE = 500
_TO_START_MS = 5000
"""How long after the leave a start may come: for so long a worker that died with a leave holds it."""
_FRESH_S = _TO_START_MS / 2000
"""A leave that took longer to arrive is given back: it might lapse before the start."""
_TURNS = 20
_LONGEST_PAUSE_S = 1.0


class Slots(Protocol):
    """Where deliveries with leave go: the runner."""

    @property
    def free(self) -> int: ...

    @property
    def unstarted(self) -> int: ...

    def accept(self, deliveries: list[Delivery]) -> None: ...


class QueueLimiter:
    """Lets deliveries through to the slots, within the limits."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        slots: Slots,
        *,
        rate: int,
        per_ms: int,
        burst: int,
        at_once: int,
        hold_s: float,
    ) -> None:
        self.limited: Signal[int] = Signal()
        """Emitted with the milliseconds to wait, each time no leave was given."""
        self.at_once = at_once
        self._link = link
        self._keys = keys
        self._slots = slots
        self._limits: tuple[Argument, ...] = (rate, per_ms, burst, _TO_START_MS, at_once, int(hold_s * 1000))
        self._line: deque[Delivery] = deque()
        self._work = asyncio.Event()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def waiting(self) -> int:
        return len(self._line)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="relevo-admission")

    async def stop(self) -> None:
        """Lets the present question be answered: leave that was given and not noticed would be lost to the others."""
        self._stopping = True
        self._work.set()
        self._stopped.set()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=2)
            for task in late:
                task.cancel()
                await asyncio.wait([task])

    def deliver(self, deliveries: list[Delivery]) -> None:
        self._line.extend(deliveries)
        self._work.set()

    def take_unstarted(self) -> list[Delivery]:
        unstarted = list(self._line)
        self._line.clear()
        return unstarted

    def freed(self, entry_ids: Sequence[bytes]) -> bytes:
        """The packed command that gives places back; its reply is a number nobody needs."""
        self._work.set()
        return command("ZREM", self._keys.places, *entry_ids)

    def slot_freed(self, also: Callable[[], None]) -> Callable[[], None]:
        """What the runner calls when a slot has nothing to do: there is room for one more start."""

        def freed() -> None:
            self._work.set()
            also()

        return freed

    async def _run(self) -> None:
        while not self._stopping:
            await self._work.wait()
            self._work.clear()
            while self._line and self._slots.free > 0 and not self._stopping:
                try:
                    wait_ms = await self._admit()
                except (RelevoError, OSError) as error:
                    log.debug("no leave could be asked for: %s", error)
                    wait_ms = 200
                if wait_ms:
                    self.limited.emit(wait_ms)
                    await self._pause(wait_ms / 1000)

    async def _admit(self) -> int:
        asked = time.monotonic()
        some = [self._line[at] for at in range(min(len(self._line), self._slots.free, _AT_ONCE))]
        places = [self._keys.limiter, self._keys.places, self._keys.starts]
        reply: Reply = await self._link.run(ACQUIRE, places, *self._limits, *(each.entry_id for each in some))
        granted, wait_ms, told = reply
        leave = {each.entry_id for each in some[:granted]}
        let_in: list[Delivery] = []
        if time.monotonic() - asked < _FRESH_S:
            while self._line and self._line[0].entry_id in leave:
                let_in.append(self._line.popleft())
        if let_in:
            self._slots.accept(let_in)
        if told:
            await self._tell_started(told, len(let_in))
        if self.at_once and len(let_in) < granted:  # others may have the places that we do not use
            gone = leave - {each.entry_id for each in let_in}
            await self._link.call("ZREM", self._keys.places, *gone)
        return 0 if granted else wait_ms

    async def _tell_started(self, told: bytes, count: int) -> None:
        """Once the slots have begun what they were given, which takes a few turns of the loop."""
        turns = 0
        while self._slots.unstarted and not self._stopping:
            await asyncio.sleep(0 if turns < _TURNS else 0.001)
            turns += 1
        await self._link.run(STARTED, [self._keys.starts], told, count)

    async def _pause(self, seconds: float) -> None:
        """Until the time, or (when places are what may be missing) until one of our own jobs has ended. Never for long:
        others may give back a leave that they did not use."""
        if self._stopping:
            return
        self._work.clear()
        wake = self._work if self.at_once else self._stopped
        try:
            # Not wait_for: before Python 3.12 it may swallow our own cancellation.
            async with asyncio.timeout(min(seconds, _LONGEST_PAUSE_S)):
                await wake.wait()
        except TimeoutError:
            return
