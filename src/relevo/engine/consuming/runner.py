"""Runs handlers: a fixed number of slots over one line of deliveries. A slot is a task that lives as long as the worker."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context, copy_context
from functools import partial
from time import monotonic
from time import perf_counter as clock
from typing import Any

from relevo.broker.resp import command
from relevo.engine.admin.progress import JobProgress
from relevo.engine.consuming.cancel_watch import CancelWatch
from relevo.engine.consuming.handlers import Handler
from relevo.engine.consuming.job_context import DELIVERY, QUEUE
from relevo.engine.consuming.run_queue import RunQueue
from relevo.engine.consuming.spans import HandlerSpans
from relevo.engine.consuming.unknown_tasks import UnknownTasks
from relevo.engine.job.job import Job
from relevo.engine.settling.bad_result import bad_result
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.engine.settling.outcome_policy import OutcomePolicy
from relevo.errors import (
    BadResult,
    JobCancelled,
    JobTimedOut,
    RateLimited,
    RelevoError,
    Undecodable,
    UnknownTask,
    UntoldError,
)
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec

log = logging.getLogger("relevo.runner")

_TURN_S = 0.005


class Runner:
    """The slots of one worker. All of them together have one turn of the loop at a time:

        parked ◀───────────── the line is empty ────────────────┐
          │ let_in wakes one                                     │
          ▼                                                      │
        coming ──attend──▶ looks at the line ◀───────────────────┼──────┐
          ▲                  │ nobody has a turn: begins one     │      │
          │                  ▼                                   │      │
          │                takes a delivery ──▶ handler ──▶ hands in its outcome
          │ sleep(0)         │
          └── the turn is over, after 5 ms

    A turn ends when the loop comes round (`_end_turn`): by then whoever had it waits in a handler, or is coming again. If
    deliveries are left and nobody comes, so many slots are woken or begun; and there is always one spare slot parked, up to the
    worker's concurrency, so that whatever is let in finds somebody to look at it.
    """

    def __init__(
        self,
        handler: Handler,
        queue: RunQueue,
        keys: QueueKeys,
        held: HeldDeliveries,
        policy: OutcomePolicy,
        cancels: CancelWatch,
        *,
        store_results: bool,
        spans: HandlerSpans,
        unknown_tasks: UnknownTasks | None = None,
        progress: JobProgress | None = None,
        codec: Codec = MSGPACK,
    ) -> None:
        self.running: dict[Delivery, None] = queue.running
        self._handler = handler
        self._queue = queue
        self._keys = keys
        self._held = held
        self._policy = policy
        self._cancels = cancels
        self._store_results = store_results
        self._spans = spans
        self._unknown_tasks = unknown_tasks
        self._progress = progress
        self._encode, self._decode = codec
        self._slots: list[asyncio.Task[None]] = []
        self._turn_ends = 0.0
        self._lapsed_before = 0.0
        """Leases begun or renewed before this may be another worker's by now. Once a turn: a call for each job is felt."""
        self._stopping = False
        cancels.seen.listen(self._cancel)

    # --- turns ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The first slot; each turn's end sees to the others."""
        self._begin_slots(1)

    def _begin_slots(self, count: int) -> None:
        for _ in range(min(count, self._queue.slots - len(self._slots))):
            self._queue.expect()
            context = copy_context()
            slot = asyncio.create_task(self._slot(), name="relevo-slot", context=context)
            slot.add_done_callback(partial(self._slot_over, context))
            self._slots.append(slot)

    def _end_turn(self) -> None:
        """Slots together have one turn of the loop at a time, and a short one: it also has to read and to settle."""
        queue = self._queue
        self._turn_ends = 0.0
        if queue.line and not queue.coming:  # whoever had the turn waits in a handler: the others are needed
            self._begin_slots(queue.wake(min(len(queue.line), queue.slots)))
        if not queue.attended:  # there is always one more slot than handlers that wait, as long as there may be
            self._begin_slots(1)

    async def _wait_for_turn(self) -> float:
        """Waits until this slot may look at the line again; the time then."""
        queue = self._queue
        if not queue.line:
            await queue.park()
        elif not self._turn_ends:
            self._turn_ends = clock() + _TURN_S
            self._lapsed_before = monotonic() - self._held.idle_s
            asyncio.get_running_loop().call_soon(self._end_turn)
        else:
            queue.expect()
            await asyncio.sleep(0)
        queue.attend()
        return clock()

    # --- the end -------------------------------------------------------------------------------------------------------

    def no_more(self) -> None:
        """Nothing that has not started will; may be called from any thread."""
        self._stopping = True

    async def finish(self, deadline_s: float) -> list[Delivery]:
        """Lets running handlers end, cancels what still runs at the deadline, returns what did not end."""
        self._stopping = True
        self._queue.wake(self._queue.slots)
        busy = [slot for slot in self._slots if not slot.done()]
        if busy:
            late = set(busy)
            if deadline_s > 0:
                _, late = await asyncio.wait(busy, timeout=deadline_s)
            for slot in late:
                slot.cancel()
            if late:
                await asyncio.wait(late, timeout=5)
        return list(self.running)

    def cut_short(self) -> None:
        """Stops waiting for running handlers: cancels them now."""
        self._stopping = True
        for slot in self._slots:
            slot.cancel()

    # --- a slot --------------------------------------------------------------------------------------------------------

    async def _slot(self) -> None:
        """Runs one job after the other. One coroutine for all of it, and one look at the clock a job: at these rates a call
        more is felt. What is rare is done elsewhere."""
        queue, policy, handler, spans, cancels = self._queue, self._policy, self._handler, self._spans, self._cancels
        line, running = queue.line, queue.running
        me, outcomes, settle = asyncio.current_task(), policy.outcomes, policy.settler.done
        QUEUE.set(self._keys.queue)
        queue.attend()
        now = clock()
        while not self._stopping:
            if not line or now > self._turn_ends:
                now = await self._wait_for_turn()
                continue
            delivery = line.popleft()
            DELIVERY.set(delivery)
            job = self._begin(delivery)
            if job is None:
                continue
            if cancels.ids and await self._was_cancelled(delivery):
                now = clock()
                continue
            notes, result, value = delivery.notes, b"", None
            traced = spans.always if notes is None else spans.wanted(notes)
            delivery.slot, delivery.started = me, now
            running[delivery] = None
            try:
                value = await (spans.run(handler, job, notes) if traced else handler(job))
                if value is not None and (self._store_results or (notes is not None and notes.flow is not None)):
                    result = self._encode(value, delivery.name)
            except asyncio.CancelledError as cancelled:
                now = clock()
                if not self._stop_of_one(delivery, cancelled, now - delivery.started):
                    raise  # we are leaving: the delivery stays in `running` and is handed back
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
                now = clock()
                await self._failed(delivery, error, now - delivery.started, value)
            else:
                now = clock()
                if delivery.ended_by is None:
                    settle(delivery, result, now - delivery.started)
                    if outcomes.listened:
                        policy.tell("ok", delivery, now - delivery.started)
                else:  # the handler would not stop: what it returned no longer counts
                    self._ended(delivery, delivery.ended_by, now - delivery.started)
            delivery.slot = None
            del running[delivery]

    def _slot_over(self, context: Context, slot: asyncio.Task[None]) -> None:
        """A fault of ours, or of a codec, outside the handler: it costs one run and not the slot."""
        fault = None if slot.cancelled() else slot.exception()
        if fault is None or isinstance(fault, KeyboardInterrupt) or self._stopping:
            return
        log.error("a slot of queue %s failed, and another takes its place", self._keys.queue, exc_info=fault)
        self._slots.remove(slot)
        self._begin_slots(1)
        delivery = context.get(DELIVERY)
        if delivery is not None and not delivery.run_over:
            delivery.slot = None
            self.running.pop(delivery, None)
            self._policy.failed(delivery, fault, 0.0)

    def _begin(self, delivery: Delivery) -> Job | None:
        """The job for the handler, or None when it does not run."""
        envelope, policy, frame = delivery.envelope, self._policy, delivery.frame
        lease = delivery if frame is None else frame.delivery
        if lease.lost:
            self._held.pop(delivery.entry_id, None)
            log.warning("job %s was taken over before it started here", envelope.id)
            return None
        if lease.leased_at < self._lapsed_before:
            self._queue.doubt(delivery)
            return None
        if frame is not None:
            frame.begun = True
        try:
            data = self._decode(envelope.payload)
        except Undecodable as error:
            policy.undecodable(delivery, error.reason)
            return None
        # A first run is allowed by every task: only a job or a worker can allow none.
        if envelope.attempt or envelope.retry is not None or not policy.max_attempts:
            exhausted = envelope.attempt >= policy.attempts_allowed(delivery)
        else:
            exhausted = False
        if exhausted:
            policy.exhausted(delivery)
            return None
        if not self._cancels.ids:  # otherwise `_was_cancelled` tells, once it knows
            policy.settler.started(delivery)
        notes = delivery.notes
        flow = None if notes is None else notes.flow
        return Job(
            envelope.id, delivery.name, data, envelope.attempt, envelope.created_at_ms, None, self._progress, flow
        )

    async def _was_cancelled(self, delivery: Delivery) -> bool:
        # Asked again: the id may have been used anew since the marks were last looked at.
        if delivery.envelope.id not in self._cancels.ids or not await self._cancels.is_marked(delivery.envelope.id):
            self._policy.settler.started(delivery)
            return False
        self._policy.cancelled(delivery, self._forget(delivery.envelope.id), 0.0)
        return True

    async def _refused(self, delivery: Delivery, error: UnknownTask) -> bool:
        """Whether a job whose task is not known here goes back: another worker may know it."""
        unknown_tasks = self._unknown_tasks
        if unknown_tasks is None:
            return False
        delivery.slot = None  # nobody ends a run that is over
        job_id = delivery.envelope.id
        wait_s = await unknown_tasks.wait_s(job_id, error)
        if wait_s is None:
            self._policy.settler.event(unknown_tasks.forget(job_id))
            return False
        self._policy.refused(delivery, int(wait_s * 1000))
        return True

    async def _failed(self, delivery: Delivery, error: BaseException, duration: float, value: object) -> None:
        """`value` is what the handler returned: with one, the error is that it cannot be stored."""
        if isinstance(error, KeyboardInterrupt) or (isinstance(error, GeneratorExit) and not _runs(delivery.slot)):
            raise error  # not the handler's: Ctrl-C where nobody handles signals, or its slot is being closed
        try:
            await self._judge(delivery, error, duration, value)
        except (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError):
            raise  # the slot is told to end
        except BaseException as broken:  # noqa: BLE001 - the error breaks whoever looks at it, also who would log it
            kind, why = type(error).__qualname__, type(broken).__qualname__
            log.warning("job %s raised %s, which raises %s when it is looked at", delivery.envelope.id, kind, why)
            self._policy.failed(delivery, UntoldError(kind=kind), duration)

    async def _judge(self, delivery: Delivery, error: BaseException, duration: float, value: object) -> None:
        if delivery.ended_by is not None:
            self._ended(delivery, delivery.ended_by.with_traceback(error.__traceback__), duration)
        elif isinstance(error, RateLimited):
            self._policy.parked(delivery, error, duration)
        elif value is not None and isinstance(error, Exception):
            self._policy.bad_result(delivery, bad_result(delivery.name, value, error), duration)
        elif isinstance(error, BadResult):
            self._policy.bad_result(delivery, error, duration)
        elif not (isinstance(error, UnknownTask) and await self._refused(delivery, error)):
            self._policy.failed(delivery, error, duration)

    # --- ending one run --------------------------------------------------------------------------------------------------

    def _cancel(self, ids: frozenset[str]) -> None:
        """Cancels what runs among `ids`; what comes to run later is asked for its mark."""
        for delivery in list(self.running):
            if delivery.envelope.id in ids:
                self._end(delivery, JobCancelled(job_id=delivery.envelope.id))

    def expire(self, before: float, timeout_s: float) -> int:
        """Fails what has been running since before `before`; the number of runs ended."""
        late = [delivery for delivery in self.running if delivery.started and delivery.started < before]
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
        if why is not None:  # where it was cancelled is where it spent its time
            self._ended(delivery, why.with_traceback(cancelled.__traceback__), duration)
            return True
        if self._stopping or (task is not None and task.cancelling()):
            return False
        self._policy.failed(delivery, cancelled, duration)  # the handler's own doing
        return True

    def _ended(self, delivery: Delivery, why: RelevoError, duration: float) -> None:
        if delivery.slot is not None:
            delivery.slot.uncancel()  # the slot lives on
        if isinstance(why, JobCancelled):
            self._policy.cancelled(delivery, self._forget(delivery.envelope.id), duration)
        else:
            self._policy.failed(delivery, why, duration)

    def _forget(self, job_id: str) -> bytes:
        return command("ZREM", self._keys.cancelled, job_id)


def _runs(task: asyncio.Task[Any] | None) -> bool:
    """Whether the loop is running this task right now."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # there is no loop any more
        return False
