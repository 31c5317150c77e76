"""Limits of the whole queue: so many starts in a time, so many jobs running at once, over all its workers.

Deliveries wait here, leased like any other, until Redis gives leave. Asked for what is in hand only, so no leave is wasted.
Limits for a key (a tenant, an account) are lanes: see lanes.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, command
from relevo.broker.scripts import script
from relevo.engine.delivery import Delivery
from relevo.engine.loop import Signal
from relevo.errors import RelevoError
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.admission")

ACQUIRE = script("acquire")

_AT_ONCE = 500


class Admission:
    """Lets deliveries through to `deliver`, within the limits."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        deliver: Callable[[list[Delivery]], None],
        *,
        rate: int,
        per_ms: int,
        at_once: int,
        hold_s: float,
    ) -> None:
        self.limited: Signal[int] = Signal()
        """Emitted with the milliseconds to wait, each time no leave was given."""
        self.at_once = at_once
        self._link = link
        self._keys = keys
        self._deliver = deliver
        self._limits: tuple[Argument, ...] = (rate, per_ms, at_once, int(hold_s * 1000))
        self._line: deque[Delivery] = deque()
        self._work = asyncio.Event()
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

    async def _run(self) -> None:
        while not self._stopping:
            await self._work.wait()
            self._work.clear()
            while self._line and not self._stopping:
                try:
                    wait_ms = await self._admit()
                except (RelevoError, OSError) as error:
                    log.debug("no leave could be asked for: %s", error)
                    wait_ms = 200
                if wait_ms:
                    self.limited.emit(wait_ms)
                    await self._pause(wait_ms / 1000)

    async def _admit(self) -> int:
        some = [self._line[at] for at in range(min(len(self._line), _AT_ONCE))]
        reply: Reply = await self._link.run(
            ACQUIRE, [self._keys.limiter, self._keys.places], *self._limits, *(each.entry_id for each in some)
        )
        granted, wait_ms = reply
        leave = {each.entry_id for each in some[:granted]}
        let_in: list[Delivery] = []
        while self._line and self._line[0].entry_id in leave:
            let_in.append(self._line.popleft())
        if let_in:
            self._deliver(let_in)
        if self.at_once and len(let_in) < granted:  # the line was handed back meanwhile: others may have these places
            gone = leave - {each.entry_id for each in let_in}
            await self._link.call("ZREM", self._keys.places, *gone)
        return 0 if granted else wait_ms

    async def _pause(self, seconds: float) -> None:
        """Until the time, or (when places are what is missing) until one of our own jobs has ended."""
        if self._stopping:
            return
        self._work.clear()
        try:
            async with asyncio.timeout(seconds):  # not wait_for: before Python 3.12 it may swallow our own cancellation
                await self._work.wait()
        except TimeoutError:
            return
