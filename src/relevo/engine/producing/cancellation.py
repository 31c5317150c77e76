"""Cancels jobs from anywhere by their id: a mark in Redis, seen by the worker that runs the job or is about to."""

from __future__ import annotations

import time

from relevo.broker.link import Link
from relevo.broker.resp import command
from relevo.broker.scripts import script
from relevo.wire.keys import QueueKeys

CANCEL_DELAYED = script("cancel_delayed", __name__)

_KEPT_MS = 24 * 3600 * 1000


class Cancellations:
    """The marks of one queue. A mark is forgotten with its job, or after a day."""

    def __init__(self, link: Link, keys: QueueKeys) -> None:
        self._link = link
        self._keys = keys

    async def cancel(self, job_id: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        marked = (
            command("ZADD", self._keys.cancelled, now_ms + _KEPT_MS, job_id)
            + command("ZREMRANGEBYSCORE", self._keys.cancelled, "-inf", now_ms)
            + command("PEXPIRE", self._keys.cancelled, 2 * _KEPT_MS)
        )
        for reply in await self._link.repeat(lambda: marked, 3, "the cancellation"):
            self._link.checked(reply, "the cancellation")

    async def forget_mark(self, job_id: str) -> None:
        await self._link.call("ZREM", self._keys.cancelled, job_id)

    async def cancel_delayed(self, job_id: str) -> bool:
        """Takes back a delayed job that was added with this id; False when it is not there (any more)."""
        keys = self._keys
        return await self._link.run(CANCEL_DELAYED, [keys.delayed, keys.member_of(job_id)], keys.tag, job_id) == 1
