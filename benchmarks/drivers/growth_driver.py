"""Drives relevo for the growth runs, by its public API. The protocol is that of protocol.py; each measure is what one job (or
one fire, or one idle second) costs: `{"process_us", "server_us", "rate"}`."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from typing import Any

from protocol import Asked, Watcher, answer, give_up

from relevo import Job, Queue, RepeatPattern, Worker

QUEUE = "growth"
STREAM = f"{{chasqui:{QUEUE}}}:stream"
BULK = 500
Cost = dict[str, float]


class Meter:
    """CPU of both sides and time, since it was made or reset."""

    def __init__(self, url: str) -> None:
        self.watcher = Watcher(url)
        self.reset()

    def reset(self) -> None:
        self._server, self._cpu, self._at = self.watcher.cpu_s(), time.process_time(), time.perf_counter()

    def cost(self, count: float) -> Cost:
        seconds = time.perf_counter() - self._at
        cpu, server = time.process_time() - self._cpu, self.watcher.cpu_s() - self._server
        return {"process_us": cpu / count * 1e6, "server_us": server / count * 1e6, "rate": count / seconds}


class Growth:
    """One method a line."""

    def __init__(self, asked: Asked) -> None:
        self.url, self.size = asked.url, asked.jobs
        self.slice: int = asked.options["slice"]
        self.seconds: float = asked.options["seconds"]
        self.meter = Meter(asked.url)

    # --- the lines --------------------------------------------------------------------------------------------------

    async def waiting(self) -> dict[str, Cost]:
        """Adds to, and drains a slice from, a queue in which `size` jobs wait."""
        async with self.queue() as queue:
            await self.fill(queue, self.size - self.meter.watcher.call("XLEN", STREAM))
            self.meter.reset()
            await self.fill(queue, self.slice)
            added = self.meter.cost(self.slice)
        return {"a job added in bulk": added, "a job drained": await self.drained(self.slice)}

    async def queues(self) -> dict[str, Cost]:
        """The same number of jobs in `size` queues, one process working all of them; and what they cost when idle."""
        names = [f"{QUEUE}-{n}" for n in range(self.size)]
        share = max(1, self.slice // self.size)
        done, total, finished = 0, share * self.size, asyncio.Event()

        async def handler(_: Job) -> None:
            nonlocal done
            done += 1
            if done == total:
                finished.set()

        room = 16 * self.size + 200  # connections a worker keeps, generously
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit[0] < room <= limit[1]:
            resource.setrlimit(resource.RLIMIT_NOFILE, (room, limit[1]))
        # Filled first, by nobody's neighbour: a thousand idle workers take most of a core.
        for at in range(0, self.size, 50):
            await asyncio.gather(*(self.fill_queue(name, share) for name in names[at : at + 50]))
        workers = [self.worker(handler, name) for name in names]
        for at in range(0, self.size, 50):
            for worker in workers[at : at + 50]:
                worker.pause()
            await asyncio.gather(*(worker.__aenter__() for worker in workers[at : at + 50]))
        self.meter.reset()
        for worker in workers:
            worker.resume()
        await finished.wait()
        drained = self.meter.cost(total)
        await asyncio.sleep(1.0)
        self.meter.reset()
        await asyncio.sleep(self.seconds)
        idle = self.meter.cost(self.seconds * self.size)
        return {"a job drained": drained, "an idle second of one queue": {**idle, "rate": 0.0}}

    async def payload(self) -> dict[str, Cost]:
        """Jobs of `size` bytes of data; not more than 200 MB of them at a time."""
        jobs = max(BULK, min(self.slice, 200_000_000 // self.size))
        async with self.queue() as queue:
            data, per_call = {"x": "a" * self.size}, max(1, min(BULK, 4_000_000 // self.size))
            self.meter.reset()
            for at in range(0, jobs, per_call):
                await queue.add_bulk([{"name": "noop", "data": data}] * min(per_call, jobs - at))
            added = self.meter.cost(jobs)
        return {"a job added in bulk": added, "a job drained": await self.drained(jobs)}

    async def delayed(self) -> dict[str, Cost]:
        """`size` jobs wait for tomorrow; a slice becomes due now."""
        async with self.queue() as queue:
            self.meter.reset()
            await self.fill(queue, self.size, delay_ms=86_400_000)
            added = self.meter.cost(self.size)
            await self.fill(queue, self.slice, delay_ms=1)
        return {"a delayed job added": added, "a due job promoted and run": await self.drained(self.slice)}

    async def schedules(self) -> dict[str, Cost]:
        """`size` schedules: what one costs to make, and one of their fires."""
        fired, every_ms = 0, max(1_000, int(self.seconds * 1000) // 2)

        async def handler(_: Job) -> None:
            nonlocal fired
            fired += 1

        async with self.queue() as queue:
            for n in range(
                0, self.size, 2
            ):  # half by cron, which fire rarely; they are there and must be looked through
                pattern = RepeatPattern.cron(f"{n % 60} {n % 24} {n % 28 + 1} {n % 12 + 1} *", tz="Europe/Madrid")
                await queue.upsert_repeatable_job("rare", {}, repeat=pattern, key=f"cron-{n}")
            self.meter.reset()
            half = [f"every-{n}" for n in range(max(1, self.size // 2))]
            for at in range(0, len(half), 100):
                await asyncio.gather(
                    *(
                        queue.upsert_repeatable_job("often", {}, repeat=RepeatPattern.every(every_ms), key=key)
                        for key in half[at : at + 100]
                    )
                )
            made = self.meter.cost(len(half))
        async with self.worker(handler):
            await asyncio.sleep(every_ms / 1000)
            fired = 0
            self.meter.reset()
            await asyncio.sleep(self.seconds)
            return {"a schedule made": made, "a fire, with its job": self.meter.cost(max(1, fired))}

    # --- several processes ------------------------------------------------------------------------------------------

    async def fill_paused(self) -> Cost:
        async with self.queue() as queue:
            await queue.pause()
            await self.fill(queue, self.size)
        return {"done": self.size}

    async def resume(self) -> Cost:
        async with self.queue() as queue:
            await queue.resume()
        return {}

    async def share(self) -> Cost:
        """Drains until nothing is left, and tells how much of it was ours."""
        done, first, last = 0, 0.0, 0.0
        cpu = time.process_time()  # what starting up cost before this is not the jobs'

        async def handler(_: Job) -> None:
            nonlocal done, first, last
            done += 1
            last = time.time()
            if not first:
                first, last = time.time(), time.time()

        async with self.worker(handler):
            print("ready", flush=True)
            while self.meter.watcher.call("XLEN", STREAM):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            spent = time.process_time() - cpu
        return {"done": done, "first": first, "last": last, "cpu_s": spent}

    # --- parts ------------------------------------------------------------------------------------------------------

    def queue(self, name: str = QUEUE) -> Queue:
        return Queue(name, redis_url=self.url, max_stream_len=50_000_000)

    def worker(self, handler: Callable[[Job], Awaitable[None]], name: str = QUEUE) -> Worker:
        return Worker(name, handler, redis_url=self.url, concurrency=100, events_enabled=False)

    async def fill_queue(self, name: str, jobs: int) -> None:
        async with self.queue(name) as queue:
            await self.fill(queue, jobs)

    async def fill(self, queue: Queue, jobs: int, **options: Any) -> None:
        pause = asyncio.Semaphore(2)  # two bulks in flight

        async def add(count: int) -> None:
            try:
                await queue.add_bulk([{"name": "noop", "data": {"i": i}, **options} for i in range(count)])
            finally:
                pause.release()

        adding: set[asyncio.Task[None]] = set()
        for at in range(0, jobs, BULK):
            await pause.acquire()
            task = asyncio.create_task(add(min(BULK, jobs - at)))
            adding.add(task)
            task.add_done_callback(adding.discard)
        await asyncio.gather(*adding)

    async def drained(self, jobs: int) -> Cost:
        """The cost of the next `jobs` jobs, from the first one's start."""
        done, enough = 0, asyncio.Event()
        cost: Cost = {}

        async def handler(_: Job) -> None:
            nonlocal done
            done += 1
            if done == 1:
                self.meter.reset()
            if done == jobs:
                cost.update(self.meter.cost(jobs))
                enough.set()

        async with self.worker(handler):
            await enough.wait()
        return cost


async def main() -> None:
    asked = Asked.read()
    try:
        measured = await getattr(Growth(asked), asked.task)()
    except BaseException:  # noqa: BLE001
        give_up()
    answer(measured)


if __name__ == "__main__":
    asyncio.run(main())
