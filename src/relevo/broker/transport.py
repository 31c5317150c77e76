"""One connection to a server: packed commands in, replies out, in order. An asyncio protocol of our own around hiredis' parser.

A client library wraps every command and every reply in several Python calls; here a batch costs one write and one future,
whatever its size, and that is what lets one Python process keep up with Redis. tests/property/test_resp.py compares it with
redis-py's own connection, over random pipelines, splits and callers who give up.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar, cast

import hiredis

from relevo.broker.address import Address, Node
from relevo.broker.keepalive import keep_alive
from relevo.broker.resp import Reply, ReplyError, command
from relevo.errors import ConnectionLost, ServerRefused

Outcome = list[Reply] | ConnectionLost
Done = Callable[[Outcome], None]

T = TypeVar("T")

_READ = 262_144
"""Bytes of one read at most. asyncio's plain protocols are given a new object of this size for each read, which the allocator
gets from the kernel and gives back, at half the price of an add: so a connection has one buffer for all its reads."""

_HANDSHAKE_S = 1.0
"""After which a server that has not answered TLS is asked whether it speaks any."""


async def send(transport: Transport, data: bytes, count: int) -> list[Reply]:
    """`submit` for coroutines: the replies, or `ConnectionLost`."""
    return await sent(transport, data, count)


def sent(transport: Transport, data: bytes, count: int) -> asyncio.Future[list[Reply]]:
    """`send` that is on its way when this returns, whoever waits for the replies and when."""
    future: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

    def done(outcome: Outcome) -> None:
        if future.done():  # the caller was cancelled: its replies are read and dropped, the order stays intact
            return
        if isinstance(outcome, ConnectionLost):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    transport.submit(data, count, done)
    return future


class _Batch:
    __slots__ = ("count", "done", "replies")

    def __init__(self, count: int, done: Done) -> None:
        self.count = count
        self.replies: list[Reply] = []
        self.done = done


class Transport(asyncio.BufferedProtocol):
    """An open connection. Any number of sends may be under way; replies come back in the order of sending."""

    def __init__(self, node: Node, patience: float) -> None:
        self.node = node
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._parser: Any = hiredis.Reader(replyError=cast("Any", ReplyError))
        self._buffer = memoryview(bytearray(_READ))  # a view: asyncio's TLS writes into slices of it
        self._waiting: deque[_Batch] = deque()
        self._socket: asyncio.Transport | None = None
        self._lost: ConnectionLost | None = None
        self._heard = self._loop.time()
        self._watch: asyncio.TimerHandle | None = None

    @staticmethod
    async def open(address: Address, node: Node, *, patience: float) -> Transport:
        loop = asyncio.get_running_loop()

        def factory() -> Transport:
            return Transport(node, patience)

        if node.path:
            _, made = await loop.create_unix_connection(factory, node.path)
        else:
            # A host name checked against the certificate only makes sense when the context asks for it.
            name = node.host if address.tls is not None else None
            opening = loop.create_connection(factory, node.host, node.port, ssl=address.tls, server_hostname=name)
            _, made = await (opening if address.tls is None else _shaken(opening, node))
        return made

    @property
    def closed(self) -> bool:
        return self._lost is not None

    def submit(self, data: bytes, count: int, done: Done) -> None:
        if self._lost is not None or self._socket is None:
            done(self._lost or ConnectionLost(address=self.node, reason="not open"))
            return
        if not self._waiting:
            self._heard = self._loop.time()
        self._waiting.append(_Batch(count, done))
        self._socket.write(data)

    def close(self, reason: str = "closed by us") -> None:
        self._end(reason)

    # --- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast("asyncio.Transport", transport)
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None:
            keep_alive(raw)
        self._watch = self._loop.call_later(self._patience, self._check)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio asks this way
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = self._loop.time()
        waiting = self._waiting
        self._parser.feed(self._buffer, 0, nbytes)
        next_reply = self._parser.gets
        try:
            while waiting:
                batch = waiting[0]
                replies, missing = batch.replies, batch.count - len(batch.replies)
                while missing:
                    reply = next_reply()
                    if reply is False:  # hiredis' word for "the rest has not arrived"
                        return
                    replies.append(reply)
                    missing -= 1
                waiting.popleft()
                batch.done(replies)
        except hiredis.ProtocolError as error:
            self._end(f"what answers there is no Redis ({error})")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else "the server closed it")

    # --- the end ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """A server that takes commands and stays silent is as gone as one that hangs up."""
        silent = self._loop.time() - self._heard
        if self._waiting and silent >= self._patience:
            self._end(f"no reply for {silent:.1f} s")
            return
        left = self._patience - silent if self._waiting else self._patience
        self._watch = self._loop.call_later(max(left, 0.05), self._check)

    def _end(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = ConnectionLost(address=self.node, reason=reason)
        if self._watch is not None:
            self._watch.cancel()
        if self._socket is not None:
            self._socket.abort()
        # Emptied, not replaced: a callback that hangs up is called from a loop over this very line.
        left = list(self._waiting)
        self._waiting.clear()
        for batch in left:
            batch.done(ConnectionLost(address=self.node, reason=reason))


async def _shaken(opening: Coroutine[Any, Any, T], node: Node) -> T:
    """The opening, unless the server turns out to speak no TLS: Redis takes the handshake for the beginning of a command and
    waits for the rest."""
    shaking = asyncio.ensure_future(opening)
    try:
        done, _ = await asyncio.wait([shaking], timeout=_HANDSHAKE_S)
        if not done and await _speaks_plainly(node):
            raise ServerRefused(
                command="the sign-in", reason=f"{node} speaks no TLS: write redis://, or the port that does"
            )
        return await shaking
    finally:
        shaking.cancel()


async def _speaks_plainly(node: Node) -> bool:
    """Asked without a password: PING is answered, or refused, in plain text."""
    try:
        async with asyncio.timeout(_HANDSHAKE_S):
            reader, writer = await asyncio.open_connection(node.host, node.port)
            try:
                writer.write(b"PING\r\n")
                return (await reader.read(1)) in (b"+", b"-")
            finally:
                writer.close()
    except OSError:
        return False


class Seat(NamedTuple):
    """A connection as the server knows it. Ids begin anew with a server; with the address they mean us and nobody else."""

    client_id: int
    seen_as: bytes


async def sign_in(transport: Transport, address: Address, name: str) -> Seat:
    """AUTH, SELECT and a name for CLIENT LIST; tells who we are there, raises `ReplyError` when we are refused."""
    username, password = address.username, address.password
    if address.credentials is not None:
        username, password = await address.credentials(str(transport.node))
    commands: list[bytes] = []
    if password is not None:
        commands.append(command("AUTH", username, password) if username else command("AUTH", password))
    if address.db:
        commands.append(command("SELECT", address.db))
    needed = len(commands)
    commands += (command("CLIENT", "SETNAME", name), command("CLIENT", "INFO"))
    replies = await send(transport, b"".join(commands), len(commands))
    for reply in replies[:needed]:
        if isinstance(reply, ReplyError):
            raise reply
    seat = replies[-1]
    if isinstance(seat, ReplyError):
        if seat.code == "NOAUTH":
            raise seat
        return Seat(0, b"")  # an ACL that forbids it: we cannot unblock our own read then, closing it must do
    values = {key: value for key, _, value in (each.partition(b"=") for each in cast("bytes", seat).split())}
    return Seat(int(values[b"id"]), values[b"addr"])
