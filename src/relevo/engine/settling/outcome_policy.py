"""What becomes of a job after a run: done, tried again, parked, cancelled or dead-lettered; to the settler and in events."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import NamedTuple

from relevo.engine.events.event_log import EventLog
from relevo.engine.service.signals import Signal
from relevo.engine.settling.bad_result import OnBadResult
from relevo.engine.settling.delivery import Delivery
from relevo.engine.settling.failure_log import Died, Dropped, Failed, FailureLog
from relevo.engine.settling.settle_request import SettleResult
from relevo.engine.settling.settler import Settler
from relevo.engine.settling.tracebacks import error_text, traceback_text
from relevo.errors import BadResult, RateLimited, UnrecoverableError
from relevo.wire.dead import DeadLetterFields, Reason
from relevo.wire.delayed import DelayedMember
from relevo.wire.failure import Failure
from relevo.wire.retry import RetryDefaults, RetryOverride

RetryOf = Callable[[str], RetryOverride | None]
"""What the handler says about jobs of a name: a registry of tasks does."""


class Outcome(NamedTuple):
    """How one run ended: `kind` is ok, error, unrecoverable, undecodable, parked or cancelled; `attempt` counts from 1."""

    kind: str
    name: str
    attempt: int
    duration_s: float
    wait_ms: int
    """How long the job had waited before it started: since it was added, whatever delays and retries lay between."""


class OutcomePolicy:
    """Judges the runs of one worker."""

    def __init__(
        self,
        settler: Settler,
        events: EventLog,
        *,
        queue: str,
        max_attempts: int,
        retry: RetryDefaults,
        function_of: Callable[[str], Callable[..., object] | None] = lambda _: None,
        retry_of: RetryOf | None = None,
        on_bad_result: OnBadResult = "drop",
        failure_log: FailureLog | None = None,
    ) -> None:
        self.outcomes: Signal[Outcome] = Signal()
        self.failure_log: FailureLog = failure_log or FailureLog(queue)
        self._function_of = function_of
        """What runs the jobs of a name: its place stands in for a traceback that has no frame of the user's."""
        self._on_bad_result: OnBadResult = on_bad_result
        self.max_attempts = max_attempts
        self.settler = settler
        self._log = events
        self._retry_defaults = retry
        self._retry_of = retry_of
        """What the handler says about jobs of a name; a registry of tasks does."""
        settler.settled.listen(self._tell_of_dead)

    def attempts_allowed(self, delivery: Delivery) -> int:
        """What the job brings, else what its task says, else what the worker says."""
        own = delivery.envelope.retry
        if own is not None and own.max_attempts is not None:
            return own.max_attempts
        task = self._retry_of(delivery.name) if self._retry_of is not None else None
        return self.max_attempts if task is None or task.max_attempts is None else task.max_attempts

    def _wait_ms(self, delivery: Delivery, attempt: int) -> int:
        own, defaults = delivery.envelope.retry, self._retry_defaults
        backoff = own.backoff if own is not None else None
        if backoff is None and self._retry_of is not None:
            task = self._retry_of(delivery.name)
            backoff = task.backoff if task is not None else None
        return defaults.wait_ms(attempt) if backoff is None else backoff.wait_ms(attempt, defaults)

    def failed(self, delivery: Delivery, error: BaseException, duration: float) -> None:
        envelope, name = delivery.envelope, delivery.name
        attempt = envelope.attempt + 1
        most = self.attempts_allowed(delivery)
        reason = error_text(error)
        trace = traceback_text(error, reason, self._function_of(name))
        unrecoverable = isinstance(error, UnrecoverableError)
        if self._log.enabled:
            packed = self._log.failed(envelope.id, name, attempt, reason, int(duration * 1e6))
            self.settler.event(packed, delivery.frame)
        wait_ms = None
        if unrecoverable:
            self._dead_letter(delivery, Reason.UNRECOVERABLE, reason, trace=trace)
        elif attempt >= most:
            self._dead_letter(delivery, Reason.RETRIES_EXHAUSTED, reason, trace=trace)
        else:
            member = DelayedMember(name, envelope.with_attempt(attempt).encode()).encode()
            wait_ms = self._wait_ms(delivery, attempt)
            failure = Failure(attempt, time_ns() // 1_000_000, reason, trace)
            self.settler.retry(delivery, wait_ms, member, failure.encode())
        if self.failure_log.wants(Failed.level, name):
            self.failure_log.write(Failed(envelope.id, name, attempt, most, wait_ms, reason, trace, error))
        if self.outcomes.listened:
            self.tell("unrecoverable" if unrecoverable else "error", delivery, duration)

    def bad_result(self, delivery: Delivery, error: BadResult, duration: float) -> None:
        """The run ended well, and its result cannot be stored: done without it, or dead, and never run again."""
        if self._on_bad_result == "dead":
            self.failed(delivery, error, duration)
            return
        envelope, what = delivery.envelope, error_text(error)
        trace = traceback_text(error, what, self._function_of(delivery.name))
        if self.failure_log.wants(Dropped.level, delivery.name):
            self.failure_log.write(Dropped(envelope.id, delivery.name, envelope.attempt + 1, what, trace))
        self.settler.done(delivery, b"", duration)
        self.tell("ok", delivery, duration)
        kept = Failure(envelope.attempt + 1, time_ns() // 1_000_000, what, trace, result_dropped=True)
        self.settler.keep_failure(delivery, kept.encode())

    def parked(self, delivery: Delivery, limited: RateLimited, duration: float) -> None:
        envelope, name = delivery.envelope, delivery.name
        member = DelayedMember(name, envelope.encode()).encode()
        self.settler.retry(delivery, limited.wait_ms, member, parked=True)
        if self._log.enabled:
            self.settler.event(self._log.event("rate-limited", envelope.id, name, wait_ms=limited.wait_ms))
        self.tell("parked", delivery, duration)

    def refused(self, delivery: Delivery, wait_ms: int) -> None:
        """This worker does not know its task: it comes back later, and the run is not counted."""
        envelope, name = delivery.envelope, delivery.name
        if self._log.enabled:
            self.settler.event(self._log.event("refused", envelope.id, name, wait_ms=wait_ms), delivery.frame)
        self.settler.retry(delivery, wait_ms, DelayedMember(name, envelope.encode()).encode())

    def cancelled(self, delivery: Delivery, forget: bytes, duration: float) -> None:
        """`forget` is the packed command that takes the mark away, now that it has done its work."""
        self.settler.finished(delivery, b"", cancelled=True)
        self.settler.event(forget)
        if self._log.enabled:
            envelope = delivery.envelope
            packed = self._log.event("cancelled", envelope.id, delivery.name, attempt=envelope.attempt + 1)
            self.settler.event(packed)
        self.tell("cancelled", delivery, duration)

    def undecodable(self, delivery: Delivery, reason: str) -> None:
        self._dead_letter(delivery, Reason.DECODE_FAILED, reason, delivery.envelope.attempt)
        self.tell("undecodable", delivery, 0.0)

    def exhausted(self, delivery: Delivery) -> None:
        """It came with no attempts left (a lower limit than where it was added): it never starts here."""
        allowed, made = self.attempts_allowed(delivery), delivery.envelope.attempt
        self._dead_letter(delivery, Reason.RETRIES_EXHAUSTED, f"{made} runs, {allowed} allowed", made)

    def _dead_letter(
        self, delivery: Delivery, reason: Reason, detail: str, attempts: int | None = None, *, trace: str = ""
    ) -> None:
        envelope = delivery.envelope
        made = envelope.attempt + 1 if attempts is None else attempts
        letter = DeadLetterFields(
            envelope.encode(), delivery.name, delivery.entry_id.decode(), reason, detail, attempts=made, traceback=trace
        )
        self.settler.dead_letter(delivery, letter, made)

    def _tell_of_dead(self, settlement: SettleResult) -> None:
        for burial in settlement.dead_lettered:  # only now: Redis has answered, and it was ours to bury
            letter, envelope = burial.letter, burial.delivery.envelope
            if self.failure_log.wants(Died.level, letter.name):
                self.failure_log.write(Died(envelope.id, letter.name, burial.attempt, letter.reason, letter.detail))

    def tell(self, kind: str, delivery: Delivery, duration: float) -> None:
        envelope = delivery.envelope
        wait_ms = max(0, int(delivery.started_at_ms) - envelope.created_at_ms)
        self.outcomes.emit(Outcome(kind, delivery.name, envelope.attempt + 1, duration, wait_ms))
