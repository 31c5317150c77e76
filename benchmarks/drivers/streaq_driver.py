"""Drives streaq: Redis Streams, anyio and coredis."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from asyncio_rival import AsyncioRival, FailOnce, background, main
from protocol import Asked
from streaq import StreaqRetry, Worker

logging.disable()


class StreaqRival(AsyncioRival):
    """Client and worker are of the same class and are both entered, so there is one of each."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.failed: set[int] = set()
        self.producer, self.noop = self.made()
        self.runner, _ = self.made()

    def made(self) -> tuple[Any, Any]:
        worker: Worker[None] = Worker(redis_url=self.url, concurrency=100, handle_signals=False)

        # A ttl of 0 keeps no result; a task that logs nothing is the cheaper one.
        @worker.task(name="noop", silent=True, ttl=3600 if self.results else 0)
        async def noop(data: dict[str, Any]) -> Any:
            try:
                return await self.handle(data, first_try=data["i"] not in self.failed)
            except FailOnce:
                self.failed.add(data["i"])
                raise StreaqRetry(delay=timedelta(0)) from None

        return worker, noop

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[None]:
        async with self.producer:
            yield

    async def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        task = self.noop.enqueue(data)
        return await (task if delay_s is None else task.start(delay=timedelta(seconds=delay_s)))

    async def add_many(self, numbers: list[dict[str, Any]]) -> None:
        await self.producer.enqueue_many([self.noop.enqueue(data) for data in numbers])

    async def work(self) -> None:
        await background(self.runner.run_async())


if __name__ == "__main__":
    main(StreaqRival)
