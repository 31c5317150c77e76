"""A worker: reads a queue, runs your handler, settles what happened, and leaves without a trace when told to."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence

from relevo.arguments import checked_queue_name
from relevo.broker.address import Address, CredentialProvider
from relevo.broker.link import Link
from relevo.broker.scripts import Script
from relevo.engine.admin.progress import JobProgress
from relevo.engine.consuming.cancel_watch import CancelWatch
from relevo.engine.consuming.group_member import HAND_BACK, LEAVE, GroupMember
from relevo.engine.consuming.handlers import (
    AnyHandler,
    as_handler,
    declarations_of,
    function_finder,
    lifespan_of,
    retry_of,
)
from relevo.engine.consuming.lease_keeper import RENEW, LeaseKeeper, renewal_patience
from relevo.engine.consuming.pause_watch import PauseWatch
from relevo.engine.consuming.queue_limiter import ACQUIRE, STARTED, QueueLimiter
from relevo.engine.consuming.reader import RECLAIM, TAKE_UP, Reader
from relevo.engine.consuming.run_queue import RunQueue
from relevo.engine.consuming.runner import Runner
from relevo.engine.consuming.spans import HandlerSpans
from relevo.engine.consuming.timeouts import TimeoutSweep
from relevo.engine.consuming.unknown_tasks import UnknownTasks
from relevo.engine.consuming.worker_health import WorkerHealth
from relevo.engine.consuming.worker_options import WorkerOptions
from relevo.engine.duties.idle_watch import IdleWatchMember
from relevo.engine.duties.promoter import PROMOTE, Promoter
from relevo.engine.duties.stalled_detector import STALLED, SWEEP_CONSUMERS, StalledDetector
from relevo.engine.events.event_log import EventLog
from relevo.engine.lanes.lane_dispatcher import DISPATCH_LANES, RELEASE_GONE, LaneDispatcher
from relevo.engine.schedules.declared_schedules import KEEP_DECLARED, DeclaredSchedules
from relevo.engine.schedules.scheduler import SCRIPTS as SCHEDULER_SCRIPTS
from relevo.engine.schedules.scheduler import SchedulerService
from relevo.engine.schedules.schedules import SCRIPTS as SCHEDULE_SCRIPTS
from relevo.engine.service.already_done import AlreadyDone
from relevo.engine.service.leader_loop import HOLD_LOCK, RELEASE_LOCK
from relevo.engine.service.loop import Loop
from relevo.engine.service.queue_registry import registering
from relevo.engine.service.service import Service
from relevo.engine.service.signals import Signal
from relevo.engine.settling.bad_result import OnBadResult
from relevo.engine.settling.delivery import HeldDeliveries
from relevo.engine.settling.outcome_policy import OutcomePolicy
from relevo.engine.settling.settle_request import SCRIPTS as SETTLE_SCRIPTS
from relevo.engine.settling.settle_request import SettleContext, SettleResult
from relevo.engine.settling.settler import Settler
from relevo.options import given
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec
from relevo.wire.retry import RetryDefaults

log = logging.getLogger("relevo.worker")

_SILENT_S = 3.0
"""An answer that is late by so much is missing: a probe learns of it before the connection is given up."""

CONTROL_SCRIPTS = (
    ACQUIRE,
    DISPATCH_LANES,
    HAND_BACK,
    HOLD_LOCK,
    KEEP_DECLARED,
    LEAVE,
    PROMOTE,
    RELEASE_GONE,
    RELEASE_LOCK,
    STALLED,
    STARTED,
    SWEEP_CONSUMERS,
    *SCHEDULER_SCRIPTS,
    *SCHEDULE_SCRIPTS,
)


class Worker(Service):
    """Runs `handler` for the jobs of one queue.

    The handler is an `async def` that takes a `Job`. What it returns is the job's result (kept when `store_results=True`),
    what it raises means "try again", and `UnrecoverableError` means "do not". A result that cannot be stored does not fail the
    run: it is dropped and logged, or the job is dead with `on_bad_result="dead"`.

        async def send(job: Job) -> None:
            await mail(job.data["to"])

        await Worker("emails", send).run()

    `run` ends after `close()`, or after SIGINT or SIGTERM: the first lets running handlers finish (up to
    `shutdown_deadline_s`) and hands everything else back at once, the second stops now.
    """

    _codec: Codec = MSGPACK

    def __init__(
        self,
        queue_name: str,
        handler: AnyHandler,
        *,
        redis_url: str = "redis://127.0.0.1:6379",
        tls: bool = False,
        concurrency: int = 100,
        max_attempts: int = 25,
        group: str = "default",
        consumer_id: str | None = None,
        read_block_ms: int | None = None,
        read_count: int | None = None,
        claim_min_idle_ms: int | None = None,
        max_payload_bytes: int | None = None,
        max_stream_len: int | None = None,
        dlq_max_stream_len: int | None = None,
        events_enabled: bool = True,
        events_max_stream_len: int | None = None,
        delayed_enabled: bool = True,
        run_scheduler: bool = True,
        scheduler_tick_ms: int | None = None,
        store_results: bool = False,
        result_ttl_ms: int | None = None,
        credential_provider: CredentialProvider | None = None,
        retry: RetryDefaults | None = None,
        max_stalled_attempts: int = 2,
        stalled_detector_enabled: bool = True,
        shutdown_deadline_s: float = 30.0,
        promote_every_ms: int = 100,
        pause_poll_ms: int = 250,
        rate_limit_max: int | None = None,
        rate_limit_duration_ms: int = 1000,
        rate_limit_burst: int | None = None,
        max_running: int | None = None,
        job_timeout_s: float | None = None,
        on_bad_result: OnBadResult = "drop",
        unknown_task_wait_s: float = 600.0,
        tracing: bool | None = None,
    ) -> None:
        settings = given(WorkerOptions, locals())
        super().__init__(queue_name, task_name=f"relevo-worker-{queue_name}")
        self._keys = QueueKeys(checked_queue_name(queue_name))
        self._address = Address.parse(redis_url, tls=tls, credentials=credential_provider)
        self._settings = settings
        self._handler = as_handler(handler, settings.concurrency)
        self._stop_now = False
        self.started: Signal[None] = Signal()
        """Emitted once the group exists and the reader reads."""
        self.settled: Signal[SettleResult] = Signal()
        """Emitted after each flush that Redis answered."""
        self._build(settings)

    def _build(self, settings: WorkerOptions) -> None:
        """The parts, wired. Nothing connects before `run`."""
        keys, group, consumer = self._keys, settings.group, settings.consumer
        held = HeldDeliveries(idle_s=settings.idle_s)
        self.held: HeldDeliveries = held
        events = EventLog(keys, enabled=settings.events_enabled, max_len=settings.events_max_stream_len)
        self._settle_link = self._link("settle", SETTLE_SCRIPTS, opening_words=(registering(keys),))
        self._control_link = control = self._link("control", CONTROL_SCRIPTS)
        self._read_link = self._link("read", (RECLAIM, TAKE_UP), patience=settings.read_block_ms / 1000 + 15)
        self.settler: Settler = Settler(
            SettleContext(
                self._settle_link,
                keys,
                group,
                consumer,
                held,
                events,
                result_ttl_s=settings.result_ttl_s,
                dlq_cap=settings.dlq_max_stream_len,
                store_results=settings.store_results,
                frees_places=settings.max_running is not None,
            )
        )
        self.group_member: GroupMember = GroupMember(control, keys, group, consumer, held, self.settler)
        self.policy: OutcomePolicy = OutcomePolicy(
            self.settler,
            events,
            queue=keys.queue,
            max_attempts=settings.max_attempts,
            retry=settings.retry,
            retry_of=retry_of(self._handler),
            function_of=function_finder(self._handler),
            on_bad_result=settings.on_bad_result,
        )
        queue = RunQueue(settings.concurrency, limited=settings.limited)
        self.run_queue: RunQueue = queue
        self.idle_watch: IdleWatchMember = IdleWatchMember(self._address, keys)
        self.cancel_watch: CancelWatch = CancelWatch(control, keys, idle=self.idle_watch)
        self.runner: Runner = Runner(
            self._handler,
            queue,
            keys,
            held,
            self.policy,
            self.cancel_watch,
            store_results=settings.store_results,
            codec=self._codec,
            spans=HandlerSpans(keys.queue, group, consumer, settings.tracing),
            unknown_tasks=UnknownTasks(control, keys, give_up_s=settings.unknown_task_wait_s),
            progress=JobProgress(self._settle_link, keys, ttl_s=settings.result_ttl_s, events=events),
        )
        self.reader: Reader = Reader(
            self._read_link,
            keys,
            group,
            consumer,
            held,
            queue,
            self.group_member,
            self.settler,
            events,
            count=settings.read_count,
            block_ms=settings.read_block_ms,
            max_payload=settings.max_payload_bytes,
            max_stalled=settings.max_stalled_attempts,
            takes_apart=settings.limited,
        )
        self.limiter: QueueLimiter | None = None
        if settings.limited:
            self.limiter = QueueLimiter(
                control,
                keys,
                queue,
                rate=settings.rate_limit_max or 0,
                per_ms=settings.rate_limit_duration_ms,
                burst=settings.rate_limit_burst or 0,
                at_once=settings.max_running or 0,
                hold_s=settings.idle_s,
            )
        self.leases: LeaseKeeper = LeaseKeeper(
            lambda: self._link("lease", (RENEW,), patience=renewal_patience(settings.idle_s)),
            keys,
            group,
            consumer,
            held,
            keeps_places=settings.max_running is not None,
        )
        self.leases.renewed.listen(lambda _: queue.leases_renewed())
        self.settler.settled.listen(self.settled.emit)
        self.reader.joined.listen(lambda _: self.started.emit(None) if self.started.count == 0 else None)
        self.duties: list[Loop] = self._duties(settings, events)

    def _duties(self, settings: WorkerOptions, events: EventLog) -> list[Loop]:
        keys, control, idle = self._keys, self._control_link, self.idle_watch
        self.pausing: PauseWatch = PauseWatch(
            control,
            keys,
            self.run_queue,
            self.reader,
            self.group_member,
            every=settings.pause_poll_ms / 1000,
            idle=idle,
        )
        # An idle worker settles nothing: a connection it lost would stay lost, and it would say for ever that it cannot claim.
        self.pausing.ticked.listen(lambda _: self._settle_link.open_soon())
        self.lane_dispatcher: LaneDispatcher = LaneDispatcher(
            control, keys, settings.group, settings.consumer, idle=idle
        )
        duties: list[Loop] = [self.pausing, self.lane_dispatcher, self.cancel_watch]
        if settings.delayed_enabled:
            self.promoter: Promoter = Promoter(
                control,
                keys,
                settings.consumer,
                every=settings.promote_every_ms / 1000,
                stream_cap=settings.max_stream_len,
                dlq_cap=settings.dlq_max_stream_len,
                events=settings.events_enabled,
                events_cap=settings.events_max_stream_len,
                idle=idle,
            )
            duties.append(self.promoter)
            self.settler.settled.listen(self._promote_soon)
        if settings.run_scheduler:
            self.scheduler: SchedulerService = SchedulerService(
                control,
                keys,
                f"s-{uuid.uuid4()}",
                every=settings.scheduler_tick_ms / 1000,
                stream_cap=settings.max_stream_len,
            )
            duties.append(self.scheduler)
        declared = declarations_of(self._handler)
        if declared is not None:
            self.declared_schedules: DeclaredSchedules = DeclaredSchedules(control, keys, declared)
            duties.append(self.declared_schedules)
        if settings.stalled_detector_enabled:
            self.stalled_detector: StalledDetector = StalledDetector(
                control,
                keys,
                settings.group,
                f"sd-{uuid.uuid4()}",
                self.settler,
                events,
                idle_s=settings.idle_s,
                max_stalled=settings.max_stalled_attempts,
                dlq_cap=settings.dlq_max_stream_len,
            )
            duties.append(self.stalled_detector)
        if settings.job_timeout_s is not None:
            self.timeouts: TimeoutSweep = TimeoutSweep(self.runner, timeout_s=settings.job_timeout_s)
            duties.append(self.timeouts)
        return duties

    def _link(
        self, purpose: str, scripts: Iterable[Script], *, patience: float = 15.0, opening_words: Sequence[bytes] = ()
    ) -> Link:
        return Link(
            self._address,
            self._keys.tag,
            purpose=purpose,
            scripts=scripts,
            opening_words=opening_words,
            patience=patience,
        )

    # --- what users see ------------------------------------------------------------------------------------------------

    @property
    def consumer_id(self) -> str:
        return self._settings.consumer

    @property
    def is_closed(self) -> bool:
        return self._ending.is_set()

    def pause(self) -> None:
        """Stops this worker's reading: what runs is finished, what it had read ahead goes to the others. Returns at once
        (`pausing.changed` tells when it is done). May be called before `run` and from any thread."""
        self.pausing.pause()
        self._wake_pausing()

    def resume(self) -> None:
        """Ends `pause`; a pause of the whole queue is ended by `Queue.resume`."""
        self.pausing.resume()
        self._wake_pausing()

    def is_paused(self) -> bool:
        """Whether this worker is paused, by itself or (as last seen) with its queue."""
        return self.pausing.paused

    def health(self) -> WorkerHealth:
        """Means "can claim and finish jobs", not "the process is up": a probe may be wired to `can_claim`."""
        now = time.monotonic()
        reason = ""
        if not self.is_running:
            reason = "not running"
        elif self.is_closed:
            reason = "shutting down"
        elif self.reader.trouble is not None:
            reason = f"cannot read: {self.reader.trouble}"
        elif not (self._read_link.up and self._settle_link.up):
            reason = f"no connection to Redis for {max(self._read_link.down_for, self._settle_link.down_for):.0f} s"
        elif (silent := self.reader.overdue_s) > _SILENT_S:
            reason = f"cannot read: no answer for {silent:.0f} s"
        elif self.limiter is not None and self.limiter.trouble is not None:
            reason = f"cannot start jobs: {self.limiter.trouble}"
        elif self.settler.refused:
            reason = f"cannot finish jobs: {self.settler.refused}"
        elif now - self.leases.last_renewal > self._settings.idle_s and self.held:
            reason = "leases cannot be renewed"
        paused = self.is_paused()
        return WorkerHealth(
            can_claim=not reason,
            reason=reason or ("paused" if paused else ""),
            paused=paused,
            running=len(self.runner.running),
            held=len(self.held),
            last_read_s=now - self.reader.last_read if self.reader.last_read else -1.0,
            last_renewal_s=now - self.leases.last_renewal,
        )

    def take_on(self, make: Callable[[Link, QueueKeys, str], Loop]) -> None:
        """Gives the worker one more duty, which begins and ends with it; `make` is given a connection, the queue's keys
        and the group."""
        duty = make(self._control_link, self._keys, self._settings.group)
        self.duties.append(duty)
        if self.is_running and not self.is_closed:
            duty.start()

    def close(self) -> AlreadyDone:
        """Asks the worker to end; returns at once. Await `run()` to know that it has.

        May be called from any thread, and written `await worker.close()` as well, which ChasquiMQ asks for.
        """
        self._ask_to_end()
        return AlreadyDone()

    # --- life ------------------------------------------------------------------------------------------------------------

    async def _work(self, ending: asyncio.Event) -> None:
        try:
            async with lifespan_of(self._handler):
                self._settle_link.open_soon()  # an idle worker that could not settle must not say that it can claim
                self.settler.start()
                self.runner.start()
                self.reader.start()
                self.leases.start()
                if self.limiter is not None:
                    self.limiter.start()
                for duty in self.duties:
                    duty.start()
                self.idle_watch.begin()
                await ending.wait()
                await self._leave()
        finally:
            await self.idle_watch.end()
            await asyncio.gather(*(link.close() for link in (self._read_link, self._settle_link, self._control_link)))

    def _signalled(self, name: str) -> None:
        if not self.is_closed:
            running = len(self.runner.running)
            log.warning("%s: no more reading; %d running jobs may finish (again to stop now)", name, running)
            self.close()
        else:
            log.warning("%s again: stopping now", name)
            self._hurry()

    def _ask_to_end(self) -> None:
        self.reader.no_more()  # at once, not a turn of the loop later: nothing is begun after this call
        self.runner.no_more()
        super()._ask_to_end()

    def _hurry(self) -> None:
        self._ask_to_end()
        self._stop_now = True
        self.runner.cut_short()

    async def _leave(self) -> None:
        """Stop reading, give back, finish, settle, leave the group: in this order nothing is lost and nothing waits."""
        await self.reader.stop()
        if self.limiter is not None:
            await self.limiter.stop()
        await self.group_member.hand_back(self.run_queue.take_unstarted())
        unfinished = await self.runner.finish(0 if self._stop_now else self._settings.shutdown_deadline_s)
        if unfinished:
            log.warning("queue %s: %d jobs did not finish in time and were handed back", self.name, len(unfinished))
            await self.group_member.hand_back(unfinished)
        wait_s = 2.0 if self._stop_now else 10.0
        if not await self.settler.stop(wait_s=wait_s):
            log.warning("queue %s: Redis does not answer; %d jobs will be delivered again", self.name, len(self.held))
        await asyncio.gather(*(duty.stop() for duty in self.duties)) if self._control_link.up else self._cancel_duties()
        self.policy.failure_log.close()
        await self.leases.stop()
        await self.group_member.leave()

    def _promote_soon(self, settlement: SettleResult) -> None:
        if settlement.due_in_ms is not None:
            self.promoter.wake_in(settlement.due_in_ms)

    def _wake_pausing(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.pausing.wake)

    def _cancel_duties(self) -> None:
        for duty in self.duties:
            duty.cancel()
