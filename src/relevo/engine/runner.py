"""Runs handlers: a fixed number of slots over one line of deliveries. A slot is a task that lives as long as the worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable

from relevo.broker.resp import command
from relevo.engine.admission import Admission
from relevo.engine.delivery import Delivery, Holdings
from relevo.engine.handlers import Handler
from relevo.engine.job import Job
from relevo.engine.job_context import DELIVERY, QUEUE
from relevo.engine.reader import Demand
from relevo.engine.reports import Reports
from relevo.engine.tracing import HandlerSpans
from relevo.engine.verdicts import Verdicts
from relevo.errors import JobCancelled, JobTimedOut, RateLimited, RelevoError, Undecodable
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec

log = logging.getLogger("relevo.runner")

_TURN_S = 0.005


class Runner:
    """The slots of one worker."""

    def __init__(
        self,
        handler: Handler,
        concurrency: int,
        keys: QueueKeys,
        holdings: Holdings,
        verdicts: Verdicts,
        *,
        store_results: bool,
        spans: HandlerSpans,
        codec: Codec = MSGPACK,
    ) -> None:
        self.running: dict[bytes, Delivery] = {}
        self.cancelled: frozenset[str] = frozenset()
        """Ids of jobs that are not to run, as last seen."""
        self.is_marked: Callable[[str], Awaitable[bool]] = _as_seen
        self.admission: Admission | None = None
        self.reports: Reports | None = None
        self.on_free: Callable[[], None] = lambda: None
        self._handler = handler
        self._concurrency = concurrency
        self._keys = keys
        self._holdings = holdings
        self._verdicts = verdicts
        self._store_results = store_results
        self._spans = spans
        self._encode, self._decode = codec
        self._line: deque[Delivery] = deque()
        self._parked: deque[asyncio.Future[None]] = deque()
        self._slots: list[asyncio.Task[None]] = []
        self._stopping = False
        self._finished = 0
        self._rate = 0.0
        self._rate_at = time.monotonic()
        self._rate_from = 0

    # --- the line ------------------------------------------------------------------------------------------------------

    def demand(self) -> Demand:
        now = time.monotonic()
        since = now - self._rate_at
        if since >= 0.05:
            latest = (self._finished - self._rate_from) / since
            self._rate = latest if latest > self._rate else (self._rate + latest) / 2
            self._rate_at, self._rate_from = now, self._finished
        waiting = len(self._line) + (0 if self.admission is None else self.admission.waiting)
        return Demand(self._concurrency - len(self.running), waiting, self._rate)

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Takes deliveries that may start; where the queue has limits they ask for leave first."""
        if self.admission is not None:
            self.admission.deliver(deliveries)
        else:
            self.accept(deliveries)

    def accept(self, deliveries: list[Delivery]) -> None:
        self._line.extend(deliveries)
        wake = min(len(deliveries), self._concurrency)
        while wake and self._parked:
            parked = self._parked.popleft()
            if not parked.done():
                parked.set_result(None)
                wake -= 1
        while wake and len(self._slots) < self._concurrency:
            self._slots.append(asyncio.create_task(self._slot(), name="relevo-slot"))
            wake -= 1

    def take_unstarted(self) -> list[Delivery]:
        """Empties the line; the caller hands these back."""
        unstarted = list(self._line)
        self._line.clear()
        return unstarted if self.admission is None else unstarted + self.admission.take_unstarted()

    def no_more(self) -> None:
        """Nothing that has not started will; may be called from any thread."""
        self._stopping = True

    # --- the end -------------------------------------------------------------------------------------------------------

    async def finish(self, deadline_s: float) -> list[Delivery]:
        """Lets running handlers end, cancels what still runs at the deadline, returns what did not end."""
        self._stopping = True
        for parked in self._parked:
            if not parked.done():
                parked.set_result(None)
        busy = [slot for slot in self._slots if not slot.done()]
        if busy:
            late = set(busy)
            if deadline_s > 0:
                _, late = await asyncio.wait(busy, timeout=deadline_s)
            for slot in late:
                slot.cancel()
            if late:
                await asyncio.wait(late, timeout=5)
        return list(self.running.values())

    def cut_short(self) -> None:
        """Stops waiting for running handlers: cancels them now."""
        self._stopping = True
        for slot in self._slots:
            slot.cancel()

    # --- a slot --------------------------------------------------------------------------------------------------------

    async def _slot(self) -> None:
        line, parked = self._line, self._parked
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        turn_ends = 0.0
        QUEUE.set(self._keys.queue)
        while True:
            if not line:
                if self._stopping:
                    return
                self.on_free()
                future = loop.create_future()
                parked.append(future)
                await future
                turn_ends = loop.time() + _TURN_S
                continue
            if self._stopping:
                return
            if loop.time() > turn_ends:  # handlers that never wait must not keep the loop from reading and settling
                turn_ends = loop.time() + _TURN_S
                await asyncio.sleep(0)
                continue
            delivery = line.popleft()
            DELIVERY.set(delivery)
            if delivery.lost:
                self._holdings.pop(delivery.entry_id, None)
                log.warning("job %s was taken over before it started here", delivery.envelope.id)
                continue
            delivery.slot = me
            await self._run(delivery)

    async def _run(self, delivery: Delivery) -> None:
        envelope, verdicts = delivery.envelope, self._verdicts
        try:
            data = self._decode(envelope.payload)
        except Undecodable as error:
            verdicts.undecodable(delivery, error.reason)
            return
        if envelope.attempt >= verdicts.attempts_allowed(delivery):
            verdicts.exhausted(delivery)
            return
        # Asked again: the id may have been used anew since the marks were last looked at.
        if envelope.id in self.cancelled and await self.is_marked(envelope.id):
            verdicts.cancelled(delivery, self._forget(envelope.id), 0.0)
            return
        verdicts.started(delivery)
        job = Job(envelope.id, delivery.name, data, envelope.attempt, envelope.created_at_ms, None, self.reports)
        traced = self._spans.always
        if delivery.notes is not None:
            job.flow = delivery.notes.flow
            traced = self._spans.wanted(delivery.notes)
        delivery.started = started = time.perf_counter()
        self.running[delivery.entry_id] = delivery
        try:
            value = await (self._handler(job) if not traced else self._spans.run(self._handler, job, delivery.notes))
            wanted = self._store_results or (delivery.notes is not None and delivery.notes.flow is not None)
            result = self._encode(value, delivery.name) if wanted and value is not None else b""
        except asyncio.CancelledError as cancelled:
            if not self._stop_of_one(delivery, cancelled, time.perf_counter() - started):
                raise  # we are leaving: the delivery stays in `running` and is handed back
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            duration = time.perf_counter() - started
            if delivery.ended_by is not None:
                self._ended(delivery, delivery.ended_by, duration)
            elif isinstance(error, RateLimited):
                verdicts.parked(delivery, error, duration)
            else:
                verdicts.failed(delivery, error, duration)
        else:
            if delivery.ended_by is not None:  # the handler would not stop: what it returned no longer counts
                self._ended(delivery, delivery.ended_by, time.perf_counter() - started)
            else:
                verdicts.done(delivery, result, time.perf_counter() - started)
        del self.running[delivery.entry_id]
        self._finished += 1

    # --- ending one run --------------------------------------------------------------------------------------------------

    def cancel(self, ids: frozenset[str]) -> None:
        """Cancels what runs among `ids`, and whatever of them comes to run from now on."""
        self.cancelled = ids
        for delivery in list(self.running.values()):
            if delivery.envelope.id in ids:
                self._end(delivery, JobCancelled(job_id=delivery.envelope.id))

    def expire(self, before: float, timeout_s: float) -> int:
        """Fails what has been running since before `before`; the number of runs ended."""
        late = [delivery for delivery in self.running.values() if delivery.started and delivery.started < before]
        return sum(self._end(each, JobTimedOut(job_id=each.envelope.id, timeout_s=timeout_s)) for each in late)

    @staticmethod
    def _end(delivery: Delivery, why: RelevoError) -> bool:
        if delivery.ended_by is not None or delivery.slot is None:
            return False
        delivery.ended_by = why
        return delivery.slot.cancel()

    def _stop_of_one(self, delivery: Delivery, cancelled: asyncio.CancelledError, duration: float) -> bool:
        """Judges a run that was cancelled; False when not the run but the whole worker is being stopped."""
        why, task = delivery.ended_by, delivery.slot
        if why is not None:
            self._ended(delivery, why, duration)
            return True
        if self._stopping or (task is not None and task.cancelling()):
            return False
        self._verdicts.failed(delivery, cancelled, duration)  # the handler's own doing
        return True

    def _ended(self, delivery: Delivery, why: RelevoError, duration: float) -> None:
        if delivery.slot is not None:
            delivery.slot.uncancel()  # the slot lives on
        if isinstance(why, JobCancelled):
            self._verdicts.cancelled(delivery, self._forget(delivery.envelope.id), duration)
        else:
            self._verdicts.failed(delivery, why, duration)

    def _forget(self, job_id: str) -> bytes:
        return command("ZREM", self._keys.cancelled, job_id)


async def _as_seen(_: str) -> bool:
    return True
