"""Finds what dead workers left behind: jobs that killed every worker they were given to, and consumers nobody runs."""

from __future__ import annotations

import logging
from typing import NamedTuple

from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.engine.events.event_log import EventLog
from relevo.engine.lanes.lane_dispatcher import release_gone
from relevo.engine.service.leader_loop import LeaderLoop
from relevo.engine.service.loop import AGAIN
from relevo.engine.service.signals import Signal
from relevo.engine.settling.outage import unheard_s
from relevo.engine.settling.settler import Settler
from relevo.errors import Undecodable
from relevo.wire.dead import Reason
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

log = logging.getLogger("relevo.stalled")

STALLED = script("stalled", __name__)
SWEEP_CONSUMERS = script("sweep_consumers", __name__)


class StalledTick(NamedTuple):
    """One round: abandoned entries seen, those dead-lettered, consumers removed."""

    scanned: int
    relocated: int
    swept: int
    names: tuple[str, ...] = ()
    """Of those dead-lettered."""


class StalledDetector(LeaderLoop):
    """Runs once for each queue, by lock. Readers take abandoned jobs over by themselves; this is for when they cannot (all
    slots busy), and for what a reader never sees."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        group: str,
        holder: str,
        settler: Settler,
        events: EventLog,
        *,
        idle_s: float,
        max_stalled: int,
        dlq_cap: int,
        batch: int = 256,
        forget_after_s: float = 300.0,
    ) -> None:
        every = max(idle_s, 0.05)
        super().__init__("stalled-detector", link, keys.stalled_lock, holder, every=every, ttl_s=max(2, int(every * 3)))
        self.scanned: Signal[StalledTick] = Signal()
        self._keys = keys
        self._group = group
        self._settler = settler
        self._log = events
        self._batch = batch
        self._idle_s = idle_s
        self._arguments = (group, int(idle_s * 1000), max_stalled, batch, dlq_cap)
        self._forget_ms = int(max(forget_after_s, 3 * idle_s) * 1000)

    async def tick(self) -> float | None:
        if unheard := unheard_s(self._link, self._idle_s):
            return unheard
        reply = await self.lead(STALLED, [self._keys.stream, self._keys.dead], *self._arguments)
        if reply is None:
            return None
        for entry_id, deliveries, data, name in reply[1]:
            self._report(entry_id.decode(), deliveries, data, name.decode(errors="replace"))
        if reply[1]:
            await self._release([data for _, _, data, _ in reply[1]])
        gone: Reply = await self._link.run(SWEEP_CONSUMERS, [self._keys.stream], self._group, self._forget_ms)
        if gone:
            log.info("queue %s: removed %d consumers nobody runs", self._keys.queue, len(gone))
        names = tuple(name.decode(errors="replace") for _, _, _, name in reply[1])
        self.scanned.emit(StalledTick(reply[0], len(names), len(gone), names))
        return AGAIN if len(reply[1]) == self._batch else None

    async def _release(self, envelopes: list[bytes]) -> None:
        """A job that was dead-lettered here was not settled by a worker: what it held has to be given up."""
        ids = [envelope.id for envelope in map(_readable, envelopes) if envelope.id]
        if ids:
            noted: Reply = await self._link.call("HMGET", self._keys.notes, *ids)
            held = {job_id: Notes.decode(notes) for job_id, notes in zip(ids, noted, strict=True) if notes}
            if held:
                await release_gone(self._link, self._keys, held, Reason.STALLED)

    def _report(self, entry_id: str, deliveries: int, data: bytes, name: str) -> None:
        envelope = _readable(data)
        log.error(
            "job %s (%s) of queue %s is dead (stalled): its worker died %d times; it was entry %s",
            envelope.id,
            name or "unnamed",
            self._keys.queue,
            deliveries,
            entry_id,
        )
        if self._log.enabled:
            self._settler.event(self._log.dead(envelope.id, name, envelope.attempt, Reason.STALLED))


def _readable(data: bytes) -> Envelope:
    try:
        return Envelope.decode(data)
    except Undecodable:
        return Envelope("", b"", 0)
