"""The load: plain keep-alive connections, one request in flight on each, no HTTP library; run as a process of its own.

Called as `load.py`, reads one JSON object from standard input (host, port, key, case, connections, count, size) and prints one.
It costs about a fifth of what it measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


class Connection(asyncio.Protocol):
    """One connection; `ask` sends a request and gives the answer's body."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        place = head.index(b"content-length:") + 15
        line = head.find(b"\r\n", place)
        length = int(head[place : line if line >= 0 else None])
        if len(self._buffer) < end + 4 + length:
            return
        body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
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
        self._next = 0
        self._queue = f"/v1/scopes/bench/queues/{asked['queue']}"

    def request(self, path: str, body: bytes) -> bytes:
        return (
            f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {self.asked['key']}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body

    async def run(self) -> dict[str, float]:
        loop = asyncio.get_running_loop()
        connections = [
            (await loop.create_connection(Connection, self.asked["host"], self.asked["port"]))[1]
            for _ in range(self.asked["connections"])
        ]
        case = getattr(self, self.asked["case"])
        return await case(connections)

    async def single(self, connections: list[Connection]) -> dict[str, float]:
        """Each request publishes one message with an idempotency key of its own."""
        mark = time.time_ns()

        async def publish(connection: Connection) -> None:
            while self._next < self.count:
                self._next += 1
                body = b'{"body":{"i":%d},"idempotency_key":"%d-%d"}' % (self._next, mark, self._next)
                await connection.ask(self.request(f"{self._queue}/messages", body))

        return await self._timed(connections, publish, self.count)

    async def batch(self, connections: list[Connection]) -> dict[str, float]:
        mark = time.time_ns()

        async def publish(connection: Connection) -> None:
            while self._next < self.count:
                first, self._next = self._next, self._next + self.size
                items = b",".join(
                    b'{"body":{"i":%d},"idempotency_key":"%d-%d"}' % (n, mark, n)
                    for n in range(first, first + self.size)
                )
                await connection.ask(self.request(f"{self._queue}/messages/batch", b'{"messages":[%b]}' % items))

        return await self._timed(connections, publish, self.count)

    async def drain(self, connections: list[Connection]) -> dict[str, float]:
        """Claims `size` and completes them, until `count` are done."""

        async def work(connection: Connection) -> None:
            claim = self.request(f"{self._queue}/claim", b'{"batch_size":%d}' % self.size)
            while self._next < self.count:
                messages = json.loads(await connection.ask(claim))["data"]
                if not messages:
                    return
                self._next += len(messages)
                items = [{"id": each["id"], "claim_token": each["claim_token"]} for each in messages]
                await connection.ask(self.request(f"{self._queue}/complete", json.dumps({"items": items}).encode()))

        return await self._timed(connections, work, self.count)

    async def wake(self, connections: list[Connection]) -> dict[str, float]:
        """From the moment a publish is sent until a claim that waits is answered, one at a time."""
        waiting, publishing = connections[0], connections[1]
        taken: list[float] = []
        for n in range(self.count):
            claim = waiting.ask(self.request(f"{self._queue}/claim", b'{"wait_s":20}'))
            await asyncio.sleep(0.01)
            began = time.perf_counter()
            await publishing.ask(self.request(f"{self._queue}/messages", b'{"body":%d}' % n))
            (message,) = json.loads(await claim)["data"]
            taken.append((time.perf_counter() - began) * 1000)
            item = json.dumps({"claim_token": message["claim_token"]}).encode()
            await waiting.ask(self.request(f"/v1/scopes/bench/messages/{message['id']}/complete", item))
        taken.sort()
        return {"p50_ms": taken[len(taken) // 2], "p99_ms": taken[int(len(taken) * 0.99)]}

    async def _timed(self, connections: list[Connection], work: Any, count: int) -> dict[str, float]:
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work(connection) for connection in connections))
        seconds = time.perf_counter() - began
        return {"rate": min(self._next, count) / seconds, "load_cpu_us": (time.process_time() - cpu) / count * 1e6}


def main() -> None:
    load = Load(json.load(sys.stdin))
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with runner:
        print(json.dumps(runner.run(load.run())))


if __name__ == "__main__":
    main()
