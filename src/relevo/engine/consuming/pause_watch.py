"""Pausing: a queue by a key that all its workers look at, one worker by a word in its own process.

A paused worker reads nothing, finishes what runs, and hands what it had read ahead back to the others.
"""

from __future__ import annotations

import logging

from relevo.broker.link import Link
from relevo.engine.consuming.group_member import GroupMember
from relevo.engine.consuming.reader import Reader
from relevo.engine.consuming.run_queue import RunQueue
from relevo.engine.service.loop import Idle, Loop
from relevo.engine.service.signals import Signal
from relevo.errors import RelevoError, ServerRefused
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.pause")


class PauseWatch(Loop):
    """Stops and starts one worker's reading. Looks at the queue's key every `every` seconds, and before the first read: a
    worker that starts on a paused queue takes nothing."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        queue: RunQueue,
        reader: Reader,
        member: GroupMember,
        *,
        every: float = 0.25,
        idle: Idle | None = None,
    ) -> None:
        super().__init__("pause-watch", every=every, idle=idle)
        self.changed: Signal[bool] = Signal()
        """Emitted when the worker has stopped reading (True; what it had read ahead is handed back) or reads again."""
        self.ticked: Signal[bool] = Signal()
        """Emitted after each look at the key, with whether the worker is paused."""
        self._link = link
        self._keys = keys
        self._queue = queue
        self._reader = reader
        self._member = member
        self._by_worker = False
        self._by_queue: bool | None = None
        self._said = False
        queue.pause()  # until the key was looked at
        queue.set_aside.listen(lambda _: self.wake())

    @property
    def paused(self) -> bool:
        return self._by_worker or self._by_queue is True

    def pause(self) -> None:
        """Pauses this worker alone. Whoever calls this from the worker's loop may `wake` the watch, so that it acts at once."""
        self._by_worker = True
        self._queue.pause()

    def resume(self) -> None:
        """Ends this worker's own pause; that of its queue, if there is one, goes on."""
        self._by_worker = False

    async def tick(self) -> float | None:
        self._by_queue = await self._look()
        if self.paused:
            self._queue.pause()
            await self._give_back()
        else:
            self._queue.resume()
        if self.paused != self._said:
            self._said = self.paused
            log.info("queue %s: this worker %s", self._keys.queue, "is paused" if self._said else "goes on")
            self.changed.emit(self._said)
        self.ticked.emit(self.paused)
        return None

    async def _look(self) -> bool:
        try:
            return await self._link.call("EXISTS", self._keys.paused) == 1
        except ServerRefused as refused:
            # Stopping for good because we may not ask would be worse than working through a pause.
            if self._by_queue is None:
                log.warning("queue %s: %s Pauses of this queue will not be noticed.", self._keys.queue, refused)
            return False

    async def _give_back(self) -> None:
        if not self._said:
            try:
                await self._reader.wake_read()
            except (RelevoError, OSError, TimeoutError) as error:
                log.debug("the blocked read could not be woken: %s", error)
        await self._member.hand_back(self._queue.take_unstarted())
