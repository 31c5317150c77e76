"""A duty that one process does for a whole queue: whoever holds its lock in Redis leads, the others wait for the lock."""

from __future__ import annotations

from collections.abc import Sequence

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply
from relevo.broker.scripts import Script, script
from relevo.engine.service.loop import Idle, Loop
from relevo.engine.service.signals import Signal

HOLD_LOCK = script("hold_lock", __name__)
RELEASE_LOCK = script("release_lock", __name__)


class LeaderLoop(Loop):
    """The lock is renewed by every tick, given up at the end, and free after its TTL when we die. The script of a tick checks
    the holder once more (a fence): a leader that slept past its TTL does nothing."""

    def __init__(
        self, name: str, link: Link, lock: bytes, holder: str, *, every: float, ttl_s: int = 5, idle: Idle | None = None
    ) -> None:
        super().__init__(name, every=every, idle=idle)
        self.leading: Signal[bool] = Signal()
        self.leads: bool = False
        self._link = link
        self._lock = lock
        self._holder = holder
        self._ttl_s = ttl_s

    async def lead(self, script: Script, keys: Sequence[bytes], *arguments: Argument) -> Reply:
        """Takes or renews the lock and runs the script with it (and its holder) before all else; None while another leads."""
        link, led = self._link, self.leads
        await link.ready()
        held, reply = await link.send(
            link.script_call(HOLD_LOCK, [self._lock], (self._holder, self._ttl_s))
            + link.script_call(script, [self._lock, *keys], (self._holder, *arguments)),
            2,
        )
        self.leads = link.checked(held, "hold_lock.lua") == 1
        done: Reply = link.checked(reply, f"{script.name}.lua")
        link.accepted()
        if self.leads != led:
            self.leading.emit(self.leads)
        return done if self.leads and done[0] != -1 else None

    async def finish(self) -> None:
        if self.leads:
            self.leads = False
            await self._link.run(RELEASE_LOCK, [self._lock], self._holder)
