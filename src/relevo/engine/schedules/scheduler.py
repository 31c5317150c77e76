"""Fires schedules: makes a job of every fire that is due. One leader for each queue; see docs/guarantees.md, "Schedules"."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply, ReplyError
from relevo.broker.scripts import script
from relevo.engine.schedules.schedules import PAUSE_REPEATABLE
from relevo.engine.schedules.timetable import GRACE_MS, DueFires, Timetable, fire_id
from relevo.engine.service.leader_loop import LeaderLoop
from relevo.engine.service.loop import AGAIN
from relevo.engine.service.signals import Signal
from relevo.errors import RelevoError
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.limits import QueueLimits
from relevo.wire.repeat import RepeatSpec

log = logging.getLogger("relevo.scheduler")

DUE_REPEATABLES = script("due_repeatables", __name__)
FIRE_REPEATABLE = script("fire_repeatable", __name__)

SCRIPTS = (DUE_REPEATABLES, FIRE_REPEATABLE, PAUSE_REPEATABLE)


_WRITE_BYTES = 1 << 20
"""How much is sent at once: a downtime of many schedules must fill neither our memory nor the server's input buffer."""


_NAMED = 20


class SchedulerTick(NamedTuple):
    """One tick of the leader: schedules that were due, jobs made."""

    due: int
    fired: int


_DueSchedule = tuple[bytes, float, RepeatSpec, DueFires]


class SchedulerService(LeaderLoop):
    """Looks for due schedules every `every` seconds, and at the very moment the next known one is due. Fires are counted by
    the server's clock. Without a `stream_cap` it keeps that of the queue's producers. ChasquiMQ's schedulers use the same
    lock, so a mixed fleet has one leader."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        holder: str,
        *,
        every: float = 1.0,
        batch: int = 256,
        stream_cap: int | None = None,
        lock_ttl_s: int = 5,
    ) -> None:
        super().__init__("scheduler", link, keys.scheduler_lock, holder, every=every, ttl_s=lock_ttl_s)
        self.fired: Signal[SchedulerTick] = Signal()
        self._keys = keys
        self._batch = batch
        self._cap = (stream_cap or QueueLimits.max_stream_len, int(stream_cap is None))
        # Must outlast the hand-over from a dead leader, or a lost leader would cost fires under the Skip policy.
        self._grace_ms = max(GRACE_MS, int((lock_ttl_s + 2 * every) * 1000))

    async def tick(self) -> float | None:
        prefix = self._keys.repeat_spec("")
        reply = await self.lead(DUE_REPEATABLES, [self._keys.repeat], self._batch, prefix)
        if reply is None:
            return None
        now_ms, wait_ms, due = reply
        schedules = await self._due_fires(
            [(key, float(score), spec, int(count)) for key, score, spec, count in due], now_ms
        )
        fired = await self._fire(schedules)
        self.fired.emit(SchedulerTick(len(due), fired))
        if len(due) == self._batch:
            return AGAIN
        waits = [fires.next_ms - now_ms for _, _, _, fires in schedules if fires.next_ms is not None]
        waits += [wait_ms] if wait_ms >= 0 else []
        return min(self.every, max(min(waits), 1) / 1000) if waits else None

    async def _due_fires(self, due: list[tuple[bytes, float, bytes, int]], now_ms: int) -> list[_DueSchedule]:
        schedules: list[_DueSchedule] = []
        skipped: list[str] = []
        caught_up: list[str] = []
        for key, score, stored, fired in due:
            try:
                spec = RepeatSpec.decode(stored)
                fires = Timetable.of(spec).due_fires(
                    fire_at_ms=int(score), now_ms=now_ms, fired=fired, grace_ms=self._grace_ms
                )
            except (RelevoError, OverflowError) as error:  # overflow: a score that is no time, such as -inf
                # Unreadable here (a newer engine's, or damaged): set aside, not deleted, and it stops nobody else.
                log.error("schedule %r of queue %s cannot be fired and was paused: %s", key, self._keys.queue, error)  # noqa: TRY400
                places = [self._keys.repeat, self._keys.repeat_paused]
                await self._link.run(PAUSE_REPEATABLE, places, key, "", score)
                continue
            if fires.missed:
                (skipped if spec.missed_fires == "Skip" else caught_up).append(spec.key)
            schedules.append((key, score, spec, _portion(fires, len(spec.payload))))
        if skipped:
            told = (self._keys.queue, len(skipped), _named(skipped))
            log.warning("queue %s: no scheduler ran for a while, schedules that missed fires: %d (%s)", *told)
        if caught_up:
            told = (self._keys.queue, len(caught_up), _named(caught_up))
            log.info("queue %s: no scheduler ran for a while, schedules caught up: %d (%s)", *told)
        return schedules

    async def _fire(self, schedules: list[_DueSchedule]) -> int:
        fired, calls, size = 0, list[bytes](), 0
        for at, each in enumerate(schedules, 1):
            calls.append(self._fire_repeatable(*each))
            size += len(calls[-1])
            if at == len(schedules) or size > _WRITE_BYTES:
                fired += self._counted(await self._link.send(b"".join(calls), len(calls)))
                calls, size = [], 0
        return fired

    def _counted(self, replies: list[Reply]) -> int:
        for reply in replies:
            if isinstance(reply, ReplyError):
                log.error("a schedule of queue %s could not be fired: %s", self._keys.queue, reply)
        return sum(reply for reply in replies if isinstance(reply, int) and reply > 0)

    def _fire_repeatable(self, key: bytes, score: float, spec: RepeatSpec, due: DueFires) -> bytes:
        keys, created = self._keys, time.time_ns() // 1_000_000
        following = "" if due.next_ms is None else due.next_ms
        arguments: list[Argument] = [self._holder, key, score, following, spec.limit or 0, *self._cap]
        for fire in due.fires:
            envelope = Envelope(fire_id(spec.key, fire), spec.payload, created, 0, spec.retry)
            arguments += (fire, DelayedMember(spec.job_name, envelope.encode()).encode())
        places = [keys.scheduler_lock, keys.repeat, keys.tag + b":repeat:spec:" + key, keys.stream, keys.delayed]
        return self._link.script_call(FIRE_REPEATABLE, places, arguments)


def _named(keys: list[str]) -> str:
    """The first few: a downtime may concern thousands."""
    more = len(keys) - _NAMED
    return ", ".join(keys[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _portion(due: DueFires, payload_bytes: int) -> DueFires:
    """As many of the fires as one script call should carry; the schedule stays due at the first of the others."""
    most = max(1, _WRITE_BYTES * 8 // (payload_bytes + 100))
    return due if len(due.fires) <= most else DueFires(due.fires[:most], due.fires[most], due.missed)
