"""Settles what ran: acks, results, retries, dead letters and events of one flush leave in one write (settle_request.py).

Whatever is handed in while a flush is under way leaves with the next one, so batches grow with the load by themselves. A full
one does not wait for the answer: the server has the next flush when it is done with the last, and is never waited for while
it waits for us. Every settle may be repeated, since the entry's own removal is the gate: flushes whose answers were lost are
sent again, in the same order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import time_ns

from relevo.broker.resp import Reply, command
from relevo.broker.transport import Outcome, Transport
from relevo.engine.events.event_log import RunEvent
from relevo.engine.service.signals import Signal
from relevo.engine.settling.delivery import Completed, DeadLettered, Delivery, Frame, Retry
from relevo.engine.settling.outcome import FULL, OutcomeBatch
from relevo.engine.settling.settle_request import SettleContext, SettleRequest, SettleResult
from relevo.errors import ConnectionLost, RelevoError
from relevo.wire.dead import DeadLetterFields

log = logging.getLogger("relevo.settler")

_REFUSED_PAUSE_S = 0.25
_IN_FLIGHT = 2
_BEHIND = 4


class Settler:
    """Collects outcomes and writes them. `settled` is emitted after each flush that Redis answered."""

    def __init__(self, context: SettleContext) -> None:
        self.settled: Signal[SettleResult] = Signal()
        self._context = context
        self._tells = context.log.enabled
        self._outcomes = OutcomeBatch()
        self._full: deque[OutcomeBatch] = deque()
        """What waits to leave, oldest first; more is handed in to `_outcomes` meanwhile."""
        self._under_way: deque[tuple[SettleRequest, Transport]] = deque()
        self._work = asyncio.Event()
        self._refused = ""
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def behind(self) -> bool:
        """Whether the server takes jobs back more slowly than we run them: to read more would only pile them up here."""
        return len(self._full) >= _BEHIND or bool(self._refused)

    @property
    def refused(self) -> str:
        """Why the server takes no outcomes now, in its own words; empty when it does."""
        return self._refused

    # --- handed in by the runner and the reader ------------------------------------------------------------------------

    def started(self, delivery: Delivery) -> None:
        if self._tells:
            self.event(RunEvent(delivery, time_ns()))

    def done(self, delivery: Delivery, result: bytes, duration: float) -> None:
        """A run that came to its good end."""
        if self._tells:
            self.event(RunEvent(delivery, time_ns(), int(duration * 1e6)), delivery.frame)
        self.finished(delivery, result)

    def finished(self, delivery: Delivery, result: bytes, *, cancelled: bool = False) -> None:
        """A job that does not run again; `done` also says so."""
        frame = delivery.frame
        if frame is None:
            done = self._outcomes.done
            done.append(Completed(delivery, result, cancelled))
            if not self._under_way or len(done) == FULL:  # otherwise the next answer takes it along
                self._work.set()
            return
        frame.done += 1
        if result:
            frame.results.append(Completed(delivery, result))
        if frame.left > 1:
            frame.left -= 1
        else:
            self._came_to_its_end(frame)

    def retry(
        self, delivery: Delivery, wait_ms: int, member: bytes, failure: bytes = b"", *, parked: bool = False
    ) -> None:
        item, frame = Retry(delivery, wait_ms, member, failure, parked), delivery.frame
        (self._outcomes if frame is None else frame).retries.append(item)
        self._came_to_its_end(frame)

    def dead_letter(self, delivery: Delivery, letter: DeadLetterFields, attempt: int) -> None:
        item, frame = DeadLettered(delivery, letter, attempt), delivery.frame
        (self._outcomes if frame is None else frame).dead_lettered.append(item)
        self._came_to_its_end(frame)

    def put_back(self, delivery: Delivery) -> None:
        """A job leaves its frame without having run here, and goes on as an entry of its own."""
        assert delivery.frame is not None, "an entry of its own is handed back as it is"
        delivery.frame.back.append(delivery)
        self._came_to_its_end(delivery.frame)

    def event(self, event: bytes | RunEvent, frame: Frame | None = None) -> None:
        """What is said of a job's end waits for the frame it came in, if it came in one."""
        (self._outcomes if frame is None else frame).events.append(event)
        if not self._under_way:
            self._work.set()

    def keep_failure(self, delivery: Delivery, failure: bytes) -> None:
        """What went wrong with a job that is done all the same; kept as long as its result would be."""
        key = self._context.keys.failure(delivery.envelope.id)
        self.event(command("SET", key, failure, "EX", self._context.result_ttl_s), delivery.frame)

    def _came_to_its_end(self, frame: Frame | None) -> None:
        if frame is not None:
            frame.left -= 1
            if frame.left:
                return
            self._outcomes.frames.append(frame)
            self._outcomes.events.extend(frame.events)
            frame.events.clear()
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
        pause = 0.05
        while not (self._stopping and not self._left()):
            await self._work.wait()
            self._work.clear()
            try:
                await self._write()
            except (RelevoError, OSError) as error:
                log.debug("flush of queue %s not answered yet: %s", self._context.keys.queue, error)
            except Exception:  # whoever is finished would be held for ever, and the worker would take no more
                log.exception("outcomes of queue %s cannot be written; trying again", self._context.keys.queue)
            else:
                pause = 0.05
                continue
            self._take_back()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    def _left(self) -> bool:
        return bool(self._outcomes or self._full or self._under_way)

    async def _write(self) -> None:
        """Sends what may leave and takes what was answered, until there is nothing to do but to wait."""
        await self._send()
        while self._under_way and (answer := self._under_way[0][0].answer) is not None:
            sent, transport = self._under_way[0]
            if isinstance(answer, ConnectionLost):
                raise answer
            await self._context.link.turned(answer, transport)
            self._under_way.popleft()
            self._context.link.accepted()
            await self._answered(sent, answer)
            await self._send()

    async def _send(self) -> None:
        while len(self._under_way) < _IN_FLIGHT and (self._full or self._outcomes):
            if not self._full:
                if self._under_way and not self._outcomes.full:
                    return  # a small one waits for more, until the last is answered
                self._set_aside()
            transport = await self._context.link.ready()
            # What is trusted is judged when it leaves, and anew each time: an outage costs leases.
            sent = SettleRequest(self._context, self._full[0])
            self._under_way.append((sent, transport))
            self._full.popleft()
            transport.submit(sent.data, sent.count, lambda answer, sent=sent: self._on_reply(sent, answer))
        if self._outcomes.full:
            self._set_aside()

    def _set_aside(self) -> None:
        self._full.append(self._outcomes)
        self._outcomes = OutcomeBatch()

    def _on_reply(self, sent: SettleRequest, answer: Outcome) -> None:
        sent.receive(answer)
        self._work.set()

    def _take_back(self) -> None:
        """Nobody can tell how far a lost flush came: it, and those behind it, leave again in their order."""
        while self._under_way:
            self._full.appendleft(self._under_way.pop()[0].outcomes)
        self._work.set()

    async def _answered(self, sent: SettleRequest, replies: list[Reply]) -> None:
        sent.read(replies)
        for delivery in sent.outcomes.deliveries():
            self._context.held.pop(delivery.entry_id, None)
        for event in sent.follow_ups:
            self.event(event)
        for item in sent.kept:
            self._context.held.hold(item.delivery)
            self._outcomes.put(item)
        self._tell_of_refusal(sent)
        self.settled.emit(sent.settlement)
        for frame in sent.outcomes.frames:
            if frame not in sent.kept:
                frame.clear()
        if sent.kept:
            self._work.set()
            await asyncio.sleep(_REFUSED_PAUSE_S)

    def _tell_of_refusal(self, sent: SettleRequest) -> None:
        """A line when the server begins to refuse, and one when it has stopped: not one for each try."""
        if bool(sent.refused) == bool(self._refused) or not (sent.kept or sent.outcomes.deliveries()):
            return  # nothing has changed, or only events were sent
        self._refused = sent.refused
        if sent.refused:
            log.error(
                "Redis refuses what became of jobs of queue %s: %s. It is kept and sent again; nothing is read meanwhile.",
                self._context.keys.queue,
                sent.refused,
            )
        else:
            log.warning("Redis takes what became of jobs of queue %s again.", self._context.keys.queue)
