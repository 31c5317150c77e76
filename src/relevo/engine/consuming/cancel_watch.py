"""Looks for cancelled jobs: knows which ids are marked (see cancellation.py). The runner listens, and asks."""

from __future__ import annotations

import time

from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.engine.service.loop import Idle, Loop
from relevo.engine.service.signals import Signal
from relevo.errors import RelevoError
from relevo.wire.keys import QueueKeys


class CancelWatch(Loop):
    """The marks of one queue."""

    def __init__(self, link: Link, keys: QueueKeys, *, every: float = 0.25, idle: Idle | None = None) -> None:
        super().__init__("cancel-watch", every=every, idle=idle)
        self.ids: frozenset[str] = frozenset()
        """Jobs that are not to run, as last seen."""
        self.seen: Signal[frozenset[str]] = Signal()
        self._link = link
        self._keys = keys

    async def is_marked(self, job_id: str) -> bool:
        """Whether the job is marked right now; as long as Redis does not say, it is."""
        try:
            return await self._link.call("ZSCORE", self._keys.cancelled, job_id) is not None
        except (RelevoError, OSError):
            return True

    async def tick(self) -> float | None:
        marked: Reply = await self._link.call(
            "ZRANGEBYSCORE", self._keys.cancelled, time.time_ns() // 1_000_000, "+inf", "LIMIT", 0, 10_000
        )
        ids = frozenset(each.decode(errors="replace") for each in marked)
        if ids or self.ids:
            self.ids = ids
            self.seen.emit(ids)
        return None
