"""Where the story happens: the embedded server, three queues, their workers, and someone who counts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from relevo.broker.address import Address
from relevo.broker.embedded import EmbeddedServer
from relevo.broker.link import Link
from relevo.demo.stage import Stage
from relevo.demo.tally import Tally
from relevo.engine.admin.snapshot import QueueSnapshot
from relevo.engine.consuming.runner import Handler
from relevo.engine.job.job import Job
from relevo.engine.queue import Queue
from relevo.engine.worker import Worker
from relevo.errors import PortTaken, RelevoError, StoryStuck
from relevo.wire.keys import QueueKeys

PARCELS, LETTERS, NIGHT = "parcels", "letters", "night-shift"

_PATIENCE_S = 300.0
_LOOK_S = 0.15


class House:
    """Everything the acts use."""

    def __init__(self, folder: Path, page: Path, stage: Stage, tally: Tally) -> None:
        self.folder = folder
        self.page = page
        """Where the report goes; it stays when the folder does not."""
        self.epilogue = ""
        """What is said after the sum."""
        self.stage = stage
        self.tally = tally
        self.ids: dict[str, list[str]] = {PARCELS: [], LETTERS: [], NIGHT: []}
        self._server: EmbeddedServer | None = None
        self._queues: dict[str, Queue] = {}

    @property
    def server(self) -> EmbeddedServer:
        assert self._server is not None
        return self._server

    @property
    def url(self) -> str:
        return self.server.url

    def queue(self, name: str) -> Queue:
        if name not in self._queues:
            self._queues[name] = Queue(name, redis_url=self.url)
        return self._queues[name]

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        self._server = await asyncio.to_thread(_start_on_a_fixed_port, self.folder)
        self.stage.subtitle = f"embedded Valkey, {self.url}, append-only file"
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watcher.cancel()
            await asyncio.wait([watcher])
            for queue in self._queues.values():
                await queue.close()
            await asyncio.to_thread(self.server.stop)

    async def kill_server(self) -> None:
        """Kill -9, and the same server again: same port, same folder."""
        os.kill(self.server.pid, signal.SIGKILL)
        await asyncio.to_thread(self.server.start)

    @asynccontextmanager
    async def worker(
        self, name: str, handler: Handler, *, concurrency: int = 20, claim_min_idle_ms: int = 30_000
    ) -> AsyncGenerator[Worker]:
        """A worker that counts runs and ends."""

        async def counted(job: Job) -> object:
            self.tally.ran(job.id)
            result = await handler(job)
            self.tally.finished(job.id)
            return result

        made = Worker(name, counted, redis_url=self.url, concurrency=concurrency, claim_min_idle_ms=claim_min_idle_ms)
        async with made:
            yield made

    async def until(self, ready: Callable[[], bool], what: str) -> None:
        """Waits for something to become true; a story that is stuck is a failed one."""
        deadline = time.monotonic() + _PATIENCE_S
        while not ready():
            if time.monotonic() > deadline:
                raise StoryStuck(what=what, waited_s=_PATIENCE_S)
            await asyncio.sleep(0.02)

    async def snapshot(self, name: str) -> QueueSnapshot:
        keys = QueueKeys(name)
        link = Link(Address.parse(self.url), keys.tag, purpose="demo", wait=5)
        try:
            return await QueueSnapshot.take(link, keys)
        finally:
            await link.close()

    async def _watch(self) -> None:
        """Keeps the table of queues up to date."""
        links = {
            name: Link(Address.parse(self.url), QueueKeys(name).tag, purpose="demo", wait=0.5) for name in self.ids
        }
        before: dict[str, tuple[int, float]] = dict.fromkeys(self.ids, (0, time.monotonic()))
        try:
            while True:
                for name, link in links.items():
                    done = self.tally.finished_of(self.ids[name])
                    row = self.stage.rows[name]
                    with contextlib.suppress(
                        RelevoError, OSError
                    ):  # the server is away for a moment: keep the old numbers
                        seen = await QueueSnapshot.take(link, QueueKeys(name))
                        row.waiting, row.running = seen.waiting, seen.pending
                        row.delayed, row.dead = seen.delayed, seen.dead
                    old, at = before[name]
                    if (passed := time.monotonic() - at) > 0.5:
                        row.rate = f"{(done - old) / passed:,.0f}".replace(",", " ") if done > old else ""
                        before[name] = (done, time.monotonic())
                    row.done = done
                await asyncio.sleep(_LOOK_S)
        finally:
            await asyncio.gather(*(link.close() for link in links.values()))


def _start_on_a_fixed_port(folder: Path) -> EmbeddedServer:
    """A port of our own choice, so that a killed server comes back to it; `always`, so that it comes back with everything."""
    for _ in range(20):
        with contextlib.suppress(PortTaken):
            return EmbeddedServer(folder, port=random.randrange(20_000, 32_000), fsync="always").start()
    return EmbeddedServer(folder, fsync="always").start()
