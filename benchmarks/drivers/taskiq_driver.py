"""Drives taskiq with taskiq-redis' stream broker. Its delays need a scheduler process of their own, so that is not asked."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from asyncio_rival import AsyncioRival, background, main
from protocol import Asked
from taskiq import Context, SimpleRetryMiddleware, TaskiqDepends
from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

logging.disable()


class TaskiqRival(AsyncioRival):
    """The receiver's own limit of tasks is 100; it reads a hundred messages at a time."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.broker = RedisStreamBroker(self.url, queue_name="bench", consumer_id="0")
        if self.results:
            self.broker = self.broker.with_result_backend(RedisAsyncResultBackend(self.url, result_ex_time=3600))
        if self.storm:
            self.broker = self.broker.with_middlewares(SimpleRetryMiddleware(default_retry_count=3))

            async def noop(data: dict[str, Any], context: Context = TaskiqDepends()) -> Any:  # noqa: B008
                return await self.handle(data, first_try="_retries" not in context.message.labels)
        else:

            async def noop(data: dict[str, Any]) -> Any:
                return await self.handle(data)

        # Types are spelled out here, because taskiq reads them and this class's method has no module to find them in.
        noop.__annotations__ = {"data": dict, **({"context": Context} if self.storm else {})}
        self.noop = self.broker.task(task_name="noop", retry_on_error=self.storm)(noop)

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[None]:
        await self.broker.startup()
        yield

    async def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        assert delay_s is None
        return await self.noop.kiq(data)

    async def work(self) -> None:
        await background(run_receiver_task(self.broker, max_async_tasks=100, max_prefetch=100))


if __name__ == "__main__":
    main(TaskiqRival)
