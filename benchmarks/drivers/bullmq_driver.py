"""Drives bullmq's Python package. Its scripts always write events, so only the drain with events is asked."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from asyncio_rival import AsyncioRival, background, main
from bullmq import Queue, Worker

logging.disable()


class BullRival(AsyncioRival):
    """A finished job is removed, unless its result is to be kept."""

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[None]:
        self.queue = Queue("bench", {"connection": self.url})
        yield

    def options_of(self, delay_s: float | None = None) -> dict[str, Any]:
        chosen: dict[str, Any] = {"removeOnComplete": not self.results}
        if delay_s is not None:
            chosen["delay"] = int(delay_s * 1000)
        if self.storm:
            chosen["attempts"] = 2
        return chosen

    async def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        return await self.queue.add("noop", data, self.options_of(delay_s))

    async def add_many(self, numbers: list[dict[str, Any]]) -> None:
        await self.queue.addBulk([{"name": "noop", "data": data, "opts": self.options_of()} for data in numbers])

    async def work(self) -> None:
        async def process(job: Any, _token: str) -> Any:
            return await self.handle(job.data, first_try=job.attemptsMade == 0)

        self.worker = Worker("bench", process, {"connection": self.url, "concurrency": 100, "autorun": False})
        await background(self.worker.run())


if __name__ == "__main__":
    main(BullRival)
