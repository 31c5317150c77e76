"""Cancels jobs from anywhere by their id: a mark in Redis, seen by the worker that runs the job or is about to."""

from __future__ import annotations

import time

from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.engine.loop import Loop, Signal
from relevo.engine.runner import Runner
from relevo.wire.keys import QueueKeys

_KEPT_MS = 24 * 3600 * 1000


class Cancellations:
    """The marks of one queue. A mark is forgotten with its job, or after a day."""

    def __init__(self, link: Link, keys: QueueKeys) -> None:
        self._link = link
        self._keys = keys

    async def cancel(self, job_id: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        await self._link.send(
            command("ZADD", self._keys.cancelled, now_ms + _KEPT_MS, job_id)
            + command("ZREMRANGEBYSCORE", self._keys.cancelled, "-inf", now_ms)
            + command("PEXPIRE", self._keys.cancelled, 2 * _KEPT_MS),
            3,
        )


class CancelWatch(Loop):
    """Tells the runner which jobs are marked."""

    def __init__(self, link: Link, keys: QueueKeys, runner: Runner, *, every: float = 0.25) -> None:
        super().__init__("cancel-watch", every=every)
        self.seen: Signal[frozenset[str]] = Signal()
        self._link = link
        self._keys = keys
        self._runner = runner

    async def tick(self) -> float | None:
        marked: Reply = await self._link.call(
            "ZRANGEBYSCORE", self._keys.cancelled, time.time_ns() // 1_000_000, "+inf", "LIMIT", 0, 10_000
        )
        ids = frozenset(each.decode(errors="replace") for each in marked)
        if ids or self._runner.cancelled:
            self._runner.cancel(ids)
            self.seen.emit(ids)
        return None
