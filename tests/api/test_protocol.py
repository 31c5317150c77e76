"""The short way of fast requests is answered as the long way is, whatever a connection does."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from tests.pace import limit
from tests.patience import until
from tests.support.room import QUEUE, Room

PUBLISH = f"{QUEUE}/messages"


class Said(NamedTuple):
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: Any


class Wire:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
        self._reader, self.writer, self._key = reader, writer, key

    def request(self, path: str, body: bytes, *lines: str, version: str = "1.1", method: str = "POST") -> bytes:
        given = [f"{method} {path} HTTP/{version}", "host: test", f"authorization: Bearer {self._key}", *lines]
        if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in lines):
            given.append(f"content-length: {len(body)}")
        if not any(line.lower().startswith("content-type") for line in lines):
            given.append("content-type: application/json")
        return "\r\n".join([*given, "", ""]).encode() + body

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> Said:
        async with asyncio.timeout(limit(30)):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = (
                await self._reader.readexactly(int(headers["content-length"])) if "content-length" in headers else b""
            )
            return Said(int(head[0].split()[1]), headers, json.loads(body) if body else None)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(limit(30)):
            return await self._reader.read() == b""


@asynccontextmanager
async def wire(room: Room) -> AsyncGenerator[Wire]:
    reader, writer = await asyncio.open_connection(room.http.base_url.host, room.http.base_url.port)
    yield Wire(reader, writer, room.key)
    writer.close()


def message(n: int) -> bytes:
    return b'{"body":%d}' % n


async def bodies(room: Room) -> list[int]:
    return sorted([each["body"] for each in await room.claim(batch_size=100)])


async def test_requests_follow_each_other_on_one_connection(room: Room) -> None:
    async with wire(room) as line:
        for n in range(3):
            line.send(line.request(PUBLISH, message(n)))
            said = await line.answer()
            assert (said.status, said.body["data"]["state"]) == (201, "pending")
            assert said.headers["x-request-id"] == said.body["meta"]["request_id"]
    assert await bodies(room) == [0, 1, 2]


async def test_a_request_may_arrive_a_byte_at_a_time(room: Room) -> None:
    async with wire(room) as line:
        for byte in line.request(PUBLISH, message(7)):
            line.send(bytes([byte]))
            await line.writer.drain()
            await asyncio.sleep(0)
        assert (await line.answer()).status == 201
    assert await bodies(room) == [7]


async def test_requests_sent_without_waiting_are_answered_in_their_order(room: Room) -> None:
    async with wire(room) as line:
        asked = [
            *(line.request(PUBLISH, message(1), "x-request-id: one"), line.request("/healthz", b"", method="GET")),
            *(
                line.request(PUBLISH, message(2), "x-request-id: two"),
                line.request(PUBLISH, b"{", "x-request-id: three"),
            ),
        ]
        line.send(b"".join(asked))
        said = [await line.answer() for _ in asked]
    assert [each.status for each in said] == [201, 200, 201, 400]
    assert [said[at].headers["x-request-id"] for at in (0, 2, 3)] == ["one", "two", "three"]
    assert await bodies(room) == [1, 2]


SPECIAL: list[tuple[str, bytes, tuple[str, ...], str]] = [
    (
        "in parts",
        b"4\r\n" + message(5)[:4] + b"\r\n6\r\n" + message(5)[4:] + b"\r\n0\r\n\r\n",
        ("transfer-encoding: chunked",),
        "1.1",
    ),
    ("over 64 KiB", b'{"body":5,"labels":{"a":"b"}' + b" " * 70_000 + b"}", (), "1.1"),
    ("of an older kind", message(5), (), "1.0"),
    ("that ends the connection", message(5), ("connection: close",), "1.1"),
    ("with odd letters in its headers", message(5), ("Content-Type: application/json; charset=UTF-8",), "1.1"),
]


@pytest.mark.parametrize(
    ("body", "lines", "version"), [each[1:] for each in SPECIAL], ids=[each[0] for each in SPECIAL]
)
async def test_a_publish_is_taken(room: Room, body: bytes, lines: tuple[str, ...], version: str) -> None:
    async with wire(room) as line:
        line.send(line.request(PUBLISH, body, *lines, version=version))
        said = await line.answer()
        assert said.status == 201
        if version == "1.0" or "connection: close" in lines:
            assert said.headers["connection"] == "close"
            assert await line.is_closed()
    assert await bodies(room) == [5]


async def test_who_asks_first_is_told_to_go_on(room: Room) -> None:
    async with wire(room) as line:
        whole = line.request(PUBLISH, message(3), "expect: 100-continue")
        head, _, body = whole.partition(b"\r\n\r\n")
        line.send(head + b"\r\n\r\n")
        assert (await line.answer()).status == 100
        line.send(body)
        assert (await line.answer()).status == 201
    assert await bodies(room) == [3]


async def test_an_address_in_disguise_is_the_same_address(room: Room) -> None:
    async with wire(room) as line:
        line.send(line.request(PUBLISH.replace("invoices", "%69nvoices"), message(4)))
        assert (await line.answer()).status == 201
        line.send(line.request(f"{PUBLISH}?dry=1", message(5)))
        assert (await line.answer()).status == 201
    assert await bodies(room) == [4, 5]


async def test_a_worker_that_hangs_up_while_it_waits_leaves_the_message_to_the_next(room: Room) -> None:
    async with wire(room) as line:
        line.send(line.request(f"{QUEUE}/claim", b'{"wait_s":50}'))
        queue_id = (await room.work_queues.queues.lookup(room.owner, "billing", "invoices")).id
        await room.work_queues.long_poll.begun.wait_for(lambda each: each == queue_id)
        ended = asyncio.ensure_future(room.work_queues.long_poll.ended.wait_for(lambda each: each == queue_id))
        line.writer.transport.abort()
        async with asyncio.timeout(limit(30)):
            await ended
    await room.publish(body=9)
    assert await bodies(room) == [9]


async def test_what_is_no_http_is_refused(room: Room) -> None:
    async with wire(room) as line:
        line.send(
            b"POST /v1/scopes/billing/queues/invoices/messages HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}"
        )
        async with asyncio.timeout(limit(30)):
            assert b" 400 " in await line._reader.readline()  # pyright: ignore[reportPrivateUsage]

    async def nothing_waits() -> bool:
        return (await room.do("GET", QUEUE))["depth_pending"] == 0

    await until(nothing_waits)
