"""Queues and workers of one test, on whatever address, closed at its end."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from relevo import Handler, Queue
from tests.pace import limit
from tests.patience import turn
from tests.support.watched import WatchedWorker


class Staff:
    """Opens queues and starts workers of the queue `name`; `close` ends them all."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._open = AsyncExitStack()

    async def queue(self, url: str, **options: Any) -> Queue:
        return await self._open.enter_async_context(Queue(self.name, redis_url=url, **options))

    async def worker(self, url: str, handler: Handler, **options: Any) -> WatchedWorker:
        """A worker that has begun to read."""
        settings = {"read_block_ms": 100, "promote_every_ms": 20, "shutdown_deadline_s": 5.0, **options}
        worker = WatchedWorker(self.name, handler, redis_url=url, **settings)
        started = asyncio.ensure_future(worker.started.wait_for(timeout=limit(20)))
        await turn()  # let it listen before there is something to hear
        await self._open.enter_async_context(worker)
        await started
        return worker

    async def close(self) -> None:
        await self._open.aclose()
