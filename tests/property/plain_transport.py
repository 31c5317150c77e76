"""The same port filled with redis-py's own connection: the plain way, kept to check the fast one against."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import RedisError, ResponseError

from relevo.broker.address import Address, Node
from relevo.broker.resp import Reply, ReplyError
from relevo.broker.transport import Done
from relevo.errors import ConnectionLost


class PlainTransport:
    """One redis-py connection; a task of its own reads the replies in order."""

    def __init__(self, node: Node, connection: AbstractConnection, patience: float) -> None:
        self.node = node
        self._connection = connection
        self._patience = patience
        self._waiting: deque[tuple[int, Done]] = deque()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._arrived = asyncio.Event()
        self._lost: ConnectionLost | None = None
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    @staticmethod
    async def open(address: Address, node: Node, *, patience: float) -> PlainTransport:
        options: dict[str, Any] = {"protocol": 2, "decode_responses": False, "driver_info": None}
        connection: AbstractConnection
        if node.path:
            connection = UnixDomainSocketConnection(path=node.path, **options)
        elif address.tls is not None:
            connection = SSLConnection(host=node.host, port=node.port, **options)
            connection.ssl_context.context = address.tls
        else:
            connection = Connection(host=node.host, port=node.port, **options)
        try:
            await connection.connect()
        except RedisError as error:
            raise ConnectionLost(address=node, reason=str(error)) from error
        return PlainTransport(node, connection, patience)

    @property
    def closed(self) -> bool:
        return self._lost is not None

    def submit(self, data: bytes, count: int, done: Done) -> None:
        if self._lost is not None:
            done(self._lost)
            return
        self._waiting.append((count, done))
        self._outgoing.put_nowait(data)
        self._arrived.set()

    def close(self) -> None:
        self._end("closed by us")

    async def _write(self) -> None:
        try:
            while True:
                await self._connection.send_packed_command([await self._outgoing.get()], check_health=False)
        except (RedisError, OSError) as error:
            self._end(str(error))
        except AttributeError:  # redis-py finds no writer where the connection ended just as it was about to write
            if self._lost is None:
                raise

    async def _read(self) -> None:
        try:
            while True:
                while not self._waiting:
                    self._arrived.clear()
                    await self._arrived.wait()
                count, done = self._waiting[0]
                replies = [await self._reply() for _ in range(count)]
                self._waiting.popleft()
                done(replies)
        except (RedisError, OSError, TimeoutError) as error:
            self._end(str(error) or f"no reply for {self._patience} s")

    async def _reply(self) -> Reply:
        try:
            read = cast("Any", self._connection).read_response
            reply: Any = await read(disable_decoding=True, timeout=self._patience, disconnect_on_error=False)
        except RedisError as error:
            if not _was_sent(error):
                raise
            return ReplyError(_as_sent(error))
        return _with_errors(reply)

    def _end(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = ConnectionLost(address=self.node, reason=reason)
        left, self._waiting = self._waiting, deque()
        for _, done in left:
            done(ConnectionLost(address=self.node, reason=reason))
        for task in self._tasks:
            task.cancel()
        connection = cast("Any", self._connection)
        if connection._writer is not None:
            connection._writer.transport.abort()
            connection._close()  # the public way waits for the server to hang up too, and we may not wait here


def _was_sent(error: object) -> bool:
    """Whether an error is a reply. redis-py makes broken connections of some, a wrong password for one: they have a code."""
    return isinstance(error, ResponseError) or (isinstance(error, RedisError) and error.status_code is not None)


def _as_sent(error: RedisError) -> str:
    """redis-py strips the code from errors it knows; put it back."""
    code, text = error.status_code, str(error)
    return f"{code} {text}" if code and text.partition(" ")[0] != code else text


def _with_errors(reply: Any) -> Reply:
    if isinstance(reply, list):
        return [_with_errors(each) for each in reply]  # pyright: ignore[reportUnknownVariableType]
    return ReplyError(_as_sent(reply)) if _was_sent(reply) else reply
