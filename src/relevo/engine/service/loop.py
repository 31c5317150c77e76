"""What every background duty shares: a loop that ticks, and signals that tests and metrics wait for or listen to."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from relevo.engine.service.signals import Signal
from relevo.errors import RelevoError

log = logging.getLogger("relevo.loop")


AGAIN: Final = 0.0
"""Returned by a tick that left work behind: tick again at once."""


REST_S = 2.0
"""How long a duty rests that someone will wake; shorter than the locks that duties hold would last."""


class Idle(Protocol):
    """Who looks out, every `every` seconds, for what several duties would find (duties/idle_watch.py)."""

    @property
    def every(self) -> float: ...

    @property
    def stirred(self) -> Signal[None]: ...

    def quiet(self) -> bool: ...


class Loop:
    """A duty that ticks every `every` seconds until stopped. Subclasses write `tick`, which returns the seconds to wait
    before the next one (AGAIN for none; None when it found nothing: for `every`, or longer while `idle` is quiet). A failing
    tick is logged and tried again: a duty never dies."""

    def __init__(self, name: str, *, every: float, idle: Idle | None = None) -> None:
        self.name = name
        self.every = every
        self.failed: Signal[Exception] = Signal()
        self._idle = idle if idle is not None and every >= idle.every else None  # whoever looks more often never rests
        if self._idle is not None:
            self._idle.stirred.listen(lambda _: self.wake())
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def tick(self) -> float | None:
        raise AssertionError("a duty writes its own tick")

    async def finish(self) -> None:
        """Called once after the last tick: give up what is held."""

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"relevo-{self.name}")

    def wake(self) -> None:
        """Ticks now instead of at the end of the pause."""
        self._wake.set()

    async def stop(self) -> None:
        """Lets the present tick end, then finishes."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        failures = 0
        while not self._stopping:
            pause: float | None
            try:
                pause = await self.tick()
                failures = 0
            except (RelevoError, OSError) as error:
                pause = min(0.05 * 2**failures, 5.0)  # Redis is away or refuses: the link says so in the log, we wait
                failures = min(failures + 1, 10)
                log.debug("%s: %s", self.name, error)
                self.failed.emit(error)
            except Exception as error:
                pause = min(0.1 * 2**failures, 5.0)
                failures = min(failures + 1, 10)
                log.exception("%s failed; trying again in %.1f s", self.name, pause)
                self.failed.emit(error)
            if pause is None:
                resting = self._idle is not None and self._idle.quiet()
                pause = max(self.every, REST_S) if resting else self.every
            await self._sleep(pause)
        try:
            await self.finish()
        except (RelevoError, OSError) as error:
            log.debug("%s could not finish: %s", self.name, error)

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):  # `wait_for` loses a cancellation that comes with the wake-up
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
