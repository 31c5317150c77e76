"""Settles what ran: acks, results, retries, dead letters and events of one flush leave in one write (flush.py).

Whatever is handed in while a flush is under way leaves with the next one, so batches grow with the load by themselves.
Every settle may be repeated, since the entry's own removal is the gate: a flush whose answer was lost is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from relevo.engine.admission import Admission
from relevo.engine.delivery import Delivery
from relevo.engine.flush import Burial, Desk, Done, Flush, Outcomes, Parking, Retry, Settlement
from relevo.engine.frame import Frame
from relevo.engine.loop import Signal
from relevo.errors import RelevoError
from relevo.wire.dead import DeadLetterFields

log = logging.getLogger("relevo.settler")


class Settler:
    """Collects outcomes and writes them. `settled` is emitted after each flush that Redis answered."""

    def __init__(self, desk: Desk) -> None:
        self.settled: Signal[Settlement] = Signal()
        self.on_freed: Callable[[], None] = lambda: None
        self.admission: Admission | None = None
        self._desk = desk
        self._outcomes = Outcomes()
        self._work = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    # --- handed in by the runner and the reader ------------------------------------------------------------------------

    def done(self, delivery: Delivery, result: bytes, *, cancelled: bool = False) -> None:
        frame = delivery.frame
        if frame is None:
            self._outcomes.done.append(Done(delivery, result, cancelled))
            self._work.set()
            return
        frame.done += 1
        if result:
            frame.results.append(Done(delivery, result))
        if frame.left > 1:
            frame.left -= 1
        else:
            self._came_to_its_end(frame)

    def retry(self, delivery: Delivery, wait_ms: int, member: bytes) -> None:
        item, frame = Retry(delivery, wait_ms, member), delivery.frame
        (self._outcomes if frame is None else frame).retries.append(item)
        self._came_to_its_end(frame)

    def bury(self, delivery: Delivery, letter: DeadLetterFields, attempt: int) -> None:
        item, frame = Burial(delivery, letter, attempt), delivery.frame
        (self._outcomes if frame is None else frame).burials.append(item)
        self._came_to_its_end(frame)

    def park(self, delivery: Delivery, wait_ms: int, member: bytes) -> None:
        item, frame = Parking(delivery, wait_ms, member), delivery.frame
        (self._outcomes if frame is None else frame).parkings.append(item)
        self._came_to_its_end(frame)

    def put_back(self, delivery: Delivery) -> None:
        """A job leaves its frame without having run here, and goes on as an entry of its own."""
        assert delivery.frame is not None, "an entry of its own is handed back as it is"
        delivery.frame.back.append(delivery)
        self._came_to_its_end(delivery.frame)

    def event(self, packed: bytes, frame: Frame | None = None) -> None:
        """What is said of a job's end waits for the frame it came in, if it came in one."""
        (self._outcomes if frame is None else frame).events.append(packed)
        self._work.set()

    def _came_to_its_end(self, frame: Frame | None) -> None:
        if frame is not None:
            frame.left -= 1
            if frame.left:
                return
            self._outcomes.frames.append(frame)
            self._outcomes.events.extend(frame.events)
        self._work.set()

    # --- life ------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="relevo-settler")

    async def stop(self, *, wait_s: float) -> bool:
        """Writes what is left; False when Redis did not answer in time (the entries then come back by themselves)."""
        self._stopping = True
        self._work.set()
        if self._task is None:
            return True
        _, late = await asyncio.wait([self._task], timeout=wait_s)
        for task in late:
            task.cancel()
            await asyncio.wait([task])
        return not late

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._outcomes:
                outcomes, self._outcomes = self._outcomes, Outcomes()
                await self._write(outcomes)
            if self._stopping:
                return

    async def _write(self, outcomes: Outcomes) -> None:
        """Sends until Redis answers. What is trusted is judged anew each time: an outage costs leases."""
        pause = 0.05
        while True:
            try:
                await self._desk.link.ready()
                flush = Flush(self._desk, outcomes)
                replies = await self._desk.link.send(flush.data, flush.count)
                break
            except (RelevoError, OSError) as error:
                log.debug("flush of queue %s not answered yet: %s", self._desk.keys.queue, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)
        flush.read(replies)
        settled = outcomes.deliveries()
        for delivery in settled:
            self._desk.holdings.pop(delivery.entry_id, None)
        if settled and self.admission is not None and self.admission.at_once:
            self._outcomes.events.append(self.admission.freed([delivery.entry_id for delivery in settled]))
        self._outcomes.events.extend(flush.follow_ups)
        self.on_freed()
        self.settled.emit(flush.settlement)
        if flush.kept:
            for item in flush.kept:
                self._desk.holdings.hold(item.delivery)
                self._outcomes.put(item)
            await asyncio.sleep(0.25)
