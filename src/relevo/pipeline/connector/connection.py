"""Redis from a Spark task: one blocking socket read with hiredis, and the way to the server that holds a key.

The engine's own links are made for asyncio; a task reads one stream as fast as it can and has nothing else to do.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import hiredis

from relevo.broker.address import Address, Node, slot_of
from relevo.errors import ConnectionLost, ServerRefused, Unreachable

T = TypeVar("T")
Reply = Any  # bytes, int, None, ReplyError, or a list of these
Argument = bytes | str | int | float
Question = tuple[bytes, tuple[Argument, ...]]
"""A command, and the key it is about."""

pack = cast("Callable[[tuple[Argument, ...]], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]

_NOT_YET = object()
_BUFFER = 1 << 20
_AT_ONCE = 500  # questions in one round trip
_MOVED = ("MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "LOADING", "MASTERDOWN")


class ReplyError(Exception):
    """An error reply, kept as a value; `code` is its first word."""

    @property
    def code(self) -> str:
        return str(self).split(" ", 1)[0]

    @property
    def elsewhere(self) -> bool:
        """Whether it means "not carried out here, not now"."""
        return self.code in _MOVED


class Connection:
    """One open, signed-in socket. `send` and `read` may be apart, so that the server works while we do."""

    def __init__(self, address: Address, node: Node, *, timeout_s: float) -> None:
        self.node = node
        self._reader: Any = hiredis.Reader(replyError=ReplyError, notEnoughData=_NOT_YET)
        self._buffer = bytearray()
        """Where answers that are wanted as they came lie, one at a time."""
        self._fence: bytes | None = None
        """The end of such an answer; empty when the server's rules for this user allow none."""
        self._echo = b""
        try:
            self._socket = _dial(address, node, timeout_s)
        except OSError as error:
            raise ConnectionLost(address=node, reason=str(error)) from error
        try:
            self._sign_in(address)
        except BaseException:
            self.close()
            raise

    def _sign_in(self, address: Address) -> None:
        if address.password is not None:
            user = (address.username,) if address.username else ()
            self._checked("the sign-in", "AUTH", *user, address.password)
        if address.db:
            self._checked("SELECT", "SELECT", address.db)
        self.call("CLIENT", "SETNAME", "relevo-spark")  # for CLIENT LIST; a user without the right goes unnamed

    def _checked(self, what: str, *arguments: Argument) -> None:
        reply = self.call(*arguments)
        if isinstance(reply, ReplyError):
            raise ServerRefused(command=what, reason=str(reply))

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionLost(address=self.node, reason=str(error)) from error

    def read(self) -> Reply:
        """The next reply; an error reply is a value."""
        reader, receive = self._reader, self._socket.recv
        while (reply := reader.gets()) is _NOT_YET:
            try:
                data = receive(1 << 18)
            except OSError as error:
                raise ConnectionLost(address=self.node, reason=str(error) or "no reply in time") from error
            if not data:
                raise ConnectionLost(address=self.node, reason="the server closed it")
            reader.feed(data)
        return reply

    def call(self, *arguments: Argument) -> Reply:
        self.send(pack(arguments))
        return self.read()

    def ask_plain(self, command: bytes) -> None:
        """Sends a command whose answer `read_plain` gives. Only bytes that nobody can foresee, echoed, tell where that ends."""
        if self._fence is None:
            mark = secrets.token_hex(16).encode()
            allowed = self.call("ECHO", mark) == mark
            self._fence = b"$%d\r\n%b\r\n" % (len(mark), mark) if allowed else b""
            self._echo = pack(("ECHO", mark))
        self.send(command + self._echo if self._fence else command)

    def read_plain(self) -> memoryview | None:
        """The answer as it came, valid until the next one is read; None when it must be read with `read`."""
        fence = self._fence
        if not fence:
            return None
        buffer, filled = self._buffer or bytearray(_BUFFER), 0
        while True:
            if filled == len(buffer):
                buffer = buffer + bytes(len(buffer))
            try:
                size = self._socket.recv_into(memoryview(buffer)[filled:])
            except OSError as error:
                raise ConnectionLost(address=self.node, reason=str(error) or "no reply in time") from error
            if not size:
                raise ConnectionLost(address=self.node, reason="the server closed it")
            filled += size
            self._buffer = buffer
            if buffer.endswith(fence, 0, filled):
                return memoryview(buffer)[: filled - len(fence)]
            if (
                buffer.startswith(b"-")
                and buffer.count(b"\r\n", 0, filled) == 2
                and buffer.endswith(b"\r\n", 0, filled)
            ):
                return memoryview(buffer)[: buffer.index(b"\n") + 1]  # refused, and so was the echo

    def pipeline(self, commands: list[tuple[Argument, ...]]) -> list[Reply]:
        self.send(b"".join(map(pack, commands)))
        return [self.read() for _ in commands]

    def close(self) -> None:
        self._socket.close()


