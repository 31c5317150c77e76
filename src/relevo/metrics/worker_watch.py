"""Listens to one worker and writes down what happens. The hot path pays for a list's append; the sums are made once a flush."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from relevo.engine.consuming.lease_keeper import Renewal
from relevo.engine.consuming.reader import Batch
from relevo.engine.duties.promoter import Promoter, PromoterTick
from relevo.engine.duties.stalled_detector import StalledDetector, StalledTick
from relevo.engine.schedules.scheduler import SchedulerService, SchedulerTick
from relevo.engine.service.loop import Loop
from relevo.engine.service.signals import Signal
from relevo.engine.settling.outcome_policy import Outcome
from relevo.engine.settling.settle_request import SettleResult
from relevo.engine.worker import Worker
from relevo.metrics.instruments import Distribution, Instruments, Value
from relevo.metrics.job_names import JobNames
from relevo.wire.dead import Reason

T = TypeVar("T")


class NameTally:
    """The numbers of one job name, looked up once."""

    __slots__ = ("by_kind", "ran", "waited")

    def __init__(self, instruments: Instruments, queue: str, name: str) -> None:
        failed = instruments.failed.child(queue, "error", name)
        # What cannot be decoded never ran: it is counted where it ends, among the dead letters.
        self.by_kind: dict[str, Value] = {
            "ok": instruments.completed.child(queue, name),
            "error": failed,
            "unrecoverable": failed,
            "parked": instruments.parked.child(queue, name),
            "cancelled": instruments.cancelled.child(queue, name),
        }
        self.ran: Distribution = instruments.handler_seconds.child(queue, name)
        self.waited: Distribution = instruments.wait_seconds.child(queue, name)


class DutyWatch:
    """Listens to the duties that a worker has and that may also have a process of their own."""

    def __init__(self, instruments: Instruments, queue: str) -> None:
        self.queue = queue
        self._instruments = instruments
        self._stops: list[Callable[[], None]] = []

    def stop(self) -> None:
        """Listens no more; what was counted stays."""
        for stop in self._stops:
            stop()
        self._stops.clear()

    def hear(self, signal: Signal[T], listener: Callable[[T], None]) -> None:
        self._stops.append(signal.listen(listener))

    def promoting(self, promoted: Signal[PromoterTick], leading: Signal[bool]) -> None:
        moved = self._instruments.promoted.child(self.queue)

        def tick(tick: PromoterTick) -> None:
            moved.add(tick.promoted)
            self._instruments.delayed_depth.set(tick.depth, self.queue)
            self._instruments.promoter_lag.set(tick.oldest_pending_lag_ms, self.queue)

        def led(leads: bool) -> None:
            (self._instruments.lock_acquired if leads else self._instruments.lock_lost).child(self.queue).add()
            if not leads:  # another process sees to it now: our numbers would only grow old
                self._instruments.delayed_depth.set(None, self.queue)
                self._instruments.promoter_lag.set(None, self.queue)
            self._lead("promoter", leads)

        self.hear(promoted, tick)
        self.hear(leading, led)

    def scheduling(self, fired: Signal[SchedulerTick], leading: Signal[bool]) -> None:
        fires = self._instruments.fires.child(self.queue)
        self.hear(fired, lambda tick: fires.add(tick.fired))
        self.hear(leading, lambda leads: self._lead("scheduler", leads))

    def failing(self, duty: Loop) -> None:
        failures = self._instruments.duty_failures.child(self.queue, duty.name)
        self.hear(duty.failed, lambda _: failures.add())

    def _lead(self, duty: str, leads: bool) -> None:
        self._instruments.leader.set(float(leads), self.queue, duty)


class WorkerWatch(DutyWatch):
    """Listens to everything of one worker."""

    def __init__(self, instruments: Instruments, names: JobNames, worker: Worker) -> None:
        super().__init__(instruments, worker.name)
        self.worker = worker
        self._names = names
        self._tallies: dict[str, NameTally] = {}
        self._outcomes: list[Outcome] = []
        queue, made = self.queue, instruments
        self._batch_size = made.batch_size.child(queue)
        self._reclaimed = made.reclaimed.child(queue)
        self._settles_lost = made.settles_lost.child(queue)
        self._renewed, self._leases_lost = made.leases_renewed.child(queue), made.leases_lost.child(queue)
        self.hear(worker.policy.outcomes, self._outcomes.append)
        self.hear(worker.settler.settled, self._settled)
        self.hear(worker.reader.batches, self._read)
        self.hear(worker.leases.renewed, self._leased)
        self.hear(worker.lane_dispatcher.dispatched, made.dispatched.child(queue).add)
        self.hear(worker.lane_dispatcher.freed, made.places_freed.child(queue).add)
        if worker.limiter is not None:
            self.hear(worker.limiter.limited, self._limited)
        for duty in worker.duties:
            self.failing(duty)
            if isinstance(duty, Promoter):
                self.promoting(duty.promoted, duty.leading)
            elif isinstance(duty, SchedulerService):
                self.scheduling(duty.fired, duty.leading)
            elif isinstance(duty, StalledDetector):
                self.hear(duty.scanned, self._scanned)

    def _settled(self, settlement: SettleResult) -> None:
        if self._outcomes:
            self._add_up()
        if settlement.lost:
            self._settles_lost.add(settlement.lost)
        for retry in settlement.retries:
            self._instruments.retries.child(self.queue, self._names.label(retry.delivery.name)).add()
            self._instruments.backoff_seconds.child(self.queue).observe(retry.wait_ms / 1000)
        for burial in settlement.dead_lettered:
            self._bury(str(burial.letter.reason), burial.letter.name)

    def _add_up(self) -> None:
        outcomes = self._outcomes[:]
        self._outcomes.clear()  # the same list: its `append` is what listens
        tallies = self._tallies
        for kind, name, attempt, duration_s, wait_ms in outcomes:
            tally = tallies.get(name) or self._tally(name)
            ended = tally.by_kind.get(kind)
            if ended is None:
                continue
            ended.value += 1
            tally.ran.observe(duration_s)
            if attempt == 1:
                tally.waited.observe(wait_ms / 1000)

    def _tally(self, name: str) -> NameTally:
        label = self._names.label(name)
        if label not in self._tallies:
            self._tallies[label] = NameTally(self._instruments, self.queue, label)
        return self._tallies[label]

    def _bury(self, reason: str, name: str) -> None:
        self._instruments.dead_letters.child(self.queue, reason, self._names.label(name)).add()

    def _read(self, batch: Batch) -> None:
        self._batch_size.observe(batch.size)
        if batch.reclaimed:
            self._reclaimed.add(batch.reclaimed)

    def _leased(self, renewal: Renewal) -> None:
        self._renewed.add(renewal.kept)
        self._leases_lost.add(renewal.lost)

    def _limited(self, wait_ms: int) -> None:
        self._instruments.rate_limited.child(self.queue).add()
        self._instruments.rate_limit_seconds.child(self.queue).observe(wait_ms / 1000)

    def _scanned(self, tick: StalledTick) -> None:
        if tick.swept:
            self._instruments.consumers_swept.child(self.queue).add(tick.swept)
        for name in tick.names:
            self._bury(str(Reason.STALLED), name)
