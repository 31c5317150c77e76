"""What becomes of a job after a run: done, tried again, parked, cancelled or dead-lettered; to the settler and in events."""

from __future__ import annotations

import logging
from time import time_ns
from typing import NamedTuple

from relevo.engine.delivery import Delivery
from relevo.engine.events import EventLog, Telling
from relevo.engine.loop import Signal
from relevo.engine.settler import Settler
from relevo.errors import NotEncodable, RateLimited, UnrecoverableError
from relevo.wire.dead import DeadLetterFields, Reason
from relevo.wire.delayed import DelayedMember
from relevo.wire.retry import RetryDefaults

log = logging.getLogger("relevo.verdicts")


class Outcome(NamedTuple):
    """How one run ended: `kind` is ok, error, unrecoverable, undecodable, parked or cancelled; `attempt` counts from 1."""

    kind: str
    name: str
    attempt: int
    duration_s: float
    wait_ms: int
    """How long the job had waited before it started: since it was added, whatever delays and retries lay between."""


class Verdicts:
    """Judges the runs of one worker."""

    def __init__(self, settler: Settler, events: EventLog, *, max_attempts: int, retry: RetryDefaults) -> None:
        self.outcomes: Signal[Outcome] = Signal()
        self.tells = events.enabled
        self.max_attempts = max_attempts
        self.settler = settler
        self._log = events
        self._retry_defaults = retry

    def attempts_allowed(self, delivery: Delivery) -> int:
        retry = delivery.envelope.retry
        return self.max_attempts if retry is None or retry.max_attempts is None else retry.max_attempts

    def started(self, delivery: Delivery) -> None:
        if self.tells:
            self.settler.event(Telling(delivery, time_ns()))

    def done(self, delivery: Delivery, result: bytes, duration: float) -> None:
        if self.tells:
            self.settler.event(Telling(delivery, time_ns(), int(duration * 1e6)), delivery.frame)
        self.settler.done(delivery, result)
        if self.outcomes.listened:
            self._tell("ok", delivery, duration)

    def failed(self, delivery: Delivery, error: BaseException, duration: float) -> None:
        envelope, name = delivery.envelope, delivery.name
        attempt = envelope.attempt + 1
        reason = _reason(error)
        unrecoverable = isinstance(error, UnrecoverableError)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("job %s (%s) failed, attempt %d: %s", envelope.id, name, attempt, reason)
        if self.tells:
            packed = self._log.failed(envelope.id, name, attempt, reason, int(duration * 1e6))
            self.settler.event(packed, delivery.frame)
        if unrecoverable:
            self._bury(delivery, Reason.UNRECOVERABLE, reason)
        elif attempt >= self.attempts_allowed(delivery):
            self._bury(delivery, Reason.RETRIES_EXHAUSTED, reason)
        else:
            backoff = envelope.retry.backoff if envelope.retry is not None else None
            defaults = self._retry_defaults
            wait_ms = defaults.wait_ms(attempt) if backoff is None else backoff.wait_ms(attempt, defaults)
            member = DelayedMember(name, envelope.with_attempt(attempt).encode()).encode()
            self.settler.retry(delivery, wait_ms, member)
        if self.outcomes.listened:
            self._tell("unrecoverable" if unrecoverable else "error", delivery, duration)

    def parked(self, delivery: Delivery, limited: RateLimited, duration: float) -> None:
        envelope, name = delivery.envelope, delivery.name
        self.settler.park(delivery, limited.wait_ms, DelayedMember(name, envelope.encode()).encode())
        if self._log.enabled:
            self.settler.event(self._log.event("rate-limited", envelope.id, name, wait_ms=limited.wait_ms))
        self._tell("parked", delivery, duration)

    def cancelled(self, delivery: Delivery, forget: bytes, duration: float) -> None:
        """`forget` is the packed command that takes the mark away, now that it has done its work."""
        self.settler.done(delivery, b"", cancelled=True)
        self.settler.event(forget)
        if self._log.enabled:
            envelope = delivery.envelope
            packed = self._log.event("cancelled", envelope.id, delivery.name, attempt=envelope.attempt + 1)
            self.settler.event(packed)
        self._tell("cancelled", delivery, duration)

    def undecodable(self, delivery: Delivery, reason: str) -> None:
        self._bury(delivery, Reason.DECODE_FAILED, reason)
        self._tell("undecodable", delivery, 0.0)

    def exhausted(self, delivery: Delivery) -> None:
        """It came with no attempts left (a lower limit than where it was added): it never starts here."""
        allowed, made = self.attempts_allowed(delivery), delivery.envelope.attempt
        self._bury(delivery, Reason.RETRIES_EXHAUSTED, f"{made} runs, {allowed} allowed", made)

    def _bury(self, delivery: Delivery, reason: Reason, detail: str, attempt: int | None = None) -> None:
        envelope = delivery.envelope
        letter = DeadLetterFields(envelope.encode(), delivery.name, delivery.entry_id.decode(), reason, detail)
        self.settler.bury(delivery, letter, envelope.attempt + 1 if attempt is None else attempt)

    def _tell(self, kind: str, delivery: Delivery, duration: float) -> None:
        envelope = delivery.envelope
        wait_ms = max(0, int(delivery.started_at_ms) - envelope.created_at_ms)
        self.outcomes.emit(Outcome(kind, delivery.name, envelope.attempt + 1, duration, wait_ms))


def _reason(error: BaseException) -> str:
    if isinstance(error, NotEncodable):
        return f"the handler's result cannot be stored: {error}"
    return str(error) or type(error).__name__
