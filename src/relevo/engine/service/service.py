"""The life of a worker, a scheduler or a promoter: begun once, ended from any thread or by a signal."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Self

from relevo.engine.service.exit_signals import catch_exit_signals


class Service(ABC):
    """Works for one queue between `run`, or `async with`, and its end. A subclass writes `_work` and `_signalled`, and gives
    `_ask_to_end` the public name that its users know."""

    def __init__(self, queue: str, *, task_name: str) -> None:
        self._queue_name = queue
        self._task_name = task_name
        self._ending = threading.Event()
        self._ending_here: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue_name

    @property
    def is_running(self) -> bool:
        return self._running is not None and not self._running.done()

    async def run(self, *, handle_signals: bool = True) -> None:
        """Works until told to end, or until SIGINT or SIGTERM. A second call waits for the first."""
        running = self._begin(handle_signals)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            if running.done():
                raise
            self._hurry()  # our caller gave up on us: leave in order, then let it
            await asyncio.wait([running])
            raise

    async def __aenter__(self) -> Self:
        self._begin(handle_signals=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ask_to_end()
        if self._running is not None:
            await self._running

    # --- what a subclass has to say --------------------------------------------------------------------------------------

    @abstractmethod
    async def _work(self, ending: asyncio.Event) -> None:
        """The whole of its life; leaves in order once `ending` is set."""

    @abstractmethod
    def _signalled(self, name: str) -> None:
        """Reacts to SIGINT or SIGTERM."""

    def _hurry(self) -> None:
        """Ends without waiting for anybody, as far as it can."""
        self._ask_to_end()

    # --- life ------------------------------------------------------------------------------------------------------------

    def _ask_to_end(self) -> None:
        """May be called from any thread, and before it runs; returns at once."""
        self._ending.set()
        loop, ending = self._loop, self._ending_here
        if loop is not None and ending is not None and not loop.is_closed():
            loop.call_soon_threadsafe(ending.set)

    def _begin(self, handle_signals: bool) -> asyncio.Task[None]:
        if self._running is None:
            self._running = asyncio.create_task(self._live(handle_signals), name=self._task_name)
        return self._running

    async def _live(self, handle_signals: bool) -> None:
        self._loop, self._ending_here = asyncio.get_running_loop(), asyncio.Event()
        if self._ending.is_set():
            return
        restore = catch_exit_signals(self._signalled) if handle_signals else lambda: None
        try:
            await self._work(self._ending_here)
        finally:
            restore()
