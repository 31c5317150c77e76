"""Runs handlers: a fixed number of slots over one line of deliveries. A slot is a task that lives as long as the worker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from relevo.engine.delivery import Delivery, Holdings
from relevo.engine.events import EventLog
from relevo.engine.job import Job
from relevo.engine.loop import Signal
from relevo.engine.reader import Demand
from relevo.engine.settler import Settler
from relevo.errors import NotEncodable, RateLimited, Undecodable, UnrecoverableError
from relevo.wire.dead import DeadLetterFields, Reason
from relevo.wire.delayed import DelayedMember
from relevo.wire.payload import MSGPACK, Codec
from relevo.wire.retry import RetryDefaults

log = logging.getLogger("relevo.runner")

Handler = Callable[[Job], Awaitable[Any]]

_TURN_S = 0.005


class Outcome(NamedTuple):
    """How one run ended: `kind` is ok, error, unrecoverable or undecodable; `attempt` counts from 1."""

    kind: str
    name: str
    attempt: int
    duration_s: float


class Runner:
    """The slots of one worker."""

    def __init__(
        self,
        handler: Handler,
        concurrency: int,
        holdings: Holdings,
        settler: Settler,
        events: EventLog,
        *,
        max_attempts: int,
        retry: RetryDefaults,
        store_results: bool,
        codec: Codec = MSGPACK,
    ) -> None:
        self.outcomes: Signal[Outcome] = Signal()
        self.running: dict[bytes, Delivery] = {}
        self._handler = handler
        self._concurrency = concurrency
        self._holdings = holdings
        self._settler = settler
        self._log = events
        self._max_attempts = max_attempts
        self._retry_defaults = retry
        self._store_results = store_results
        self._encode, self._decode = codec
        self._line: deque[Delivery] = deque()
        self._parked: deque[asyncio.Future[None]] = deque()
        self._slots: list[asyncio.Task[None]] = []
        self._stopping = False
        self._finished = 0
        self._rate = 0.0
        self._rate_at = time.monotonic()
        self._rate_from = 0
        self.on_free: Callable[[], None] = lambda: None

    # --- the line ------------------------------------------------------------------------------------------------------

    def demand(self) -> Demand:
        now = time.monotonic()
        since = now - self._rate_at
        if since >= 0.05:
            latest = (self._finished - self._rate_from) / since
            self._rate = latest if latest > self._rate else (self._rate + latest) / 2
            self._rate_at, self._rate_from = now, self._finished
        return Demand(self._concurrency - len(self.running), len(self._line), self._rate)

    def deliver(self, deliveries: list[Delivery]) -> None:
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
        return unstarted

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
        loop = asyncio.get_running_loop()
        turn_ends = 0.0
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
            if delivery.lost:
                self._holdings.pop(delivery.entry_id, None)
                log.warning("job %s was taken over before it started here", delivery.envelope.id)
                continue
            await self._run(delivery)

    async def _run(self, delivery: Delivery) -> None:
        envelope, name = delivery.envelope, delivery.name
        attempt = envelope.attempt + 1
        try:
            data = self._decode(envelope.payload)
        except Undecodable as error:
            self._bury(delivery, Reason.DECODE_FAILED, error.reason)
            self.outcomes.emit(Outcome("undecodable", name, attempt, 0.0))
            return
        limit = self._limit(delivery)
        if attempt > limit:
            self._bury(
                delivery, Reason.RETRIES_EXHAUSTED, f"{envelope.attempt} runs, {limit} allowed", envelope.attempt
            )
            return
        events = self._log.enabled
        if events:
            self._settler.event(self._log.active(envelope.id, name, attempt))
        job = Job(envelope.id, name, data, envelope.attempt, envelope.created_at_ms)
        delivery.started = True
        self.running[delivery.entry_id] = delivery
        started = time.perf_counter()
        try:
            value = await self._handler(job)
            result = self._encode(value, name) if value is not None and self._store_results else b""
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if self._stopping or (task is not None and task.cancelling()):
                raise  # we are leaving: the delivery stays in `running` and is handed back
            self._failed(delivery, cancelled, time.perf_counter() - started)
        except RateLimited as limited:
            member = DelayedMember(name, envelope.encode()).encode()
            self._settler.park(delivery, limited.wait_ms, member)
            if events:
                self._settler.event(self._log.event("rate-limited", envelope.id, name, wait_ms=limited.wait_ms))
            self.outcomes.emit(Outcome("parked", name, attempt, time.perf_counter() - started))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            self._failed(delivery, error, time.perf_counter() - started)
        else:
            duration = time.perf_counter() - started
            if events:
                self._settler.event(self._log.completed(envelope.id, name, attempt, int(duration * 1e6)))
            self._settler.done(delivery, result)
            self.outcomes.emit(Outcome("ok", name, attempt, duration))
        del self.running[delivery.entry_id]
        self._finished += 1

    def _limit(self, delivery: Delivery) -> int:
        retry = delivery.envelope.retry
        return self._max_attempts if retry is None or retry.max_attempts is None else retry.max_attempts

    def _failed(self, delivery: Delivery, error: BaseException, duration: float) -> None:
        envelope, name = delivery.envelope, delivery.name
        attempt = envelope.attempt + 1
        reason = _reason(error)
        unrecoverable = isinstance(error, UnrecoverableError)
        log.debug("job %s (%s) failed, attempt %d: %s", envelope.id, name, attempt, reason)
        if self._log.enabled:
            self._settler.event(self._log.failed(envelope.id, name, attempt, reason, int(duration * 1e6)))
        if unrecoverable:
            self._bury(delivery, Reason.UNRECOVERABLE, reason)
        elif attempt >= self._limit(delivery):
            self._bury(delivery, Reason.RETRIES_EXHAUSTED, reason)
        else:
            backoff = envelope.retry.backoff if envelope.retry is not None else None
            defaults = self._retry_defaults
            wait_ms = defaults.wait_ms(attempt) if backoff is None else backoff.wait_ms(attempt, defaults)
            member = DelayedMember(name, envelope.with_attempt(attempt).encode()).encode()
            self._settler.retry(delivery, wait_ms, member)
        self.outcomes.emit(Outcome("unrecoverable" if unrecoverable else "error", name, attempt, duration))

    def _bury(self, delivery: Delivery, reason: Reason, detail: str, attempt: int | None = None) -> None:
        envelope = delivery.envelope
        letter = DeadLetterFields(envelope.encode(), delivery.name, delivery.entry_id.decode(), reason, detail)
        self._settler.bury(delivery, letter, envelope.attempt + 1 if attempt is None else attempt)


def _reason(error: BaseException) -> str:
    if isinstance(error, NotEncodable):
        return f"the handler's result cannot be stored: {error}"
    return str(error) or type(error).__name__
