"""The way into a queue for tests: a connection of its own, and a worker on the same server as the queue."""

# A test looks behind the counter on purpose; this is the one place that does.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.broker.scripts import Script
from relevo.engine.consuming.handlers import AnyHandler
from relevo.engine.queue import Queue
from relevo.engine.worker import Worker
from relevo.wire.keys import QueueKeys


class Inside(NamedTuple):
    """A queue seen from inside."""

    link: Link
    keys: QueueKeys

    async def time_ms(self) -> int:
        """The server's clock, which is the one that counts."""
        seconds, micros = await self.link.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def together(self, *commands: tuple[Any, ...]) -> list[Reply]:
        """The replies of several commands, all of one moment."""
        packed = [command("MULTI"), *(command(*each) for each in commands), command("EXEC")]
        await self.link.ready()
        replies = await self.link.send(b"".join(packed), len(packed))
        return [self.link.checked(reply, "a look inside") for reply in self.link.checked(replies[-1], "EXEC")]

    async def keys_from(self, prefix: bytes) -> list[bytes]:
        """The queue's keys that begin with `prefix`."""
        pattern = re.sub(rb"([\\*?\[\]])", rb"\\\1", prefix) + b"*"
        found: set[bytes] = set()
        at = b"0"
        while True:
            at, page = await self.link.call("SCAN", at, "MATCH", pattern, "COUNT", 1000)
            found.update(page)
            if at == b"0":
                return sorted(found)


@asynccontextmanager
async def inside(queue: Queue, scripts: Iterable[Script] = ()) -> AsyncGenerator[Inside]:
    link = Link(queue._address, queue._keys.tag, purpose="testing", scripts=scripts, wait=10.0)
    try:
        yield Inside(link, queue._keys)
    finally:
        await link.close()


def worker_of(queue: Queue, handler: AnyHandler, options: dict[str, Any]) -> Worker:
    """A worker of the queue, on its server and in its group, with waits that suit a test."""
    settings: dict[str, Any] = {
        "redis_url": queue._redis_url,
        "tls": queue._tls,
        "credential_provider": queue._address.credentials,
        "group": queue._group,
        "read_block_ms": 50,
        "promote_every_ms": 10,
        "scheduler_tick_ms": 50,
        "shutdown_deadline_s": 5.0,
        "unknown_task_wait_s": 0,  # no other worker will come: a name that nobody knows is a mistake, and seen at once
        **options,
    }
    return Worker(queue.name, handler, **settings)
