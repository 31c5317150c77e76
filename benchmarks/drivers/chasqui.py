"""Drives relevo and PyPI's chasquimq alike: their Python API is the same, so both run exactly this program.

Called as `chasqui.py MODULE`. Both settle in batches after the handler: a job counts when Redis has let it go.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from asyncio_rival import AsyncioRival, background, main
from protocol import Asked, Watcher

QUEUE = "bench"


class Chasqui(AsyncioRival):
    """The public API of either library."""

    uvloop = False  # like for like; the tuned contestant asks for it
    from_the_start = (
        True  # an engine that reads far ahead would otherwise have half its work done before the clock runs
    )

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        library = importlib.import_module(sys.argv[1])
        # Both names are taken before the clock runs: relevo loads what a worker needs when it is first asked for one.
        self.queue_class, self.worker_class = library.Queue, library.Worker
        self.once = {"backoff": {"kind": "fixed", "delay_ms": 1, "jitter_ms": 0}} if self.storm else {}

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[None]:
        async with self.queue_class(QUEUE, redis_url=self.url) as self.queue:
            yield

    def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        if delay_s is not None:
            return self.queue.add("noop", data, delay_ms=int(delay_s * 1000))
        return self.queue.add("noop", data)

    def add_many(self, numbers: list[dict[str, Any]]) -> Any:
        jobs = [{"name": "noop", "data": data, **self.once} for data in numbers]
        if "frame" in self.options:  # relevo's own: many jobs in one entry
            return self.queue.add_bulk(jobs, frame=self.options["frame"])
        return self.queue.add_bulk(jobs)

    @asynccontextmanager
    async def filled(self) -> AsyncGenerator[None]:
        async with self.client():
            for at in range(0, self.jobs, 500):
                await self.add_many([{"i": i} for i in range(at, min(at + 500, self.jobs))])
            yield

    async def work(self) -> None:
        async def handler(job: Any) -> Any:
            return await self.handle(job.data, first_try=job.attempt == 0)

        worker = self.worker_class(
            QUEUE,
            handler,
            redis_url=self.url,
            concurrency=100,
            events_enabled=self.events,
            store_results=self.results,
            **self.options.get("worker", {}),
        )
        await background(worker.run())

    async def emptied(self) -> None:
        watcher, key = Watcher(self.url), f"{{chasqui:{QUEUE}}}"
        while watcher.call("XLEN", f"{key}:stream") or watcher.call("ZCARD", f"{key}:delayed"):  # noqa: ASYNC110
            await asyncio.sleep(0.002)


if __name__ == "__main__":
    main(Chasqui)
