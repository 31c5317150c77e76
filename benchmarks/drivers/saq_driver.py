"""Drives saq: lists, with a Lua script to add."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from asyncio_rival import AsyncioRival, background, main
from saq import Queue, Worker

logging.disable()


class SaqRival(AsyncioRival):
    """`ttl=-1` keeps no result; its 20 operations at once are raised to 100, as many as jobs run."""

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[None]:
        self.queue = Queue.from_url(self.url, max_concurrent_ops=100)
        await self.queue.connect()
        yield

    async def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        options: dict[str, Any] = {"ttl": 3600 if self.results else -1, "retries": 2 if self.storm else 1}
        if delay_s is not None:
            options["scheduled"] = int(time.time() + delay_s)  # whole seconds are all it knows
        return await self.queue.enqueue("noop", data=data, **options)

    async def work(self) -> None:
        async def noop(context: dict[str, Any], *, data: dict[str, Any]) -> Any:
            return await self.handle(data, first_try=context["job"].attempts == 1)

        worker = Worker(self.queue, functions=[("noop", noop)], concurrency=100, timers={"schedule": 1, "sweep": 60})
        await background(worker.start())


if __name__ == "__main__":
    main(SaqRival)
