"""A server that is not there: commands in, replies as the test says, over the real link and transport but without a socket.

What is asked while it `holds` waits until the test lets it go, and connections break when the test says so. So a test sees
every order of events that a network could bring about, and none of them takes time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import hiredis

from relevo.broker.address import Address, Node
from relevo.broker.link import Link
from relevo.broker.resp import Reply, ReplyError, bulk
from relevo.broker.scripts import Script
from relevo.broker.transport import Transport
from relevo.wire.keys import QueueKeys

Command = list[bytes]
Answer = Callable[[Command], Reply]
KEYS = QueueKeys("q")
SILENCE = object()
"""A reply that never comes: the command waits, and so do those behind it."""


class FakeServer:
    """Answers the sign-in by itself, and everything else by `on`: a reply, or a function of the command, by its first word."""

    def __init__(self, *, modern: bool = True) -> None:
        self.on: dict[str, Reply | Answer] = {"PING": b"PONG"}
        self.seen: list[Command] = []
        """What was asked, without the sign-ins."""
        self.sign_ins: list[Command] = []
        self.holds = False
        self.refuses: ReplyError | None = None
        self.away = False
        self._modern = modern
        self._sockets: list[_Socket] = []

    def link(
        self, *scripts: Script, wait: float | None = None, patience: float = 15.0, opening_words: Sequence[bytes] = ()
    ) -> Link:
        return _Link(self, scripts, wait=wait, patience=patience, opening_words=opening_words)

    # --- what a test does ------------------------------------------------------------------------------------------------

    def let_go(self, requests: int = 1) -> None:
        """Answers the oldest commands that wait."""
        for socket in self._sockets:
            socket.answer(requests)

    def drop(self) -> None:
        """All connections break; what has not been answered never is."""
        sockets, self._sockets = self._sockets, []
        for socket in sockets:
            socket.drop()

    @property
    def waiting(self) -> list[Command]:
        return [command for socket in self._sockets for command in socket.waiting]

    def asked(self, *words: str) -> list[Command]:
        """The commands that began with one of these words."""
        return [command for command in self.seen if command[0].decode() in words]

    def dial(self, node: Node, patience: float) -> Transport:
        if self.away:
            raise ConnectionRefusedError("nobody is there")
        transport = Transport(node, patience)
        socket = _Socket(self, transport)
        transport.connection_made(socket)
        self._sockets.append(socket)
        return transport

    # --- what it does ------------------------------------------------------------------------------------------------------

    def hear(self, command: Command) -> bool:
        """Whether it is answered at once."""
        if self._signs_in(command):
            self.sign_ins.append(command)
            return True
        self.seen.append(command)
        return not self.holds and self.on.get(command[0].decode()) is not SILENCE

    def reply(self, command: Command) -> Reply:
        if self._signs_in(command):
            return self._welcome(command)
        answer = self.on.get(command[0].decode(), b"OK")
        return cast("Answer", answer)(command) if callable(answer) else answer

    @staticmethod
    def _signs_in(command: Command) -> bool:
        return (
            command[0] in (b"AUTH", b"SCRIPT")
            or command[:2] in ([b"CLIENT", b"SETNAME"], [b"CLIENT", b"INFO"])
            or (any(part.endswith(b":probe") for part in command))
        )

    def _welcome(self, command: Command) -> Reply:
        if self.refuses is not None:
            return self.refuses
        if command[1] == b"INFO":
            return b"id=%d addr=127.0.0.1:%d" % (len(self.sign_ins), 5000 + len(self.sign_ins))
        if command[0] == b"XACKDEL":
            return [-1] if self._modern else ReplyError("ERR unknown command")
        if command[0] == b"XREADGROUP":
            return ReplyError("NOGROUP no such key" if self._modern else "ERR syntax error")
        return self.on.get("SCRIPT", b"OK") if command[0] == b"SCRIPT" else b"OK"


class _Link(Link):
    def __init__(
        self,
        server: FakeServer,
        scripts: Iterable[Script],
        *,
        wait: float | None,
        patience: float,
        opening_words: Sequence[bytes],
    ) -> None:
        super().__init__(
            Address.parse("redis://127.0.0.1:1"),
            KEYS.tag,
            purpose="test",
            scripts=scripts,
            opening_words=opening_words,
            patience=patience,
            wait=wait,
        )
        self._server = server

    async def _dial(self, address: Address, node: Node) -> Transport:
        return self._server.dial(node, self._patience)


def deliver(client: Transport, data: bytes) -> None:
    """Gives a connection what has arrived for it as a loop does: into its buffer, as much at once as fits."""
    while data:
        buffer = client.get_buffer(-1)
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        client.buffer_updated(size)
        data = data[size:]


class _Socket(asyncio.Transport):
    def __init__(self, server: FakeServer, client: Transport) -> None:
        super().__init__()
        self.waiting: deque[Command] = deque()
        self._server = server
        self._client = client
        self._parser: Any = hiredis.Reader()
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._parser.feed(bytes(data))
        while (command := self._parser.gets()) is not False:
            at_once = self._server.hear(command) and not self.waiting
            self.waiting.append(command)
            if at_once:
                self.answer(1)

    def answer(self, requests: int) -> None:
        answered = [self.waiting.popleft() for _ in range(min(requests, len(self.waiting)))]
        self._loop.call_soon(self._tell, b"".join(_packed(self._server.reply(each)) for each in answered))

    def _tell(self, packed: bytes) -> None:
        if not self._client.closed:
            deliver(self._client, packed)

    def drop(self) -> None:
        self.waiting.clear()
        self._client.connection_lost(None)

    def abort(self) -> None:
        self.waiting.clear()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def _packed(reply: Reply) -> bytes:
    if isinstance(reply, ReplyError):
        return b"-%b\r\n" % str(reply).encode()
    if isinstance(reply, list):
        items = cast("list[Reply]", reply)
        return b"*%d\r\n%b" % (len(items), b"".join(map(_packed, items)))
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    return b"$-1\r\n" if reply is None else bulk(reply)
