"""Limits of the whole queue: so many starts in a time, so many jobs running at once, over all its workers.

Deliveries wait in the run queue, leased like any other, until Redis gives leave. It is asked for as many as start at once,
and told when they have started; in between they count as not started yet. So the limit holds for starts, whatever the lag.
Limits for a key (a tenant, an account) are lanes: see lanes.py.
"""

from __future__ import annotations

import asyncio
import logging
import time

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply
from relevo.broker.scripts import script
from relevo.engine.consuming.run_queue import RunQueue
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
_AGAIN_MS = 200


class QueueLimiter:
    """Lets deliveries in, within the limits."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        queue: RunQueue,
        *,
        rate: int,
        per_ms: int,
        burst: int,
        at_once: int,
        hold_s: float,
    ) -> None:
        self.limited: Signal[int] = Signal()
        """Emitted with the milliseconds to wait, each time no leave was given."""
        self.trouble: str | None = None
        """Why no leave can be had; None when it can."""
        self.at_once = at_once
        self._link = link
        self._keys = keys
        self._queue = queue
        self._limits: tuple[Argument, ...] = (rate, per_ms, burst, _TO_START_MS, at_once, int(hold_s * 1000))
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="relevo-admission")

    async def stop(self) -> None:
        """Lets the present question be answered: leave that was given and not noticed would be lost to the others."""
        self._stopping = True
        self._queue.stirred.set()
        self._stopped.set()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=2)
            for task in late:
                task.cancel()
                await asyncio.wait([task])

    async def _run(self) -> None:
        while not self._stopping:
            await self._queue.stirred.wait()
            self._queue.stirred.clear()
            while self._queue.waiting and self._queue.free > 0 and not self._stopping:
                try:
                    wait_ms = await self._admit()
                except (RelevoError, OSError) as error:
                    log.debug("no leave could be asked for: %s", error)
                    self.trouble, wait_ms = str(error), _AGAIN_MS
                except Exception as error:  # a fault of ours must not end the starting for good
                    log.exception("the limiter of queue %s failed; going on", self._keys.queue)
                    self.trouble, wait_ms = str(error), _AGAIN_MS
                else:
                    self.trouble = None
                if wait_ms:
                    self.limited.emit(wait_ms)
                    await self._pause(wait_ms / 1000)

    async def _admit(self) -> int:
        asked, waiting = time.monotonic(), self._queue.waiting
        some = [waiting[at] for at in range(min(len(waiting), self._queue.free, _AT_ONCE))]
        places = [self._keys.limiter, self._keys.places, self._keys.starts]
        reply: Reply = await self._link.run(ACQUIRE, places, *self._limits, *(each.entry_id for each in some))
        granted, wait_ms, told = reply
        leave = {each.entry_id for each in some[:granted]}
        let_in: list[Delivery] = []
        if time.monotonic() - asked < _FRESH_S:
            while waiting and waiting[0].entry_id in leave:
                let_in.append(waiting.popleft())
        if let_in:
            self._queue.let_in(let_in)
        if told:
            await self._tell_started(told, len(let_in))
        if self.at_once and len(let_in) < granted:  # others may have the places that we do not use
            gone = leave - {each.entry_id for each in let_in}
            await self._link.call("ZREM", self._keys.places, *gone)
        return 0 if granted else wait_ms

    async def _tell_started(self, told: bytes, count: int) -> None:
        """Once the slots have begun what they were given, which takes a few turns of the loop."""
        turns = 0
        while self._queue.line and not self._stopping:
            await asyncio.sleep(0 if turns < _TURNS else 0.001)
            turns += 1
        await self._link.run(STARTED, [self._keys.starts], told, count)

    async def _pause(self, seconds: float) -> None:
        """Until the time, or (when places are what may be missing) until one of our own jobs has ended. Never for long:
        others may give back a leave that they did not use."""
        if self._stopping:
            return
        self._queue.stirred.clear()
        wake = self._queue.stirred if self.at_once else self._stopped
        try:
            # Not wait_for: before Python 3.12 it may swallow our own cancellation.
            async with asyncio.timeout(min(seconds, _LONGEST_PAUSE_S)):
                await wake.wait()
        except TimeoutError:
            return
