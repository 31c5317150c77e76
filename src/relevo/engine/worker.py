"""A worker: reads a queue, runs your handler, settles what happened, and leaves without a trace when told to."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any

from relevo.broker.address import Address, CredentialProvider
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import Script, script
from relevo.engine.delivery import Delivery, Holdings
from relevo.engine.events import EventLog
from relevo.engine.exit_signals import catch_exit_signals
from relevo.engine.flush import DEAD_LETTER, FINISH, PARK, RETRY, SETTLE_NOTED, Desk, Settlement
from relevo.engine.lanes import DISPATCH_LANES, FREE_LANE, LaneKeeper
from relevo.engine.lease import RENEW, LeaseKeeper
from relevo.engine.lock import HOLD_LOCK, RELEASE_LOCK
from relevo.engine.loop import Loop, Signal
from relevo.engine.pause import PauseWatch
from relevo.engine.promoter import PROMOTE, Promoter
from relevo.engine.reader import RECLAIM, TAKE_UP, Reader
from relevo.engine.runner import Handler, Runner
from relevo.engine.scheduler import SCRIPTS as SCHEDULER_SCRIPTS
from relevo.engine.scheduler import ScheduleLoop
from relevo.engine.settler import Settler
from relevo.engine.stalled import STALLED, SWEEP_CONSUMERS, StalledDetector
from relevo.engine.validation import checked_queue_name, positive
from relevo.errors import RelevoError, WrongType
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec
from relevo.wire.retry import RetryDefaults

log = logging.getLogger("relevo.worker")

HAND_BACK = script("hand_back")
LEAVE = script("leave")


@dataclass(frozen=True)
class WorkerHealth:
    """Whether this worker can claim jobs right now, and if not, why."""

    can_claim: bool
    reason: str
    """Empty, or "paused" for a worker that could claim and is told not to, or why it cannot."""
    paused: bool
    running: int
    held: int
    last_read_s: float
    last_renewal_s: float


class Told(Coroutine[Any, Any, None]):
    """A coroutine with nothing left to do: may be awaited, made a task of, or dropped without a warning."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()

    def send(self, _: object, /) -> Any:
        raise StopIteration

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None: ...


