"""One of the two libraries, at work on the test's queue. The same calls go to both: that they fit is half of the test."""

import asyncio
import importlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis import Redis

from tests.pace import limit

Handle = Callable[[Any], Awaitable[Any]]

# A wait that a test would otherwise sit through.
_BLOCK_MS = 50


class Side:
    """`chasquimq` or `relevo`, seen through what they have in common."""

    def __init__(self, name: str, url: str, queue_name: str) -> None:
        # Not imported by name: neither side's types may tell a test apart from the other's.
        self.module: Any = importlib.import_module(name)
        self.name = name
        self._url = url
        self._queue_name = queue_name
        self._opened: list[Any] = []

    def queue(self, **options: Any) -> Any:
        """A producer; closed with the test."""
        queue = self.module.Queue(self._queue_name, redis_url=self._url, **options)
        self._opened.append(queue)
        return queue

    def events(self, **options: Any) -> Any:
        """A subscription from the first event on; closed with the test."""
        settings = {"redis_url": self._url, "last_event_id": "0", "block_ms": 100, **options}
        events = self.module.QueueEvents(self._queue_name, **settings)
        self._opened.append(events)
        return events

    async def events_until(self, last: Callable[[Any], bool], **options: Any) -> list[Any]:
        """All events of the queue up to the first that `last` accepts."""
        found: list[Any] = []
        async with asyncio.timeout(limit(30)):
            async for event in self.events(**options):
                found.append(event)
                if last(event):
                    break
        return found

    @asynccontextmanager
    async def worker(self, handler: Handle, **options: Any) -> AsyncGenerator[Any]:
        """A worker that runs inside the `with`."""
        settings = {"read_block_ms": _BLOCK_MS, **options}
        worker = self.module.Worker(self._queue_name, handler, redis_url=self._url, **settings)
        running = asyncio.ensure_future(worker.run())
        try:
            yield worker
        finally:
            await worker.close()
            await asyncio.wait_for(running, limit(40))
            if self.name == "chasquimq":
                await asyncio.to_thread(self._outwait, settings["read_block_ms"])

    def _outwait(self, block_ms: int) -> None:
        """Ends after the last read that chasquimq's worker leaves behind, which swallows the next job while it waits.

        The server ends waiting reads in the order of their ends, so a longer one that begins now ends after it. Which
        connections wait says nothing: another worker of the test may be there, and it waits nearly always."""
        kind: Any = Redis  # redis-py's annotations are incomplete here
        with kind.from_url(self._url) as redis:
            redis.xread({f"{self._queue_name}:never": "$"}, block=2 * block_ms)

    async def close(self) -> None:
        for each in self._opened:
            await each.close()

    def __repr__(self) -> str:
        return self.name
