"""Drives relevo and PyPI's chasquimq alike: their Python API is the same, so both run exactly this program.

Called as `chasqui.py MODULE`, reads `{"task", "url", "jobs", "options"}` from standard input, prints numbers as JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

QUEUE = "bench"


async def ended(value: Any) -> None:
    if inspect.isawaitable(value):
        await value


def held_mb() -> float:
    """Memory of this process now; not getrusage's maximum, which is inherited from whoever started us."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Bench:
    """The cases, by the public API of `library` only."""

    def __init__(self, library: Any, url: str, jobs: int, options: dict[str, Any]) -> None:
        self.library = library
        self.url = url
        self.jobs = jobs
        self.options = options

    def queue(self) -> Any:
        return self.library.Queue(QUEUE, redis_url=self.url)

    async def add_single(self) -> dict[str, float]:
        async with self.queue() as queue:
            await queue.add("noop", {"i": -1})
            started = time.perf_counter()
            for i in range(self.jobs):
                await queue.add("noop", {"i": i})
            return {"add_single": self.jobs / (time.perf_counter() - started)}

    async def add_concurrent(self) -> dict[str, float]:
        async with self.queue() as queue:
            await queue.add("noop", {"i": -1})
            started = time.perf_counter()
            for at in range(0, self.jobs, 100):
                await asyncio.gather(*(queue.add("noop", {"i": i}) for i in range(at, at + 100)))
            return {"add_concurrent": self.jobs / (time.perf_counter() - started)}

    async def add_bulk(self) -> dict[str, float]:
        size, in_flight = self.options["size"], self.options.get("in_flight", 1)
        async with self.queue() as queue:
            await queue.add("noop", {"i": -1})
            bulks = [
                [{"name": "noop", "data": {"i": i}} for i in range(at, at + size)] for at in range(0, self.jobs, size)
            ]
            started = time.perf_counter()
            for at in range(0, len(bulks), in_flight):
                await asyncio.gather(*(queue.add_bulk(bulk) for bulk in bulks[at : at + in_flight]))
            rate = self.jobs / (time.perf_counter() - started)
        return {f"add_bulk_{size}{'_two' if in_flight > 1 else ''}": rate}

    async def fill(self, **options: Any) -> None:
        async with self.queue() as queue:
            for at in range(0, self.jobs, 500):
                count = min(500, self.jobs - at)
                await queue.add_bulk([{"name": "noop", "data": {"i": at + i}, **options} for i in range(count)])

    async def drain(self) -> dict[str, float]:
        name = self.options["name"]
        pause = self.options.get("pause_s", 0)
        await self.fill()
        left, all_done = self.jobs, asyncio.Event()

        async def handler(_: Any) -> Any:
            nonlocal left
            if pause:
                await asyncio.sleep(pause)
            left -= 1
            if left == 0:
                all_done.set()
            return {"ok": True} if self.options.get("results") else None

        return await self.timed(name, handler, all_done, cpu=self.options.get("cpu"))

    async def timed(
        self, name: str, handler: Callable[[Any], Awaitable[Any]], all_done: asyncio.Event, *, cpu: str | None = None
    ) -> dict[str, float]:
        options = self.options
        worker = self.library.Worker(
            QUEUE, handler, redis_url=self.url, concurrency=100, events_enabled=options.get("events", False),
            store_results=options.get("results", False), **options.get("worker", {}),
        )  # fmt: skip
        cpu_before, started = time.process_time(), time.perf_counter()
        running = asyncio.ensure_future(worker.run())
        await all_done.wait()
        await self.emptied()
        seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_before
        await ended(worker.close())
        await running
        numbers = {name: self.jobs / seconds}
        if cpu:
            numbers[cpu] = cpu_s / self.jobs * 1e6
        return numbers

    async def emptied(self) -> None:
        """A job counts when Redis has let it go, not when its handler returned."""
        import redis.asyncio  # here: the driver of another case does without

        client = redis.asyncio.from_url(self.url)
        while await client.xlen(f"{{chasqui:{QUEUE}}}:stream") or await client.zcard(f"{{chasqui:{QUEUE}}}:delayed"):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await client.aclose()

    async def delayed(self) -> dict[str, float]:
        """All due at the same moment; the time runs from that moment until the last has run."""
        due = time.time() + max(2.0, self.jobs / 8_000)
        async with self.queue() as queue:
            for at in range(0, self.jobs, 500):
                wait_ms = int((due - time.time()) * 1000)
                await asyncio.gather(*(queue.add("noop", {"i": i}, delay_ms=wait_ms) for i in range(at, at + 500)))
        left, all_done = self.jobs, asyncio.Event()

        async def handler(_: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                all_done.set()

        worker = self.library.Worker(QUEUE, handler, redis_url=self.url, concurrency=100, events_enabled=False)
        running = asyncio.ensure_future(worker.run())
        await asyncio.sleep(max(0.0, due - time.time()))
        started = time.perf_counter()
        await all_done.wait()
        seconds = time.perf_counter() - started
        await ended(worker.close())
        await running
        return {"delayed": self.jobs / seconds}

    async def retry_storm(self) -> dict[str, float]:
        await self.fill(backoff={"kind": "fixed", "delay_ms": 1, "jitter_ms": 0})
        left, all_done = self.jobs, asyncio.Event()

        async def handler(job: Any) -> None:
            nonlocal left
            if job.attempt == 0:
                raise RuntimeError("once")
            left -= 1
            if left == 0:
                all_done.set()

        return await self.timed("retry_storm", handler, all_done)

    async def latency(self) -> dict[str, float]:
        times: list[float] = []
        all_done = asyncio.Event()

        async def handler(job: Any) -> None:
            times.append(time.perf_counter() - job.data["t"])
            if len(times) == self.jobs:
                all_done.set()

        worker = self.library.Worker(QUEUE, handler, redis_url=self.url, concurrency=100, events_enabled=False)
        running = asyncio.ensure_future(worker.run())
        async with self.queue() as queue:
            await queue.add_bulk([])
            await asyncio.sleep(0.5)
            started = time.perf_counter()
            adds: list[Awaitable[Any]] = []
            for i in range(self.jobs):
                await asyncio.sleep(max(0.0, started + i / 200 - time.perf_counter()))
                adds.append(asyncio.ensure_future(queue.add("ping", {"t": time.perf_counter()})))
            await asyncio.gather(*adds)
            await all_done.wait()
        await ended(worker.close())
        await running
        times.sort()
        return {"latency_p50": times[len(times) // 2] * 1000, "latency_p99": times[int(len(times) * 0.99)] * 1000}

    async def memory(self) -> dict[str, float]:
        async def handler(_: Any) -> None: ...

        worker = self.library.Worker(QUEUE, handler, redis_url=self.url, concurrency=100)
        running = asyncio.ensure_future(worker.run())
        await asyncio.sleep(1.5)
        held = held_mb()
        await ended(worker.close())
        await running
        return {"memory_idle": held}


def main() -> None:
    task = json.load(sys.stdin)
    if task["options"].get("uvloop"):
        importlib.import_module("uvloop").install()
    bench = Bench(importlib.import_module(sys.argv[1]), task["url"], task["jobs"], task["options"])
    print(json.dumps(asyncio.run(getattr(bench, task["task"])())))


if __name__ == "__main__":
    main()