class Directory:
    """Finds the server of a key, keeps one connection to each server, and asks again after a loss."""

    def __init__(self, address: Address, *, timeout_s: float, patience_s: float | None = None) -> None:
        self.address = address
        self._timeout_s = timeout_s
        """For one answer; `patience_s` is for all tries together, and as long by default."""
        self._patience_s = patience_s or timeout_s
        self._open: dict[Node, Connection] = {}
        self._slots: list[tuple[int, int, tuple[Node, ...]]] = []
        """Who has which slots: a master, and its replicas."""

    def connection(self, key: bytes) -> Connection:
        """An open connection to the server that holds `key`; waits for a server that is away, up to the time limit."""
        return self.patiently(lambda: self._connect(self._locate(key)))

    def ask(self, key: bytes, *arguments: Argument) -> Reply:
        """One read-only command about `key`, sent again after a loss; an error reply is raised."""
        return self.ask_many(key, [arguments])[0]

    def ask_many(self, key: bytes, commands: list[tuple[Argument, ...]]) -> list[Reply]:
        """Read-only commands about one key, in one round trip."""

        def attempt() -> list[Reply]:
            connection = self._connect(self._locate(key))
            replies = connection.pipeline(commands)
            self.refuse_moved(replies, connection)
            return replies

        replies = self.patiently(attempt)
        for reply, command in zip(replies, commands, strict=True):
            if isinstance(reply, ReplyError):
                raise ServerRefused(command=str(command[0]), reason=str(reply))
        return replies

    def ask_each(self, questions: Sequence[Question]) -> list[Reply]:
        """Read-only commands about many keys, in as few round trips as there are servers and chunks. Refusals are replies."""

        def attempt() -> list[Reply]:
            replies: dict[int, Reply] = {}
            by_node: dict[Node, list[int]] = {}
            for place, (key, _) in enumerate(questions):
                by_node.setdefault(self._locate(key), []).append(place)
            for node, places in by_node.items():
                connection = self._connect(node)
                for at in range(0, len(places), _AT_ONCE):
                    some = places[at : at + _AT_ONCE]
                    found = connection.pipeline([questions[place][1] for place in some])
                    self.refuse_moved(found, connection)
                    replies.update(zip(some, found, strict=True))
            return [replies[place] for place in range(len(questions))]

        return self.patiently(attempt) if questions else []

    def refuse_moved(self, replies: list[Reply], connection: Connection) -> None:
        """Raises `ConnectionLost` when the key is elsewhere now, so that the next attempt looks it up again."""
        for reply in replies:
            if isinstance(reply, ReplyError) and reply.elsewhere:
                self.forget(connection)
                raise ConnectionLost(address=connection.node, reason=str(reply))

    def patiently(self, attempt: Callable[[], T]) -> T:
        """The first success within the time limit; a refusal (a wrong password) is final at once."""
        deadline, pause = time.monotonic() + self._patience_s, 0.05
        while True:
            try:
                return attempt()
            except ConnectionLost as error:
                self.close()
                if time.monotonic() + pause > deadline:
                    raise Unreachable(address=self.address, waited_s=self._patience_s, reason=error.reason) from error
            time.sleep(pause)
            pause = min(pause * 2, 1.0)

    def servers(self) -> Iterator[Connection]:
        """Every server that holds keys."""
        if self.address.kind != "cluster":
            yield self.connection(b"")
            return
        self.connection(b"")
        for node in dict.fromkeys(nodes[0] for _, _, nodes in self._slots):
            yield self.patiently(lambda node=node: self._connect(node))

    def forget(self, connection: Connection) -> None:
        self._slots = []
        self._open.pop(connection.node, None)
        connection.close()

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self._slots = []

    def _connect(self, node: Node) -> Connection:
        if node not in self._open:
            self._open[node] = Connection(self.address, node, timeout_s=self._timeout_s)
        return self._open[node]

    def _locate(self, key: bytes) -> Node:
        if self.address.kind == "single":
            return self.address.nodes[0]
        if self.address.kind == "sentinel":
            if not self._slots:
                self._ask_sentinels()
            return self._pick(self._slots[0][2])
        if not self._slots:
            self._ask_cluster()
        slot = slot_of(key)
        for first, last, nodes in self._slots:
            if first <= slot <= last:
                return self._pick(nodes)
        self._slots = []
        raise ConnectionLost(address=self.address, reason=f"no node serves slot {slot}")

    def _pick(self, servers: tuple[Node, ...]) -> Node:
        """Who of a master and its replicas is asked."""
        return servers[0]

    def _replicas_of(self, sentinel: Connection) -> list[Node]:  # noqa: ARG002 - for those who want them
        return []

    def _ask_cluster(self) -> None:
        failure: ConnectionLost | None = None
        for node in self.address.nodes:
            try:
                ranges = self._connect(node).call("CLUSTER", "SLOTS")
            except ConnectionLost as error:
                failure = error
                continue
            if isinstance(ranges, ReplyError):
                raise ServerRefused(command="CLUSTER SLOTS", reason=str(ranges))
            self._slots = [
                (first, last, tuple(Node((place[0] or b"").decode() or node.host, place[1]) for place in places))
                for first, last, *places in ranges
            ]
            return
        raise failure or ConnectionLost(address=self.address, reason="no node to ask")

    def _ask_sentinels(self) -> None:
        failure: ConnectionLost | None = None
        for node in self.address.nodes:
            try:
                asked = Connection(self.address.sentinel(), node, timeout_s=self._timeout_s)
            except ConnectionLost as error:
                failure = error
                continue
            found = asked.call("SENTINEL", "get-master-addr-by-name", self.address.master)
            replicas = self._replicas_of(asked) if found and not isinstance(found, ReplyError) else []
            asked.close()
            if found and not isinstance(found, ReplyError):
                self._slots = [(0, 16383, (Node(found[0].decode(), int(found[1])), *replicas))]
                return
            failure = ConnectionLost(address=node, reason=f"it knows no master named {self.address.master!r}")
        raise failure or ConnectionLost(address=self.address, reason="no sentinel to ask")


def _dial(address: Address, node: Node, timeout_s: float) -> socket.socket:
    if node.path:
        raw = socket.socket(socket.AF_UNIX)
        raw.settimeout(timeout_s)
        raw.connect(node.path)
        return raw
    raw = socket.create_connection((node.host, node.port), timeout=timeout_s)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if address.tls is None:
        return raw
    try:
        return address.tls.wrap_socket(raw, server_hostname=node.host)
    except ssl.SSLError:
        raw.close()
        raise
