"""The short way of fast requests: from the parser to their route, and back onto the connection.

uvicorn's own way through ASGI costs a request a scope, a cycle, an event and two messages, each checked: a tenth of the time
of a small publish. So its protocol is kept for everything it is good at (connections, keep-alive, pipelining, ends), and left
out for the requests that nearly all are: a POST to a fast route, small, with nothing before it on the connection. Whatever is
in any way special takes the long way, and is answered the same.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from relevo.api.fast_routes import Answered, FastRoutes, Work
from relevo.api.request_body import ClientGone

_PREFIX = b"/v1/scopes/"


class _Gone:
    """Stands where uvicorn has an event: told when the connection is lost, or the answer is out."""

    __slots__ = ("_waiting", "set_already")

    def __init__(self) -> None:
        self.set_already = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        self.set_already = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self) -> None:
        if not self.set_already:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting


class FastCycle:
    """A fast request and its answer; of uvicorn's cycle what its protocol looks at."""

    __slots__ = (
        *("_read", "body", "disconnected", "found", "headers", "keep_alive", "message_event", "parts", "path"),
        "response_complete",
    )

    def __init__(
        self, path: str, parts: list[str], found: Work, headers: list[tuple[bytes, bytes]], *, keep_alive: bool
    ) -> None:
        self.path, self.parts, self.found, self.headers = path, parts, found, headers
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self.body = bytearray()
        self.message_event = _Gone()
        self._read = False

    async def receive(self) -> dict[str, Any]:
        """As ASGI has it: the body, and after it the end of the connection."""
        if not self._read:
            self._read = True
            return {"type": "http.request", "body": bytes(self.body), "more_body": False}
        await self.message_event.wait()
        return {"type": "http.disconnect"}


class FastProtocol(HttpToolsProtocol):
    """One connection."""

    cycle: Any
    scope: Any
    headers: list[tuple[bytes, bytes]]
    url: bytes

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._fast = cast("FastRoutes", self.config.app)
        self._now: FastCycle | None = None

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._now = None

    def on_headers_complete(self) -> None:
        if self._takes_the_short_way():
            return
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)  # the list that the scope has
        super().on_headers_complete()

    def _takes_the_short_way(self) -> bool:
        url = self.url
        if not url.startswith(_PREFIX) or not url.isascii() or b"%" in url or b"?" in url or b"#" in url:
            return False
        parser: Any = self.parser
        before = self.cycle
        if (
            parser.get_method() != b"POST"
            or parser.get_http_version() != "1.1"
            or parser.should_upgrade()
            or self.expect_100_continue
            or (before is not None and not before.response_complete)
        ):
            return False
        declared = next((value for name, value in self.headers if name == b"content-length"), b"")
        if not declared.isdigit() or int(declared) >= HIGH_WATER_LIMIT:
            return False
        path = url.decode()
        parts = path.split("/")
        found = self._fast.route(parts)
        if found is None:
            return False
        self.cycle = self._now = FastCycle(path, parts, found, self.headers, keep_alive=parser.should_keep_alive())
        return True

    def on_body(self, body: bytes) -> None:
        if self._now is None:
            super().on_body(body)
        else:
            self._now.body += body

    def on_message_complete(self) -> None:
        if self._now is None:
            super().on_message_complete()
            return
        cycle, self._now = self._now, None
        task = self.loop.create_task(self._answer(cycle))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, cycle: FastCycle) -> None:
        try:
            answered = await self._fast.answer(cycle.path, cycle.parts, cycle.found, cycle.headers, cycle.receive)
        except ClientGone:
            return
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if cycle.disconnected:
            return
        self.transport.write(_packed(answered, keep_alive=cycle.keep_alive))
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _packed(answered: Answered, *, keep_alive: bool) -> bytes:
    status, body, headers = answered
    lines = [STATUS_LINE[status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines += (b"\r\n" if keep_alive else b"connection: close\r\n\r\n", body)
    return b"".join(lines)
