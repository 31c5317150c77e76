"""Drives docket (PyPI: pydocket), the closest in kind: Redis Streams with a Lua script for each step."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from asyncio_rival import AsyncioRival, background, main
from docket import CurrentExecution, Docket, Execution, Retry, Worker

logging.disable()


class DocketRival(AsyncioRival):
    """Results are kept only where they are asked for: `execution_ttl` 0 turns them off."""

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[None]:
        ttl = timedelta(hours=1) if self.results else timedelta(0)
        # Its pool has 100 connections at most and refuses the next user: too few for 100 tasks and its own errands.
        url = f"{self.url}?max_connections=300"
        async with Docket(name="bench", url=url, execution_ttl=ttl) as self.docket:

            async def plain(data: dict[str, Any]) -> Any:
                return await self.handle(data)

            async def retried(
                data: dict[str, Any],
                execution: Execution = CurrentExecution(),  # noqa: B008
                retry: Retry = Retry(attempts=2),  # noqa: ARG001, B008
            ) -> Any:
                return await self.handle(data, first_try=execution.attempt == 1)

            self.function = retried if self.storm else plain
            self.docket.register(self.function)
            yield

    async def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        when = None if delay_s is None else datetime.now(UTC) + timedelta(seconds=delay_s)
        return await self.docket.add(self.function, when=when)(data)

    async def add_many(self, numbers: list[dict[str, Any]]) -> None:
        await self.docket.add_many([self.docket.call(self.function)(data) for data in numbers])

    async def work(self) -> None:
        async def run() -> None:
            async with Worker(self.docket, concurrency=100, minimum_check_interval=timedelta(milliseconds=5)) as worker:
                await worker.run_forever()

        await background(run())


if __name__ == "__main__":
    main(DocketRival)
