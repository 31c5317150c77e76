"""A leader lock in Redis: one holder at a time, renewed by use, given up at the end, free after its TTL when we die."""

from __future__ import annotations

from relevo.broker.link import Link
from relevo.broker.scripts import script

HOLD_LOCK = script("hold_lock", __name__)
RELEASE_LOCK = script("release_lock", __name__)


class LeaderLock:
    """The right to do one duty for one queue. Scripts that use it check the holder again inside (a fence)."""

    def __init__(self, link: Link, key: bytes, holder: str, *, ttl_s: int = 5) -> None:
        self.key = key
        self.holder = holder
        self.held = False
        self._link = link
        self._ttl_s = ttl_s

    def hold_lock_call(self) -> bytes:
        """The packed call, for the head of a pipeline; its reply goes to `noted`."""
        return self._link.script_call(HOLD_LOCK, [self.key], (self.holder, self._ttl_s))

    def noted(self, reply: object) -> bool:
        self.held = reply == 1
        return self.held

    async def hold_lock(self) -> bool:
        """Takes or renews it; False while another holds it."""
        return self.noted(await self._link.run(HOLD_LOCK, [self.key], self.holder, self._ttl_s))

    async def release_lock(self) -> None:
        if self.held:
            self.held = False
            await self._link.run(RELEASE_LOCK, [self.key], self.holder)
