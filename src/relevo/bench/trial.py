"""relevo on a user's own server: adds, drains and latency, each for a second or so, on a queue that is deleted at the end."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from relevo.bench.ceiling import Ceiling
from relevo.broker.address import Address
from relevo.broker.checkup import Facts
from relevo.broker.link import Link
from relevo.broker.resp import ReplyError, command
from relevo.broker.transport import send
from relevo.engine.job.job import Job
from relevo.engine.queue import Queue
from relevo.engine.worker import Worker
from relevo.errors import NotMeasurable
from relevo.wire.keys import QueueKeys

AT_ONCE = 100
BULK = 500
MOST = 100_000
"""Jobs on the server at a time: some 20 MB, or 40 while events are written."""
ROOM = 100 * 2**20
PING_PER_S = 200
STEPS = 10


@dataclass
class Measured:
    """What came of a trial. Rates are jobs a second; `shares` are of the raw rate that bounds them."""

    server: str = ""
    rates: dict[str, float] = field(default_factory=dict[str, float])
    ceilings: dict[str, float] = field(default_factory=dict[str, float])
    latency_ms: dict[str, float] = field(default_factory=dict[str, float])

    BOUNDS = {  # noqa: RUF012
        "single add": "round trips",
        "100 concurrent adds": "pipelined adds",
        "bulk of 500": "pipelined adds",
        "drain, events off": "read and ack",
        "drain, events on": "read and ack",
    }

    @property
    def shares(self) -> dict[str, float]:
        return {name: rate / self.ceilings[self.BOUNDS[name]] for name, rate in self.rates.items()}


class Trial:
    """One measurement of one server. `seconds` is what each part may take, `longest` the whole."""

    def __init__(self, url: str, *, seconds: float = 1.5, patience: float = 3.0, longest: float = 55.0) -> None:
        self._url = url
        self._seconds = seconds
        self._patience = patience
        self._longest = longest
        self._name = f"relevo-bench-{uuid.uuid4().hex[:12]}"
        self._measured = Measured()

    async def run(self, step: Callable[[str], None] = lambda _: None) -> Measured:
        """Measures; calls `step` with what comes next. Leaves nothing on the server, also when it fails or is interrupted."""
        try:
            async with asyncio.timeout(self._longest):
                return await self._run(step)
        except TimeoutError:
            reason = f"it was not done after {self._longest:g} s"
            raise self._not(reason, "Look at its load and at the way to it, then try again.") from None

    async def _run(self, step: Callable[[str], None]) -> Measured:
        measured = self._measured
        step("looking at the server")
        measured.server = await self._fit()
        async with self._queue() as queue:
            await self._ceilings(step)
            for name, part in (("single add", self._single), ("100 concurrent adds", self._concurrent)):
                step(name)
                measured.rates[name] = await part(queue)
                await queue.obliterate(force=True)
            step("bulk of 500")
            measured.rates["bulk of 500"] = await self._bulk(queue)
            for name, events in (("drain, events off", False), ("drain, events on", True)):
                step(name)
                await queue.obliterate(force=True)
                measured.rates[name] = await self._drain(queue, events)
            step("latency")
            await queue.obliterate(force=True)
            await self._latency(queue)
        return measured

    # --- the server -------------------------------------------------------------------------------------------------

    async def _fit(self) -> str:
        """Its name; raises `NotMeasurable` when a measurement could do harm, or would not end."""
        keys = QueueKeys(self._name)
        link = Link(Address.parse(self._url), keys.tag, purpose="bench", wait=self._patience)
        try:
            transport = await link.ready()
            facts = await Facts.ask(link)
            if facts.info.get("role") in ("slave", "replica"):
                raise self._not("it is a replica, which takes no writes", "Name its master.")
            limit, used = facts.number("maxmemory", "maxmemory"), facts.number("used_memory", "used_memory")
            if limit and limit - used < ROOM:
                reason = f"{max(0, limit - used) // 2**20} MB are left of its maxmemory, and {ROOM // 2**20} are needed"
                raise self._not(reason, "Raise maxmemory, or measure another server.")
            # Whatever else stops writes (a full disk, a user without the right to) shows in a write.
            replies = await send(transport, command("SET", keys.tag + b":probe", "1", "PX", 1000), 1)
            await send(transport, command("DEL", keys.tag + b":probe"), 1)
            if isinstance(replies[0], ReplyError):
                raise self._not(f"it refuses writes ({replies[0]})", "See `relevo doctor`.")
            return facts.server
        finally:
            await link.close()

    def _not(self, reason: str, remedy: str) -> NotMeasurable:
        return NotMeasurable(address=str(Address.parse(self._url)), reason=reason, remedy=remedy)

    @contextlib.asynccontextmanager
    async def _queue(self) -> AsyncGenerator[Queue]:
        async with Queue(self._name, redis_url=self._url, wait_s=self._patience) as queue:
            try:
                yield queue
            finally:
                await queue.obliterate(force=True)

    async def _ceilings(self, step: Callable[[str], None]) -> None:
        # A name of its own: the worker's group and the raw one must not meet.
        async with Ceiling.of(self._url, f"{self._name}-raw", wait=self._patience) as ceiling:
            step("the server itself: round trips")
            self._measured.ceilings["round trips"] = await ceiling.round_trips(MOST, seconds=self._seconds / 2)
            step("the server itself: adds")
            self._measured.ceilings["pipelined adds"] = await ceiling.adds(MOST, seconds=self._seconds)
            step("the server itself: reads and acks")
            jobs = self._jobs(self._measured.ceilings["pipelined adds"])
            self._measured.ceilings["read and ack"] = await ceiling.drain(jobs, seconds=self._seconds)

    def _jobs(self, rate: float) -> int:
        """As many as can be added in the time of one part, in whole bulks."""
        return max(BULK, min(MOST, int(rate * self._seconds)) // BULK * BULK)

    # --- relevo -----------------------------------------------------------------------------------------------------

    async def _single(self, queue: Queue) -> float:
        await queue.add("noop", {"i": -1})
        done, started = 0, time.perf_counter()
        while time.perf_counter() - started < self._seconds:
            await queue.add("noop", {"i": done})
            done += 1
        return done / (time.perf_counter() - started)

    async def _concurrent(self, queue: Queue) -> float:
        done, started = 0, time.perf_counter()
        while done < MOST and time.perf_counter() - started < self._seconds:
            await asyncio.gather(*(queue.add("noop", {"i": done + i}) for i in range(AT_ONCE)))
            done += AT_ONCE
        return done / (time.perf_counter() - started)

    async def _bulk(self, queue: Queue) -> float:
        bulk = [{"name": "noop", "data": {"i": i}} for i in range(BULK)]
        done, started = 0, time.perf_counter()
        while done < MOST and time.perf_counter() - started < self._seconds:
            await queue.add_bulk(bulk)
            done += BULK
        return done / (time.perf_counter() - started)

    async def _drain(self, queue: Queue, events: bool) -> float:
        jobs = self._jobs(self._measured.rates["bulk of 500"])
        for _ in range(jobs // BULK):
            await queue.add_bulk([{"name": "noop", "data": {"i": i}} for i in range(BULK)])
        done, first, enough = 0, 0.0, asyncio.Event()

        async def handler(_: Job) -> None:
            nonlocal done, first
            done += 1
            if done == 1:
                first = time.perf_counter()
            if done == jobs:
                enough.set()

        async with self._worker(handler, events):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2 * self._seconds + self._patience):
                    await enough.wait()
                    # A job counts when the server has let it go.
                    while any((await queue.get_job_counts("waiting", "active")).values()):  # noqa: ASYNC110
                        await asyncio.sleep(0.002)
            return done / (time.perf_counter() - first) if first else 0.0

    async def _latency(self, queue: Queue) -> None:
        times: list[float] = []
        count = max(1, int(PING_PER_S * self._seconds))
        enough = asyncio.Event()

        async def handler(job: Job) -> None:
            times.append(time.perf_counter() - job.data["t"])
            if len(times) == count:
                enough.set()

        async with self._worker(handler, False):
            await queue.add("ping", {"t": time.perf_counter()})
            while not times:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            times.clear()
            started, adds = time.perf_counter(), list[asyncio.Task[Job]]()
            for i in range(count):
                await asyncio.sleep(max(0.0, started + i / PING_PER_S - time.perf_counter()))
                adds.append(asyncio.create_task(queue.add("ping", {"t": time.perf_counter()})))
            await asyncio.gather(*adds)
            await enough.wait()
        times.sort()
        at = {"p50": len(times) // 2, "p99": int(len(times) * 0.99)}
        self._measured.latency_ms = {name: times[index] * 1000 for name, index in at.items()}

    def _worker(self, handler: Callable[[Job], object], events: bool) -> Worker:
        return Worker(self._name, handler, redis_url=self._url, events_enabled=events, run_scheduler=False)
