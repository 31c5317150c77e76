"""The cases, for libraries that live in an event loop. A driver says how its library adds and how it works; what is asked
and when the clock runs is the same for all, here.

The clock of a drain runs from the first handler's start to the last one's end, so that nobody pays for starting up; what a
library has read ahead by then is a present.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from protocol import Asked, Measures, Stopwatch, answer, give_up, memory_mb, percentiles

AT_ONCE = 100


class FailOnce(Exception):
    """What a handler raises at its first try in the retry storm."""


class AsyncioRival:
    """One library. Subclasses fill in the methods of the first part."""

    uvloop = True
    """Each at its best: uvloop for whoever gains by it."""

    from_the_start = False
    """Whether the clock of a drain runs from the worker's start, for those that are compared closely."""

    def __init__(self, asked: Asked) -> None:
        self.url = asked.url
        self.jobs = asked.jobs
        self.task = asked.task
        self.options = asked.options
        self.results: bool = asked.options.get("results", False)
        self.events: bool = asked.options.get("events", False)
        self.pause_s: float = asked.options.get("pause_s", 0)
        self.storm = asked.task == "retry_storm"
        self.watch = Stopwatch(asked.url)
        self.left = asked.jobs
        self.times: list[float] = []
        self.all_done = asyncio.Event()

    # --- what a driver says ----------------------------------------------------------------------------------------

    def client(self) -> AbstractAsyncContextManager[Any]:
        """Opens what `add` needs."""
        raise NotImplementedError

    async def add(self, data: dict[str, Any], delay_s: float | None = None) -> Any:
        raise NotImplementedError

    async def add_many(self, numbers: list[dict[str, Any]]) -> None:
        """One call of the library that adds several; where there is none, they are added at once."""
        await asyncio.gather(*(self.add(data) for data in numbers))

    async def work(self) -> None:
        """Starts a worker in the background that calls `handle` for each job."""
        raise NotImplementedError

    async def emptied(self) -> None:
        """Waits until Redis has let the jobs go, where that is later than the handler's end."""

    # --- what is asked ---------------------------------------------------------------------------------------------

    async def handle(self, data: dict[str, Any], *, first_try: bool = True) -> Any:
        """What every handler does: nothing, and tells when the last has done so."""
        if not self.watch.running:
            self.watch.start()
        if "t" in data:
            self.times.append(time.perf_counter() - data["t"])
        if self.pause_s:
            await asyncio.sleep(self.pause_s)
        if self.storm and first_try:
            raise FailOnce
        self.left -= 1
        if self.left == 0:
            self.all_done.set()
        return {"ok": True} if self.results else None

    async def add_single(self) -> Measures:
        async with self.client():
            await self.add({"i": -1})
            self.watch.start()
            for i in range(self.jobs):
                await self.add({"i": i})
            return self.watch.stop(self.jobs)

    async def add_concurrent(self) -> Measures:
        async with self.client():
            await self._at_once(0, AT_ONCE)
            self.watch.start()
            for at in range(0, self.jobs, AT_ONCE):
                await self._at_once(at, AT_ONCE)
            return self.watch.stop(self.jobs)

    async def add_bulk(self) -> Measures:
        size, in_flight = self.options["size"], self.options.get("in_flight", 1)
        bulks = [[{"i": at + i} for i in range(size)] for at in range(0, self.jobs, size)]
        async with self.client():
            await self.add({"i": -1})
            self.watch.start()
            for at in range(0, len(bulks), in_flight):
                if in_flight == 1:
                    await self.add_many(bulks[at])
                else:
                    await asyncio.gather(*(self.add_many(bulk) for bulk in bulks[at : at + in_flight]))
            return self.watch.stop(len(bulks) * size)

    async def drain(self) -> Measures:
        async with self.filled():
            if self.from_the_start:
                self.watch.start()
            await self.work()
            await self.all_done.wait()
            await self.emptied()
            return self.watch.stop(self.jobs)

    retry_storm = drain

    async def delayed(self) -> Measures:
        """All due at the same moment; the time runs from that moment until the last has run."""
        due = time.time() + 1.0 + self.jobs / self.options.get("adds_per_s", 1000)
        async with self.client():
            for at in range(0, self.jobs, AT_ONCE):
                await self._at_once(at, AT_ONCE, due)
            if time.time() > due:
                raise RuntimeError(f"adding {self.jobs} delayed jobs took longer than their delay")
            await self.work()
            await asyncio.sleep(max(0.0, due - time.time()))
            if not self.watch.running:
                self.watch.start()
            await self.all_done.wait()
            return self.watch.stop(self.jobs)

    async def latency(self) -> Measures:
        """From just before the add to the handler's start, at 200 jobs a second; before that, an idle worker's memory."""
        async with self.client():
            await self.work()
            await asyncio.sleep(0.5)
            idle_mb = memory_mb()
            started = time.perf_counter()
            adds: list[asyncio.Future[Any]] = []
            for i in range(self.jobs):
                await asyncio.sleep(max(0.0, started + i / 200 - time.perf_counter()))
                adds.append(asyncio.ensure_future(self.add({"i": i, "t": time.perf_counter()})))
            await asyncio.gather(*adds)
            await self.all_done.wait()
        return {**percentiles(self.times), "idle_mb": idle_mb}

    @asynccontextmanager
    async def filled(self) -> AsyncGenerator[None]:
        async with self.client():
            for at in range(0, self.jobs, AT_ONCE):
                await self._at_once(at, min(AT_ONCE, self.jobs - at))
            yield

    async def _at_once(self, at: int, count: int, due: float | None = None) -> None:
        delay_s = None if due is None else max(0.0, due - time.time())
        await asyncio.gather(*(self.add({"i": i}, delay_s) for i in range(at, at + count)))


_running: set[asyncio.Task[None]] = set()


async def background(work: Coroutine[Any, Any, Any]) -> None:
    """Runs a worker until the driver ends; when the worker fails, so does the driver."""

    async def run() -> None:
        try:
            await work
        except BaseException:  # noqa: BLE001
            give_up()

    _running.add(asyncio.create_task(run()))
    await asyncio.sleep(0)


def main(rival: type[AsyncioRival]) -> None:
    asked = Asked.read()

    async def run() -> None:
        try:
            measures = await getattr(rival(asked), asked.task)()
        except BaseException:  # noqa: BLE001
            give_up()
        answer(measures)

    if asked.options.get("uvloop", rival.uvloop):
        importlib.import_module("uvloop").install()
    asyncio.run(run())
