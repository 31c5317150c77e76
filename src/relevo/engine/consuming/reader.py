"""Reads the stream: new entries and those of dead workers, a little ahead of the handlers and never more than they can use.

Read-ahead is bounded by time, not by number: what fast handlers finish in a tenth of a second may wait here, while slow
handlers get only what they can start at once, so that other workers find the rest.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import NamedTuple

from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.broker.scripts import script
from relevo.broker.transport import Transport, sent
from relevo.engine.consuming.entries import NO_JOB, open_entry, open_frame, stalled_too_often
from relevo.engine.consuming.group_member import GroupMember
from relevo.engine.consuming.run_queue import MOST_AT_ONCE, RunQueue
from relevo.engine.events.event_log import EventLog
from relevo.engine.service.signals import Signal
from relevo.engine.settling.delivery import DeadLettered, Delivery, HeldDeliveries
from relevo.engine.settling.outage import unheard_s
from relevo.engine.settling.settler import Settler
from relevo.errors import ConnectionLost, RelevoError, ServerRefused
from relevo.wire.frame import is_frame
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

log = logging.getLogger("relevo.reader")

RECLAIM = script("reclaim", __name__)
TAKE_UP = script("take_up", __name__)


class Batch(NamedTuple):
    """One read: how many entries, and how many of them came from dead workers."""

    size: int
    reclaimed: int


class _Asked(NamedTuple):
    """A read under way."""

    wanted: int
    sent_at: float
    transport: Transport
    answer: asyncio.Future[list[Reply]]


class Reader:
    """Reads for one consumer of one group, into its run queue; what can never run goes to the dead letters here."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        group: str,
        consumer: str,
        held: HeldDeliveries,
        queue: RunQueue,
        member: GroupMember,
        settler: Settler,
        events: EventLog,
        *,
        count: int | None,
        block_ms: int,
        max_payload: int,
        max_stalled: int,
        takes_apart: bool = False,
    ) -> None:
        self.joined: Signal[None] = Signal()
        self.batches: Signal[Batch] = Signal()
        self.drained: Signal[None] = Signal()
        self.last_read: float = 0.0
        self.trouble: str | None = "not started"
        self._link = link
        self._keys = keys
        self._group = group
        self._consumer = consumer
        self._held = held
        self._settler = settler
        self._log = events
        self._queue = queue
        self._member = member
        self._count = count
        idle_ms = int(held.idle_s * 1000)
        # A blocked read may hold its answer no longer than a lease can be trusted: its send time is when the lease began.
        self._block_ms = max(1, min(block_ms, idle_ms // 4))
        self._idle_ms = idle_ms
        self._max_payload = max_payload
        self._max_stalled = max_stalled
        self._takes_apart = takes_apart
        """Whether jobs that came in one entry are given entries of their own instead of being run: limits count entries."""
        self._ask_for_notes = command("HLEN", keys.notes)
        self._jobs_an_entry = 1.0
        self._stopping = False
        self._had_work = False
        self._reclaim_due = 0.0
        self._recheck = True
        self._asked: _Asked | None = None
        self._answer_due = math.inf
        self._task: asyncio.Task[None] | None = None
        settler.settled.listen(lambda _: queue.freed())

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="relevo-reader")

    @property
    def overdue_s(self) -> float:
        """For how long the answer to a read has been overdue: a read blocks for so long, and no longer."""
        return max(0.0, time.monotonic() - self._answer_due)

    async def wake_read(self) -> None:
        """Ends a blocked read, so that a worker that pauses or leaves is not given the next job."""
        if self._link.up and self._link.client_id:
            await self._member.unblock(self._link.client_id)

    def no_more(self) -> None:
        """No further read begins; may be called from any thread."""
        self._stopping = True

    async def stop(self) -> None:
        """Ends the blocked read so that nothing is handed to a worker that is leaving."""
        self._stopping = True
        self._queue.room.set()
        if self._task is None:
            return
        if not self._task.done():
            try:
                await self.wake_read()
            except (TimeoutError, RelevoError, OSError) as error:
                log.debug("the blocked read could not be woken: %s", error)
        _, late = await asyncio.wait([self._task], timeout=1)
        if late:
            # The server does not answer or we may not wake the read: hang up. What it still sends us is handed back by
            # `leave`, which looks into the group and not at what we know.
            await self._link.close()
            self._task.cancel()
            if self._asked is not None:
                self._asked.answer.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        failures = 0
        while not self._stopping or self._asked is not None:
            try:
                if self._asked is not None:
                    await self._answered(self._asked)
                    failures, self.trouble = 0, None
                    continue
                await self._link.ready()
                if self._recheck:
                    await self._join()
                if self._queue.paused:
                    self.trouble = None  # it can read, and is told not to
                    await self._wait_for_room()
                    continue
                wanted = self._wanted()
                if wanted == 0:
                    await self._wait_for_room()
                    continue
                await self._read(wanted)
                failures, self.trouble = 0, None
            except (RelevoError, OSError) as error:
                if self._stopping:
                    return
                self._recheck = True
                self.trouble = str(error)
                if isinstance(error, ServerRefused):
                    log.warning("queue %s cannot be read: %s", self._keys.queue, error)
                await asyncio.sleep(min(0.05 * 2**failures, 2.0))
                failures = min(failures + 1, 8)
            except Exception:  # a fault of ours must not end the reading for good
                log.exception("the reader of queue %s failed; going on", self._keys.queue)
                await asyncio.sleep(0.5)

    async def _wait_for_room(self) -> None:
        self._queue.room.clear()
        try:
            async with asyncio.timeout(0.25):  # not wait_for: before Python 3.12 it may swallow our own cancellation
                await self._queue.room.wait()
        except TimeoutError:
            self.last_read = time.monotonic() if self.trouble is None else self.last_read

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Makes the group if it is not there, and takes up what the server gave us in an answer that never arrived."""
        try:
            await self._link.call("XGROUP", "CREATE", self._keys.stream, self._group, "0", "MKSTREAM")
        except ServerRefused as refused:
            if "BUSYGROUP" not in str(refused):
                raise
        after = b"-"
        # On the first time there was no answer to lose: what is pending for our name is a namesake's, dead or alive, and
        # comes to us like any other worker's.
        while self.joined.count:
            sent_at = time.monotonic()
            held = frozenset(self._held)  # what is settled while the answer travels must not run again
            entries: Reply = await self._link.run(
                TAKE_UP, [self._keys.stream], self._group, self._consumer, after, MOST_AT_ONCE
            )
            if not entries:
                break
            held |= self._held.keys()
            await self._take([entry for entry in entries if entry[0] not in held], sent_at)
            after = b"(" + entries[-1][0]
        self._recheck = False
        self.joined.emit(None)

    def _wanted(self, coming: int = 0) -> int:
        """How many entries to ask for now, when `coming` have just arrived."""
        if self._settler.behind:
            return 0
        # Entries that carry many jobs are asked for by their jobs, a few thousand at once.
        each, demand = self._jobs_an_entry, self._queue.demand()
        if coming:
            demand = demand._replace(waiting=demand.waiting + int(coming * each))
        wanted = demand.wanted(int((self._count or MOST_AT_ONCE) * min(each, 8)))
        return max(1, int(wanted / each)) if wanted else 0

    async def _read(self, wanted: int) -> None:
        sent_at = time.monotonic()
        self._reclaim_due = max(self._reclaim_due, sent_at + unheard_s(self._link, self._held.idle_s))
        if not self._link.capabilities.read_claim and sent_at >= self._reclaim_due:
            self._reclaim_due = sent_at + min(1.0, self._held.idle_s / 2)
            found: Reply = await self._link.run(
                RECLAIM, [self._keys.stream], self._group, self._consumer, self._idle_ms, wanted
            )
            if found:
                if len(found) >= wanted:  # more may have been left behind: ask again with the next read
                    self._reclaim_due = 0.0
                await self._take(found, sent_at)
                self._had_work = True
                return
        transport = await self._link.ready()
        if self._stopping or self._queue.paused:  # nobody would wake this read any more
            return
        await self._answered(self._ask(wanted, transport))

    def _ask(self, wanted: int, transport: Transport) -> _Asked:
        sent_at, block = time.monotonic(), self._block_ms
        claim = self._link.capabilities.read_claim and sent_at >= self._reclaim_due
        if not claim:
            block = max(1, min(block, int((self._reclaim_due - sent_at) * 1000)))
        options = (b"CLAIM", self._idle_ms) if claim else ()
        packed = command(
            b"XREADGROUP",
            b"GROUP",
            self._group,
            self._consumer,
            b"COUNT",
            wanted,
            b"BLOCK",
            block,
            *options,
            b"STREAMS",
            self._keys.stream,
            b">",
        )
        self._answer_due = sent_at + block / 1000
        return _Asked(wanted, sent_at, transport, sent(transport, packed + self._ask_for_notes, 2))

    async def _answered(self, asked: _Asked) -> None:
        self._asked = None
        try:
            replies = await asked.answer
            await self._link.turned(replies, asked.transport)
        except ConnectionLost:
            if not self._stopping:
                raise
            return
        finally:
            self._answer_due = math.inf
        reply, noted = replies
        self.last_read = time.monotonic()
        reply = self._link.checked(reply, "XREADGROUP")
        self._link.accepted()
        if reply:
            entries = reply[0][1]
            if noted == 0 and len(entries) == asked.wanted:
                self._ask_ahead(len(entries))
            await self._take(entries, asked.sent_at, noted)
            self._had_work = True
        elif self._had_work and not self._queue.paused:  # a read that a pause cut short says nothing about the stream
            self._had_work = False
            self.drained.emit(None)
            if self._log.enabled:
                self._settler.event(self._log.drained())

    def _ask_ahead(self, coming: int) -> None:
        """Sends the next read before what came is looked at, so that the server works while we do. Not while jobs have notes:
        those are asked for on this connection, and would wait behind a read that blocks."""
        reclaims = not self._link.capabilities.read_claim and time.monotonic() >= self._reclaim_due
        if reclaims or self._stopping or self._queue.paused:
            return
        wanted, transport = self._wanted(coming), self._link.open_transport
        if wanted and transport is not None:
            self._asked = self._ask(wanted, transport)

    # --- what came -----------------------------------------------------------------------------------------------------

    async def _take(self, entries: list[Reply], sent_at: float, noted: Reply = 1) -> None:
        ready: list[Delivery] = []
        held, max_payload, reclaimed = self._held, self._max_payload, 0
        for entry in entries:
            entry_id = entry[0]
            before = entry[3] if len(entry) > 3 else 0
            if before:
                reclaimed += 1
                ours = held.get(entry_id)
                if ours is not None:
                    # Our own, read again: the lease keeper was late, it is still ours and still running.
                    ours.leased_at, ours.lost = sent_at, False
                    continue
            fields: list[bytes] = entry[1] or []
            if len(fields) == 2 and fields[0] == b"d" and is_frame(fields[1]):
                ready += self._open_frame(Delivery(entry_id, NO_JOB, "", before, sent_at), fields[1])
                continue
            opened = open_entry(entry_id, fields, before, sent_at, max_payload)
            if isinstance(opened, Delivery):
                held[entry_id] = opened
                ready.append(opened)
            else:
                self._bury(opened)
        self.batches.emit(Batch(len(entries), reclaimed))
        self._jobs_an_entry = max(1.0, len(ready) / max(1, len(entries)))
        if not ready:
            return
        if noted != 0:  # asked for with the read itself: a job with notes is never taken for one without
            try:
                await self._fetch_notes(ready)
            except BaseException:
                # Held here and given to nobody they would wait for ever: the next join takes them up.
                for delivery in ready:
                    held.pop(delivery.entry_id, None)
                raise
        if reclaimed:
            ready = [delivery for delivery in ready if not delivery.before or self._survived(delivery)]
        if ready:
            self._queue.put(ready)

    async def _fetch_notes(self, deliveries: list[Delivery]) -> None:
        deliveries = [delivery for delivery in deliveries if delivery.frame is None]  # jobs in frames have none
        if not deliveries:
            return
        ids = [delivery.envelope.id for delivery in deliveries]
        stored: Reply = await self._link.call("HMGET", self._keys.notes, *ids)
        for delivery, notes in zip(deliveries, stored, strict=True):
            delivery.notes = None if notes is None else Notes.decode(notes)

    def _open_frame(self, entry: Delivery, data: bytes) -> list[Delivery]:
        """The jobs of a frame, as far as they are to run here. A frame that a dead worker left is taken apart: the job that
        killed it is then counted, and in the end dead-lettered, alone."""
        jobs = open_frame(entry, data, self._max_payload)
        if isinstance(jobs, DeadLettered):
            self._bury(jobs)
            return []
        self._held.hold(entry)
        if not entry.before and not self._takes_apart:
            return jobs
        for job in jobs:
            self._settler.put_back(job)
        return []

    def _survived(self, delivery: Delivery) -> bool:
        """Whether a job of a dead worker gets another chance."""
        dead = stalled_too_often(delivery, self._max_stalled)
        if dead is not None:
            self._bury(dead)
        elif self._log.enabled:
            self._settler.event(self._log.stalled(delivery.envelope.id, delivery.name, delivery.before))
        return dead is None

    def _bury(self, dead: DeadLettered) -> None:
        """Held until Redis has its dead letter."""
        self._held.hold(dead.delivery)
        self._settler.dead_letter(dead.delivery, dead.letter, dead.attempt)
