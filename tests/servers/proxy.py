"""A TCP proxy in front of a server, run by the test's own loop: it cuts, drops and delays what passes."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from enum import Enum
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.patience import turn


class Fate(Enum):
    """What happens to one piece of data from a client (as read from its socket: usually one write of it)."""

    PASS = "it passes"
    CUT_BEFORE = "the server never sees it, and the connection ends"
    CUT_MIDWAY = "the server sees half of it, and the connection ends"
    CUT_AFTER = "the server answers, and the connection ends before the answer is delivered"
    CUT_LATE = "the connection ends, and the server sees it all the same, `late_by` pieces or a `deliver_late` later"


class Proxy:
    """Stands between clients and the server at `url`; `fates` are used up, piece by piece, over all connections.

    async with Proxy(server.url) as proxy:
        queue = Queue("emails", redis_url=proxy.url)
        proxy.fates.extend([Fate.PASS, Fate.CUT_AFTER])
    """

    def __init__(self, url: str, fates: Iterable[Fate] = ()) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 6379
        self.fates = deque(fates)
        self.connections = 0
        """How many clients have connected so far."""
        self.cuts = 0
        """How many connections were ended by a fate or by `cut`."""
        self.late_by: int | None = None
        """How many pieces overtake one that comes late; None for all of them, until `deliver_late`."""
        self._late: set[_Late] = set()
        self._open: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._answering = asyncio.Event()
        self._answering.set()
        self._refusing = False
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "use it as a context: `async with Proxy(...)`"
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Ends every connection now; new ones are taken."""
        for pair in tuple(self._open):
            self.cuts += 1
            pair.abort()

    def refuse(self) -> None:
        """Ends every connection and takes no new one until `accept`."""
        self._refusing = True
        self.cut()

    def accept(self) -> None:
        self._refusing = False

    def hold(self) -> None:
        """Nothing passes in either direction, and nobody is told, until `release`."""
        self._flowing.clear()

    def hold_replies(self) -> None:
        """Clients are heard and get no answer until `release`."""
        self._answering.clear()

    def silence(self, name: bytes) -> int:
        """Lets nothing more pass, either way, on the connections that have given themselves this name, and says how many they
        are; new ones are as ever."""
        meant = [pair for pair in self._open if name in pair.names]
        for pair in meant:
            pair.flowing.clear()
        return len(meant)

    def release(self) -> None:
        self._flowing.set()
        self._answering.set()

    async def deliver_late(self) -> None:
        """Lets through what was kept back, and waits until the server has seen all of it."""
        for late in tuple(self._late):
            late.due.set()
            await late.seen.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.release()
        self.cut()
        while self._tasks:  # a client may have been let in just before the door was closed
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.wait(self._tasks)
            await turn()
        await self._server.wait_closed()
        await turn()  # aborted sockets are closed in the loop's next turn

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

        def served(_: asyncio.Task[None]) -> None:  # also when it was cancelled before it began
            self._tasks.discard(task)
            writer.transport.abort()

        task.add_done_callback(served)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._refusing:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(reader, writer, far_reader, far_writer)
        self._open.add(pair)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._upstream(pair))
                group.create_task(self._downstream(pair))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(pair)
            pair.abort()

    async def _upstream(self, pair: "_Pair") -> None:
        while data := await pair.reader.read(1 << 20):
            if b"SETNAME" in data:
                pair.names += data
            await self._flowing.wait()
            await pair.flowing.wait()
            fate = self.fates.popleft() if self.fates else Fate.PASS
            if fate is not Fate.PASS:
                self.cuts += 1
                await (self._end_late(pair, data) if fate is Fate.CUT_LATE else pair.end(data, fate))
                return
            pair.far_writer.write(data)
            await pair.far_writer.drain()
            for late in tuple(self._late):
                late.overtaken()
        pair.abort()

    async def _end_late(self, pair: "_Pair", data: bytes) -> None:
        """What a buffer on the way does: the client has long connected anew."""
        pair.mute = True
        late = _Late(self.late_by)
        self._late.add(late)
        try:
            pair.writer.transport.abort()
            await late.due.wait()
            await pair.end(data, Fate.CUT_AFTER)
        finally:
            self._late.discard(late)
            late.seen.set()

    async def _downstream(self, pair: "_Pair") -> None:
        while data := await pair.far_reader.read(1 << 20):
            await self._flowing.wait()
            await self._answering.wait()
            await pair.flowing.wait()
            if pair.mute:
                pair.answered.set()
                return
            pair.writer.write(data)
            await pair.writer.drain()
        pair.abort()


class _Late:
    """A piece that is kept back: `due` when it is to go on, `seen` when the server has answered it."""

    def __init__(self, pieces: int | None) -> None:
        self._pieces = pieces
        self.due = asyncio.Event()
        self.seen = asyncio.Event()
        if pieces == 0:
            self.due.set()

    def overtaken(self) -> None:
        if self._pieces is not None:
            self._pieces -= 1
            if self._pieces <= 0:
                self.due.set()


class _Pair:
    """One client's connection and the server's end of it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        self.reader, self.writer = reader, writer
        self.far_reader, self.far_writer = far_reader, far_writer
        self.mute = False
        self.answered = asyncio.Event()
        self.names = b""
        """What was sent with CLIENT SETNAME."""
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def end(self, data: bytes, fate: Fate) -> None:
        self.mute = True
        if fate is Fate.CUT_MIDWAY:
            self.far_writer.write(data[: len(data) // 2])
            await self.far_writer.drain()
        elif fate is Fate.CUT_AFTER:
            self.far_writer.write(data)
            await self.far_writer.drain()
            with contextlib.suppress(TimeoutError):  # a blocking read answers when it likes
                await asyncio.wait_for(self.answered.wait(), 1)
        self.abort()

    def abort(self) -> None:
        self.answered.set()
        self.writer.transport.abort()
        self.far_writer.transport.abort()
