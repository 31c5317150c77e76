"""A receiver of webhooks: a real HTTP server on loopback that keeps what it gets and answers as it is told."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from relevo.engine.service.signals import Signal


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> str:
        return msgspec.json.decode(self.body)["event"]


class Receiver:
    """Answers 204 unless `answers` says otherwise for a path: (status, headers, body)."""

    def __init__(self) -> None:
        self.port = 0
        self.got: list[Received] = []
        self.heard: Signal[Received] = Signal()
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.silent: set[str] = set()
        """Paths that take a request and do not answer before `lets_go`."""
        self.lets_go = asyncio.Event()

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def answer(self, path: str, status: int, body: bytes = b"", **headers: str) -> None:
        self.answers[path] = (status, headers, body)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = (await reader.readline()).decode()
            headers: dict[str, str] = {}
            while (line := (await reader.readline()).decode().strip()) != "":
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            got = Received(first.split(" ")[1], headers, body)
            self.got.append(got)
            if got.path in self.silent:
                await self.lets_go.wait()
            status, more, said = self.answers.get(got.path, (204, {}, b""))
            lines = [f"HTTP/1.1 {status} Said", f"content-length: {len(said)}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in more.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + said)
            await writer.drain()
            self.heard.emit(got)
        finally:
            writer.close()


@asynccontextmanager
async def listening() -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    async with server:
        yield receiver
