"""Keeps the worker's leases: renews every held entry from a thread of its own, so that a handler that blocks the loop, or
simply takes long, is never taken for dead. See docs/guarantees.md, "Leases"."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.broker.scripts import script
from relevo.engine.service.signals import Signal
from relevo.engine.settling.delivery import Delivery, HeldDeliveries
from relevo.errors import RelevoError
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.lease")

RENEW = script("renew", __name__)

_AT_ONCE = 500
_AGAIN_S = 0.2


def renewal_patience(idle_s: float) -> float:
    """How long the server may stay silent before the connection is given up: a renewal that is due after a third of the lease
    is then sent again before two thirds are over, while the worker's other connections need not hurry."""
    return max(1.0, idle_s / 9)


class Renewal(NamedTuple):
    """One round: leases kept, and leases found lost."""

    kept: int
    lost: int


class LeaseKeeper:
    """Renews all `held` three times within the idle limit, with `XCLAIM ... JUSTID`: no bodies travel, no delivery is
    counted. A script asks for the owner first, however young the lease: a server that stood still for a while carries the
    renewals that waited for it out after the lease had lapsed. What another worker has taken over is never taken back, only
    marked as lost here."""

    def __init__(
        self,
        make_link: Callable[[], Link],
        keys: QueueKeys,
        group: str,
        consumer: str,
        held: HeldDeliveries,
        *,
        keeps_places: bool = False,
    ) -> None:
        self.renewed: Signal[Renewal] = Signal()
        self.last_renewal: float = time.monotonic()
        self._make_link = make_link
        self._keys = keys
        self._group = group
        self._consumer = consumer
        self._held = held
        self._every = held.idle_s / 3
        self._hold_ms = int(held.idle_s * 1000) if keeps_places else 0
        self._home: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._home = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._main, name="relevo-lease", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        loop, stop, thread = self._loop, self._stop, self._thread
        if thread is None:
            return
        if loop is not None and stop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it ended by itself meanwhile
                loop.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join, 5)

    def _main(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        link = self._make_link()
        try:
            pause = self._every
            while not await self._stopped(pause):
                try:
                    await self._round(link)
                    pause = self._every
                    continue
                except (RelevoError, OSError) as error:
                    log.warning("leases of queue %s could not be renewed: %s", self._keys.queue, error)
                except Exception:
                    log.exception("a lease round of queue %s failed; going on", self._keys.queue)
                pause = min(self._every, _AGAIN_S)  # what is not renewed now is somebody else's soon
        finally:
            await link.close()

    async def _stopped(self, seconds: float) -> bool:
        assert self._stop is not None
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _round(self, link: Link) -> None:
        await link.ready(wait=max(1.0, self._every))
        held = list(self._held.values())  # one C call: safe beside the loop's thread
        held = [delivery for delivery in held if not delivery.lost]
        kept = lost = 0
        for at in range(0, len(held), _AT_ONCE):
            some = held[at : at + _AT_ONCE]
            sent_at = time.monotonic()
            verdicts: Reply = await link.run(
                RENEW,
                [self._keys.stream, self._keys.places],
                self._group,
                self._consumer,
                self._hold_ms,
                *(delivery.entry_id for delivery in some),
            )
            kept, lost = self._note(some, [verdict == 1 for verdict in verdicts], sent_at, kept, lost)
        self.last_renewal = time.monotonic()
        if self._home is not None and not self._home.is_closed():
            self._home.call_soon_threadsafe(self.renewed.emit, Renewal(kept, lost))

    def _note(self, some: list[Delivery], ours: list[bool], sent_at: float, kept: int, lost: int) -> tuple[int, int]:
        for delivery, is_ours in zip(some, ours, strict=True):
            if is_ours:
                delivery.leased_at = sent_at
                kept += 1
            elif delivery.entry_id in self._held:  # settled a moment ago is not lost
                delivery.lost = True
                # A run that is over is being settled: its entry may be gone before the answer is here, which the settler
                # judges. Only a job that waits or runs can have been taken over.
                lost += not delivery.run_over
        if lost:
            # After a server's death it may also be our own settle, whose answer never came.
            jobs = "1 job" if lost == 1 else f"{lost} jobs"
            log.warning("queue %s: lost the lease on %s: another worker has taken over", self._keys.queue, jobs)
        return kept, lost
