"""The load: plain keep-alive connections, one request in flight on each, no HTTP library; run as a process of its own.

Called as `load.py`, reads one JSON object from standard input and prints one. Always in it: host, port, key, case, queue,
connections, count, many (what the server calls the list of a batch). It ends when `count` messages are done or `seconds` have
passed. `load_cpu_us` says what it cost itself, which on a machine of few cores is taken from the server it measures.
"""

from __future__ import annotations

import asyncio
import json
import random
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
_LONGEST_S = 60.0
"""A read that has not been answered by then counts as that long."""


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

    def close(self) -> None:
        self._answer = None
        self._transport.abort()

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


class Drafts:
    """The messages that are published: a small body unless told, and an idempotency key of its own for each."""

    def __init__(self, asked: dict[str, Any]) -> None:
        fill = asked.get("body_bytes", 0) - len('{"i":1234567,"text":""}')
        body = '{"i":%d}' if fill <= 0 else '{"i":%d,"text":"' + "x" * fill + '"}'
        self._text = b'{"body":%b,"idempotency_key":"%%b"%%b}' % body.encode()
        self._mark = time.time_ns()
        self._random = random.Random(self._mark) if asked.get("keys") == "random" else None
        self._more = [json.dumps(each)[1:-1].encode() for each in asked.get("attributes", [])]
        self._more = [b"," + each if each else b"" for each in self._more] or [b""]
        """Attributes beside body and key, taken by turns."""

    def text(self, n: int) -> bytes:
        return self._text % (n, self._key(n), self._more[n % len(self._more)])

    def _key(self, n: int) -> bytes:
        if self._random is None:
            return b"%d-%d" % (self._mark, n)
        digits = b"%032x" % self._random.getrandbits(128)
        return b"-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Load:
    """One case against one server."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.count: int = asked["count"]
        self.size: int = asked.get("size", 1)
        self._seconds: float | None = asked.get("seconds")
        self._until = float("inf")
        self._begun = 0
        self._done = 0
        self._scope = "/v1/scopes/bench"
        self._queue = f"{self._scope}/queues/{asked['queue']}"
        self._claim = {"batch_size": self.size, **asked.get("claim", {})}

    def head(self, path: str, method: str = "POST") -> bytes:
        """A request up to the length of its body."""
        return (
            f"{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {self.asked['key']}\r\n"
            "content-type: application/json\r\ncontent-length: "
        ).encode()

    async def run(self) -> dict[str, Any]:
        connections = [await self._connected() for _ in range(self.asked["connections"])]
        cases: dict[str, Callable[[list[Connection]], Awaitable[dict[str, Any]]]] = {
            "single": self.single,
            "batch": self.batch,
            "drain": self.drain,
            "each": self.each,
            "fail": self.fail,
            "claims": self.claims,
            "wake": self.wake,
            "reads": self.reads,
        }
        return await cases[self.asked["case"]](connections)

    async def single(self, connections: list[Connection]) -> dict[str, Any]:
        """Each request publishes one message."""
        drafts, head = Drafts(self.asked), self.head(f"{self._queue}/messages")

        async def publish(connection: Connection) -> None:
            while self._goes_on():
                self._begun += 1
                await connection.ask(_request(head, drafts.text(self._begun)))
                self._done += 1

        return await self._timed(connections, publish)

    async def batch(self, connections: list[Connection]) -> dict[str, Any]:
        """Each request publishes `size` messages."""
        drafts, head = Drafts(self.asked), self.head(f"{self._queue}/messages/batch")
        many = b'{"%b":[%%b]}' % self.asked["many"].encode()

        async def publish(connection: Connection) -> None:
            while self._goes_on():
                first, self._begun = self._begun, self._begun + self.size
                items = b",".join(map(drafts.text, range(first, first + self.size)))
                await connection.ask(_request(head, many % items))
                self._done += self.size

        return await self._timed(connections, publish)

    async def drain(self, connections: list[Connection]) -> dict[str, Any]:
        """Claims `size` and completes them in so many calls as `calls` says, until `count` are done."""
        complete, calls = self.head(f"{self._queue}/complete"), self.asked.get("calls", 1)

        async def settle(connection: Connection, messages: list[Claimed]) -> None:
            share = -(-len(messages) // calls)
            for at in range(0, len(messages), share):
                await connection.ask(_request(complete, _encode({"items": messages[at : at + share]})))

        return await self._worked_off(connections, settle)

    async def each(self, connections: list[Connection]) -> dict[str, Any]:
        """Claims `size` and completes each of them with a call of its own, as most workers do."""

        async def settle(connection: Connection, messages: list[Claimed]) -> None:
            for message in messages:
                complete = self.head(f"{self._scope}/messages/{message.id}/complete")
                await connection.ask(_request(complete, b'{"claim_token":"%b"}' % message.claim_token.encode()))

        return await self._worked_off(connections, settle)

    async def fail(self, connections: list[Connection]) -> dict[str, Any]:
        """Claims `size` and gives them back as failed: their queue tries them again."""
        fail = self.head(f"{self._queue}/fail")

        async def settle(connection: Connection, messages: list[Claimed]) -> None:
            verdict = {"reason": "no luck", **self.asked.get("verdict", {})}
            items = [{"id": each.id, "claim_token": each.claim_token, **verdict} for each in messages]
            await connection.ask(_request(fail, _encode({"items": items})))

        return await self._worked_off(connections, settle)

    async def claims(self, connections: list[Connection]) -> dict[str, Any]:
        """How long `count` claims take, one after the other; what they get is completed."""
        claim, complete = self._claim_request(), self.head(f"{self._queue}/complete")
        taken: list[float] = []
        for _ in range(self.count):
            began = time.perf_counter()
            messages = _ANSWER.decode(await connections[0].ask(claim)).data
            taken.append((time.perf_counter() - began) * 1000)
            if not messages:
                raise RuntimeError(f"claim {len(taken)} of {self.count} found nothing")
            await connections[0].ask(_request(complete, _encode({"items": messages})))
        return _spread(taken)

    async def wake(self, connections: list[Connection]) -> dict[str, Any]:
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
            complete = self.head(f"{self._scope}/messages/{message.id}/complete")
            await waiting.ask(_request(complete, b'{"claim_token":"%b"}' % message.claim_token.encode()))
        return _spread(taken)

    async def reads(self, connections: list[Connection]) -> dict[str, Any]:
        """Each of `paths` is read `count` times on one connection, or for `seconds`: a database may plan the sixth anew."""
        (connection,), found = connections, {}
        for name, path in self.asked["paths"].items():
            request, taken = _request(self.head(path, "GET"), b""), list[float]()
            began = time.perf_counter()
            while len(taken) < self.count and time.perf_counter() - began < (self._seconds or _LONGEST_S):
                asked = time.perf_counter()
                try:
                    async with asyncio.timeout(_LONGEST_S):
                        await connection.ask(request)
                except TimeoutError:
                    connection.close()
                    connection = await self._connected()
                taken.append((time.perf_counter() - asked) * 1000)
            found[name] = _spread(taken)
        return {"reads": found}

    async def _worked_off(
        self, connections: list[Connection], settle: Callable[[Connection, list[Claimed]], Awaitable[None]]
    ) -> dict[str, Any]:
        claim = self._claim_request()

        async def work(connection: Connection) -> None:
            while self._goes_on():
                self._begun += self.size
                messages = _ANSWER.decode(await connection.ask(claim)).data
                if not messages:
                    return
                self._begun -= self.size - len(messages)
                await settle(connection, messages)
                self._done += len(messages)

        return await self._timed(connections, work)

    async def _timed(
        self, connections: list[Connection], work: Callable[[Connection], Awaitable[None]]
    ) -> dict[str, Any]:
        began, cpu = time.perf_counter(), time.process_time()
        if self._seconds is not None:
            self._until = began + self._seconds
        await asyncio.gather(*(work(connection) for connection in connections))
        seconds = time.perf_counter() - began
        if self._done == 0 or (self._seconds is None and self._done < self.count):
            raise RuntimeError(f"{self._done} of {self.count} were done")
        cost = (time.process_time() - cpu) / self._done * 1e6
        return {"rate": self._done / seconds, "count": self._done, "load_cpu_us": cost}

    def _goes_on(self) -> bool:
        return self._begun < self.count and time.perf_counter() < self._until

    def _claim_request(self) -> bytes:
        return _request(self.head(f"{self._queue}/claim"), _encode(self._claim))

    async def _connected(self) -> Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Connection, self.asked["host"], self.asked["port"]))[1]


def _request(head: bytes, body: bytes) -> bytes:
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)


def _spread(taken: list[float]) -> dict[str, Any]:
    taken.sort()
    names = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    found = {name: taken[min(int(len(taken) * share), len(taken) - 1)] for name, share in names.items()}
    return {**found, "most_ms": taken[-1], "count": len(taken)}


def main() -> None:
    load = Load(json.load(sys.stdin))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(load.run())))


if __name__ == "__main__":
    main()