class Worker:
    """Runs `handler` for the jobs of one queue.

    The handler is an `async def` that takes a `Job`. What it returns is the job's result (kept when `store_results=True`),
    what it raises means "try again", and `UnrecoverableError` means "do not".

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
        handler: Handler,
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
        dlq_max_stream_len: int | None = None,
        events_enabled: bool = True,
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
        plain_transport: bool = False,
    ) -> None:
        if not callable(handler):
            remedy = "pass an async function that takes a Job."
            raise WrongType(argument="handler", value=handler, kind=type(handler).__name__, remedy=remedy)
        self._keys = QueueKeys(checked_queue_name(queue_name))
        self._address = Address.parse(redis_url, tls=tls, credentials=credential_provider)
        self._handler = handler
        self._concurrency = max(1, concurrency)
        self._max_attempts = positive("max_attempts", max_attempts, zero=True)
        self._group = group
        self._consumer = consumer_id or f"c-{uuid.uuid4()}"
        self._block_ms = positive("read_block_ms", 5000 if read_block_ms is None else read_block_ms)
        self._count = None if read_count is None else positive("read_count", read_count)
        self._idle_s = positive("claim_min_idle_ms", claim_min_idle_ms or 30_000) / 1000
        self._max_payload = positive("max_payload_bytes", max_payload_bytes or 1_048_576)
        self._dlq_cap = positive("dlq_max_stream_len", dlq_max_stream_len or 100_000)
        self._events_enabled = events_enabled
        self._delayed_enabled = delayed_enabled
        self._run_scheduler = run_scheduler
        self._scheduler_tick_s = positive("scheduler_tick_ms", scheduler_tick_ms or 1000) / 1000
        self._store_results = store_results
        ttl_ms = positive("result_ttl_ms", 3_600_000 if result_ttl_ms is None else result_ttl_ms)
        self._result_ttl_s = -(-ttl_ms // 1000)
        self._retry = retry or RetryDefaults()
        self._max_stalled = positive("max_stalled_attempts", max_stalled_attempts)
        self._stalled_enabled = stalled_detector_enabled
        self._deadline_s = shutdown_deadline_s
        self._promote_s = positive("promote_every_ms", promote_every_ms) / 1000
        self._pause_s = positive("pause_poll_ms", pause_poll_ms) / 1000
        self._plain = plain_transport
        self._closing = threading.Event()
        self._closing_signal: asyncio.Event | None = None
        self._stop_now = False
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.started: Signal[None] = Signal()
        """Emitted once the group exists and the reader reads."""
        self.settled: Signal[Settlement] = Signal()
        """Emitted after each flush that Redis answered."""
        self._build()

    def _build(self) -> None:
        """The parts, wired. Nothing connects before `run`."""
        self.holdings = Holdings(idle_s=self._idle_s)
        self._log = EventLog(self._keys, enabled=self._events_enabled)
        keys, group, consumer = self._keys, self._group, self._consumer
        self._settle_link = self._link("settle", [RETRY, DEAD_LETTER, FINISH, SETTLE_NOTED, PARK])
        self._control_link = self._link(
            "control",
            [
                HOLD_LOCK,
                RELEASE_LOCK,
                PROMOTE,
                STALLED,
                SWEEP_CONSUMERS,
                HAND_BACK,
                LEAVE,
                *SCHEDULER_SCRIPTS,
                DISPATCH_LANES,
                FREE_LANE,
            ],
        )
        self._read_link = self._link("read", [RECLAIM, TAKE_UP], patience=self._block_ms / 1000 + 15)
        self.settler = Settler(
            Desk(
                self._settle_link, keys, group, consumer, self.holdings, self._log,
                result_ttl_s=self._result_ttl_s, dlq_cap=self._dlq_cap,
            )
        )  # fmt: skip
        self.runner = Runner(
            self._handler, self._concurrency, self.holdings, self.settler, self._log,
            max_attempts=self._max_attempts, retry=self._retry, store_results=self._store_results,
            codec=self._codec,
        )  # fmt: skip
        self.reader = Reader(
            self._read_link, keys, group, consumer, self.holdings, self.settler, self._log,
            demand=self.runner.demand, deliver=self._deliver, count=self._count, block_ms=self._block_ms,
            max_payload=self._max_payload, max_stalled=self._max_stalled,
        )  # fmt: skip
        self.pausing = PauseWatch(
            self._control_link, keys, self.reader, self.runner,
            hand_back=self._hand_back, wake_read=lambda: self.reader.wake_read(self._unblock), every=self._pause_s,
        )  # fmt: skip
        self.leases = LeaseKeeper(lambda: self._link("lease", [RENEW]), keys, group, consumer, self.holdings)
        self.runner.on_free = self.reader.freed
        self.settler.on_freed = self.reader.freed
        self.settler.settled.listen(self.settled.emit)
        self.reader.joined.listen(lambda _: self.started.emit(None) if self.started.count == 0 else None)
        self.duties: list[Loop] = [self.pausing]
        if self._delayed_enabled:
            self.promoter = Promoter(
                self._control_link, keys, consumer,
                every=self._promote_s, dlq_cap=self._dlq_cap, events=self._events_enabled,
            )  # fmt: skip
            self.duties.append(self.promoter)
        self.lane_keeper = LaneKeeper(self._control_link, keys, group, consumer)
        self.duties.append(self.lane_keeper)
        if self._run_scheduler:
            self.scheduler = ScheduleLoop(self._control_link, keys, f"s-{uuid.uuid4()}", every=self._scheduler_tick_s)
            self.duties.append(self.scheduler)
        if self._stalled_enabled:
            self.stalled_detector = StalledDetector(
                self._control_link, keys, group, f"sd-{uuid.uuid4()}", self.settler, self._log,
                idle_s=self._idle_s, max_stalled=self._max_stalled, dlq_cap=self._dlq_cap,
            )  # fmt: skip
            self.duties.append(self.stalled_detector)

    def _link(self, purpose: str, scripts: list[Script], *, patience: float = 15.0) -> Link:
        return Link(
            self._address, self._keys.tag, purpose=purpose, scripts=scripts, patience=patience, plain=self._plain
        )

    # --- what users see ------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._keys.queue

    @property
    def consumer_id(self) -> str:
        return self._consumer

    @property
    def is_running(self) -> bool:
        return self._running is not None and not self._running.done()

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

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
        """Means "can claim", not "the process is up": a probe may be wired to `can_claim`."""
        now = time.monotonic()
        reason = ""
        if not self.is_running:
            reason = "not running"
        elif self._closing.is_set():
            reason = "shutting down"
        elif self.reader.trouble is not None:
            reason = f"cannot read: {self.reader.trouble}"
        elif not (self._read_link.up and self._settle_link.up):
            reason = f"no connection to Redis for {max(self._read_link.down_for, self._settle_link.down_for):.0f} s"
        elif now - self.leases.last_renewal > self._idle_s and self.holdings:
            reason = "leases cannot be renewed"
        paused = self.is_paused()
        return WorkerHealth(
            can_claim=not reason,
            reason=reason or ("paused" if paused else ""),
            paused=paused,
            running=len(self.runner.running),
            held=len(self.holdings),
            last_read_s=now - self.reader.last_read if self.reader.last_read else -1.0,
            last_renewal_s=now - self.leases.last_renewal,
        )

    async def run(self, *, handle_signals: bool = True) -> None:
        """Works until closed. A second call waits for the first."""
        if self._running is None:
            self._running = asyncio.create_task(self._work(handle_signals), name=f"relevo-worker-{self.name}")
        try:
            await asyncio.shield(self._running)
        except asyncio.CancelledError:
            if self._running.done():
                raise
            self.close()  # our caller gave up on us: leave in order, then let it
            self._stop_now = True
            self.runner.cut_short()
            await asyncio.wait([self._running])
            raise

    def close(self) -> Told:
        """Asks the worker to end; returns at once. Await `run()` to know that it has.

        May be called from any thread, and written `await worker.close()` as well, which ChasquiMQ asks for.
        """
        self._closing.set()
        loop, closing = self._loop, self._closing_signal
        if loop is not None and closing is not None and not loop.is_closed():
            loop.call_soon_threadsafe(closing.set)
        return Told()

    async def __aenter__(self) -> Worker:
        if self._running is None:
            self._running = asyncio.create_task(self._work(handle_signals=False), name=f"relevo-worker-{self.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        if self._running is not None:
            await self._running

    # --- life ------------------------------------------------------------------------------------------------------------

    async def _work(self, handle_signals: bool) -> None:
        self._loop, self._closing_signal = asyncio.get_running_loop(), asyncio.Event()
        if self._closing.is_set():
            return
        restore = catch_exit_signals(self._signalled) if handle_signals else lambda: None
        try:
            self._settle_link.open_soon()  # an idle worker that could not settle must not say that it can claim
            self.settler.start()
            self.reader.start()
            self.leases.start()
            for duty in self.duties:
                duty.start()
            await self._closing_signal.wait()
            await self._leave()
        finally:
            restore()
            await asyncio.gather(*(link.close() for link in (self._read_link, self._settle_link, self._control_link)))
            self._closed = True

    def _signalled(self, name: str) -> None:
        if not self._closing.is_set():
            running = len(self.runner.running)
            log.warning("%s: no more reading; %d running jobs may finish (again to stop now)", name, running)
            self.close()
        else:
            log.warning("%s again: stopping now", name)
            self._stop_now = True
            self.runner.cut_short()

    async def _leave(self) -> None:
        """Stop reading, give back, finish, settle, leave the group: in this order nothing is lost and nothing waits."""
        await self.reader.stop(self._unblock)
        await self._hand_back(self.runner.take_unstarted())
        unfinished = await self.runner.finish(0 if self._stop_now else self._deadline_s)
        if unfinished:
            log.warning("queue %s: %d jobs did not finish in time and were handed back", self.name, len(unfinished))
            await self._hand_back(unfinished)
        wait_s = 2.0 if self._stop_now else 10.0
        if not await self.settler.stop(wait_s=wait_s):
            log.warning(
                "queue %s: Redis does not answer; %d jobs will be delivered again", self.name, len(self.holdings)
            )
        await asyncio.gather(*(duty.stop() for duty in self.duties)) if self._control_link.up else self._cancel_duties()
        await self.leases.stop()
        await self._leave_group()

    def _deliver(self, deliveries: list[Delivery]) -> None:
        self.pausing.deliver(deliveries)

    def _wake_pausing(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.pausing.wake)

    def _cancel_duties(self) -> None:
        for duty in self.duties:
            duty.cancel()

    def _unblock(self, client_id: int) -> asyncio.Future[None]:
        async def unblock() -> None:
            await self._control_link.call("CLIENT", "UNBLOCK", client_id, "TIMEOUT")

        return asyncio.ensure_future(unblock())

    async def _hand_back(self, deliveries: list[Delivery]) -> None:
        """Gives deliveries to whoever reads next, at once and without counting a delivery."""
        for at in range(0, len(deliveries), 500):
            some = deliveries[at : at + 500]
            arguments = [part for each in some for part in (each.entry_id, each.before)]
            try:
                await asyncio.wait_for(
                    self._control_link.run(HAND_BACK, [self._keys.stream], self._group, self._consumer, *arguments), 5
                )
            except (RelevoError, OSError, TimeoutError) as error:
                log.warning("queue %s: %d jobs could not be handed back (%s)", self.name, len(some), error)
            for each in some:
                self.holdings.pop(each.entry_id, None)

    async def _leave_group(self) -> None:
        """Removes our consumer; what is still pending for it (a read that was answered too late) is handed back first."""
        try:
            async with asyncio.timeout(3):
                while await self._control_link.run(LEAVE, [self._keys.stream], self._group, self._consumer):
                    pending: Reply = await self._control_link.call(
                        "XPENDING", self._keys.stream, self._group, "-", "+", 500, self._consumer
                    )
                    arguments = [part for entry in pending for part in (entry[0], max(0, entry[3] - 1))]
                    await self._control_link.run(
                        HAND_BACK, [self._keys.stream], self._group, self._consumer, *arguments
                    )
        except (RelevoError, OSError, TimeoutError) as error:
            log.debug("queue %s: the consumer stays in the group until it is swept (%s)", self.name, error)
