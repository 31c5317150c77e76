"""Moves due jobs from the delayed set into the stream. One leader for each queue; see docs/guarantees.md, "Delays"."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from relevo.broker.link import Link
from relevo.broker.scripts import script
from relevo.engine.service.leader_loop import LeaderLoop
from relevo.engine.service.loop import AGAIN, Idle
from relevo.engine.service.signals import Signal
from relevo.wire.events import MAX_EVENTS
from relevo.wire.keys import QueueKeys
from relevo.wire.limits import QueueLimits

PROMOTE = script("promote", __name__)

BATCH = 1000
"""Jobs moved in one step: some three milliseconds of the server's time, and a round trip less often than readers need them."""


class PromoterTick(NamedTuple):
    """One tick of the leader: jobs moved, jobs left, and how late the oldest due one was."""

    promoted: int
    depth: int
    oldest_pending_lag_ms: int


class Promoter(LeaderLoop):
    """Promotes due jobs while this process holds the queue's promoter lock: at least every `every` seconds, and at the
    very millisecond the next known job is due. Without a `stream_cap` it keeps that of the queue's producers. ChasquiMQ's
    promoters use the same lock, so a mixed fleet has one leader."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        holder: str,
        *,
        every: float = 0.1,
        batch: int = BATCH,
        stream_cap: int | None = None,
        dlq_cap: int = 100_000,
        events: bool = True,
        events_cap: int = MAX_EVENTS,
        lock_ttl_s: int = 5,
        idle: Idle | None = None,
    ) -> None:
        super().__init__("promoter", link, keys.promoter_lock, holder, every=every, ttl_s=lock_ttl_s, idle=idle)
        self.promoted: Signal[PromoterTick] = Signal()
        self._batch = batch
        self._keys = [keys.delayed, keys.stream, keys.dead, keys.events]
        cap = (stream_cap or QueueLimits.max_stream_len, dlq_cap, events_cap if events else 0, int(stream_cap is None))
        self._arguments = (batch, *cap)

    async def tick(self) -> float | None:
        reply = await self.lead(PROMOTE, self._keys, *self._arguments)
        if reply is None:
            return self.every * 5  # another leads: only its death concerns us, and that takes its lock's TTL anyway
        self.promoted.emit(PromoterTick(reply[0], reply[1], reply[2]))
        if reply[0] == self._batch:
            return AGAIN
        return None if reply[3] < 0 else min(self.every, max(reply[3], 1) / 1000)

    def wake_in(self, ms: int) -> None:
        """Told of a job that will be due: the leader need not wait for its next tick to learn of it."""
        if self.leads and ms < self.every * 1000:
            asyncio.get_running_loop().call_later(ms / 1000, self.wake)
