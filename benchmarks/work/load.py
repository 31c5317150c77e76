"""The load: plain keep-alive connections, one request in flight on each, no HTTP library; run as a process of its own.

Called as `load.py`, reads one JSON object from standard input (host, port, key, case, queue, connections, count, size) and
prints one. `load_cpu_us` says what it cost itself, which on a machine of few cores is taken from the server it measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvloop


class Claimed(msgspec.Struct):
    """Of a claimed message what is needed to settle it."""

    id: str
    claim_token: str


class ClaimAnswer(msgspec.Struct):
    """An answer to a claim."""

    data: list[Claimed]


_ANSWER = msgspec.json.Decoder(ClaimAnswer)
_encode = msgspec.json.Encoder().encode


class Connection(asyncio.Protocol):
    """One connection; `ask` sends a request and gives the answer's body."""

    def __init__(self) -> None:
        self._buffer = b""
        self._missing = 0
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if len(self._buffer) < self._missing:
            return
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        place = head.index(b"content-length:") + 15
        line = head.find(b"\r\n", place)
        self._missing = end + 4 + int(head[place : line if line >= 0 else None])
        if len(self._buffer) < self._missing:
            return
        body, self._buffer, self._missing = self._buffer[end + 4 : self._missing], self._buffer[self._missing :], 0
        assert self._answer is not None
        if head[9:10] != b"2":
            self._answer.set_exception(RuntimeError(f"{head[:40]!r} {body[:300]!r}"))
        else:
            self._answer.set_result(body)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed"))


class Load:
    """One case against one server."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.count: int = asked["count"]
        self.size: int = asked.get("size", 1)
        self._begun = 0
        self._done = 0
        self._queue = f"/v1/scopes/bench/queues/{asked['queue']}"

    def head(self, path: str) -> bytes:
        """A request up to the length of its body."""
        return (
            f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {self.asked['key']}\r\n"
            "content-type: application/json\r\ncontent-length: "
        ).encode()

    async def run(self) -> dict[str, float]:
        loop = asyncio.get_running_loop()
        connections = [
            (await loop.create_connection(Connection, self.asked["host"], self.asked["port"]))[1]
            for _ in range(self.asked["connections"])
        ]
        cases: dict[str, Callable[[list[Connection]], Awaitable[dict[str, float]]]] = {
            "single": self.single,
            "batch": self.batch,
            "drain": self.drain,
            "wake": self.wake,
        }
        return await cases[self.asked["case"]](connections)

    async def single(self, connections: list[Connection]) -> dict[str, float]:
        """Each request publishes one message with an idempotency key of its own."""
        mark, head = time.time_ns(), self.head(f"{self._queue}/messages")

        async def publish(connection: Connection) -> None:
            while self._begun < self.count:
                self._begun += 1
                await connection.ask(
                    _request(head, b'{"body":{"i":%d},"idempotency_key":"%d-%d"}' % (self._begun, mark, self._begun))
                )
                self._done += 1

        return await self._timed(connections, publish)

    async def batch(self, connections: list[Connection]) -> dict[str, float]:
        """Each request publishes `size` messages, each with an idempotency key of its own."""
        mark, head = time.time_ns(), self.head(f"{self._queue}/messages/batch")

        async def publish(connection: Connection) -> None:
            while self._begun < self.count:
                first, self._begun = self._begun, self._begun + self.size
                items = b",".join(
                    b'{"body":{"i":%d},"idempotency_key":"%d-%d"}' % (n, mark, n)
                    for n in range(first, first + self.size)
                )
                await connection.ask(_request(head, b'{"items":[%b]}' % items))
                self._done += self.size

        return await self._timed(connections, publish)

    async def drain(self, connections: list[Connection]) -> dict[str, float]:
        """Claims `size` and completes them, until `count` are done."""
        claim = _request(self.head(f"{self._queue}/claim"), b'{"batch_size":%d}' % self.size)
        complete = self.head(f"{self._queue}/complete")

        async def work(connection: Connection) -> None:
            while self._begun < self.count:
                self._begun += self.size
                messages = _ANSWER.decode(await connection.ask(claim)).data
                if not messages:
                    return
                self._begun -= self.size - len(messages)
                await connection.ask(_request(complete, _encode({"items": messages})))
                self._done += len(messages)

        return await self._timed(connections, work)

    async def wake(self, connections: list[Connection]) -> dict[str, float]:
        """From the moment a publish is sent until a claim that waits is answered, one at a time."""
        waiting, publishing = connections[0], connections[1]
        claim = _request(self.head(f"{self._queue}/claim"), b'{"wait_s":20}')
        publish = self.head(f"{self._queue}/messages")
        taken: list[float] = []
        for n in range(self.count):
            claimed = waiting.ask(claim)
            await asyncio.sleep(0.01)  # until the claim has looked in vain and waits
            began = time.perf_counter()
            await publishing.ask(_request(publish, b'{"body":%d}' % n))
            (message,) = _ANSWER.decode(await claimed).data
            taken.append((time.perf_counter() - began) * 1000)
            complete = self.head(f"/v1/scopes/bench/messages/{message.id}/complete")
            await waiting.ask(_request(complete, b'{"claim_token":"%b"}' % message.claim_token.encode()))
        taken.sort()
        return {"p50_ms": taken[len(taken) // 2], "p99_ms": taken[int(len(taken) * 0.99)]}

    async def _timed(
        self, connections: list[Connection], work: Callable[[Connection], Awaitable[None]]
    ) -> dict[str, float]:
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work(connection) for connection in connections))
        seconds = time.perf_counter() - began
        if self._done < self.count:
            raise RuntimeError(f"{self._done} of {self.count} were done")
        return {"rate": self._done / seconds, "load_cpu_us": (time.process_time() - cpu) / self._done * 1e6}


def _request(head: bytes, body: bytes) -> bytes:
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)


def main() -> None:
    load = Load(json.load(sys.stdin))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(load.run())))


if __name__ == "__main__":
    main()
