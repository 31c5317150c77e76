"""The server's own limit: a pipelining client that packs beforehand and does no work with what comes back.

Whatever a queue does, it cannot be faster than this on the same server, so a rate is told as a share of it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from types import TracebackType
from typing import Self

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import Reply, ReplyError, command
from relevo.broker.transport import send
from relevo.errors import ServerRefused
from relevo.wire.keys import QueueKeys

GROUP = b"default"
BULK = 500
READ = 256
IN_FLIGHT = 2
"""Requests under way at a time: the server has the next one before it has answered the last."""

# An envelope as relevo writes it for {"i": 1}: the same bytes travel and are stored.
_BODY = b"\x94\xba01M7GFST5K1XV11T30B34R29SN\xc4\x04\x81\xa1i\x01\xcf\x00\x00\x01\xa1\xe0\xfc\xe8\xb3\x00"


class Ceiling:
    """Raw commands on a stream of its own, which is deleted at the end."""

    def __init__(self, link: Link, stream: bytes) -> None:
        self._link = link
        self._stream = stream

    @staticmethod
    def of(url: str, queue: str, *, wait: float | None = 10.0) -> Ceiling:
        keys = QueueKeys(queue)
        return Ceiling(Link(Address.parse(url), keys.tag, purpose="bench", wait=wait), keys.stream)

    async def __aenter__(self) -> Self:
        await self._link.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if self._link.up:
                await self._link.call("UNLINK", self._stream)
        finally:
            await self._link.close()

    async def round_trips(self, most: int, *, seconds: float = 1.0) -> float:
        """XADDs a second with one under way: what a program that awaits every add can have at most."""
        add = self._add()
        done, started = 0, time.perf_counter()
        while done < most and time.perf_counter() - started < seconds:
            _refused(await self._link.send(add, 1), "XADD")
            done += 1
        return done / (time.perf_counter() - started)

    async def adds(self, jobs: int, *, once: bool = False, seconds: float = 5.0) -> float:
        """XADDs a second, pipelined; with `once` each is deduplicated by the server (IDMP) in a bounded stream."""
        bulks = [self._bulk(once) for _ in range(max(1, jobs // BULK))]
        return await self._pipelined(bulks, seconds)

    async def drain(self, jobs: int, *, seconds: float = 5.0) -> float:
        """Entries a second, read through a group and taken out again, by the server's own commands."""
        await self._link.call("UNLINK", self._stream)
        filled = max(1, jobs // BULK)
        await self._pipelined([self._bulk(False)] * filled, 60.0)
        await self._link.call("XGROUP", "CREATE", self._stream, GROUP, "0")
        claim = ("CLAIM", 30_000) if self._link.capabilities.read_claim else ()
        read = command("XREADGROUP", "GROUP", GROUP, "c", "COUNT", READ, *claim, "STREAMS", self._stream, ">")
        transport = await self._link.ready()
        done, started = 0, time.perf_counter()
        under_way = deque(asyncio.ensure_future(send(transport, read, 1)) for _ in range(IN_FLIGHT))
        while under_way:
            replies = await under_way.popleft()
            _refused(replies, "XREADGROUP")
            found: Reply = replies[-1]
            if not found:
                continue
            ids = [entry[0] for entry in found[0][1]]
            done += len(ids)
            more = time.perf_counter() - started < seconds
            data, count = self._settle(ids)
            under_way.append(
                asyncio.ensure_future(send(transport, data + read if more else data + command("PING"), count + 1))
            )
            if not more:
                break
        for last in under_way:
            await last
        return done / (time.perf_counter() - started)

    async def _pipelined(self, bulks: list[bytes], seconds: float) -> float:
        transport = await self._link.ready()
        done, started = 0, time.perf_counter()
        under_way: deque[asyncio.Future[list[Reply]]] = deque()
        for bulk in bulks:
            if time.perf_counter() - started > seconds:
                break
            under_way.append(asyncio.ensure_future(send(transport, bulk, BULK)))
            done += BULK
            if len(under_way) == IN_FLIGHT:
                _refused(await under_way.popleft(), "XADD")
        for last in under_way:
            _refused(await last, "XADD")
        return done / (time.perf_counter() - started)

    def _settle(self, ids: list[bytes]) -> tuple[bytes, int]:
        if self._link.capabilities.ack_delete:
            return command("XACKDEL", self._stream, GROUP, "IDS", len(ids), *ids), 1
        return command("XACK", self._stream, GROUP, *ids) + command("XDEL", self._stream, *ids), 2

    def _bulk(self, once: bool) -> bytes:
        producer = uuid.uuid4().hex
        return b"".join(
            self._add("IDMP", producer, f"{producer[:26]}{i}", "MAXLEN", "~", 1_000_000) if once else self._add()
            for i in range(BULK)
        )

    def _add(self, *options: str | int) -> bytes:
        return command("XADD", self._stream, *options, "*", "d", _BODY, "n", "noop")


def _refused(replies: list[Reply], what: str) -> None:
    """An error among the replies ends the measurement: a refused command is quickly answered."""
    error = next((reply for reply in replies if isinstance(reply, ReplyError)), None)
    if error is not None:
        raise ServerRefused(command=what, reason=str(error)) from error
