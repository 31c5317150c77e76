"""Asks the sentinels who the master is, once a second, for all links of one event loop that go to it.

A master that hands over in good order goes on taking writes until the sentinels make it a replica, up to ten seconds later,
and forgets them all then. So a link may not wait for its server to hang up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from relevo.broker.address import Address, Node
from relevo.broker.resp import ReplyError, command
from relevo.broker.transport import Transport, send, sign_in
from relevo.errors import ConnectionLost, RelevoError

Dial = Callable[[Address, Node], Awaitable[Transport]]
Listener = Callable[[Node], None]

EVERY_S = 1.0
_LONGEST_S = 5.0
"""For one question, with the connection it needs."""


class MasterWatch:
    """Tells its listeners the master after each look. Sentinels are asked in turn, each over a connection that is kept; of two
    that disagree the one with the later election is right."""

    def __init__(self, address: Address, dial: Dial) -> None:
        self._address = address
        self._dial = dial
        self._listeners: list[Listener] = []
        self._open: dict[Node, Transport] = {}
        self._election = -1
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def of(address: Address, dial: Dial) -> MasterWatch:
        """The watch of this loop for this master."""
        watches = _watches.setdefault(asyncio.get_running_loop(), {})
        return watches.setdefault(address, MasterWatch(address, dial))

    def follow(self, listener: Listener) -> Callable[[], None]:
        """Tells `listener` who the master is, until the returned function is called."""
        self._listeners.append(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="relevo-master-watch")

        def stop() -> None:
            self._listeners.remove(listener)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

        return stop

    async def _run(self) -> None:
        at = 0
        try:
            while True:
                await asyncio.sleep(EVERY_S)
                at = (at + 1) % len(self._address.nodes)
                await self._look(self._address.nodes[at])
        finally:
            for transport in self._open.values():
                transport.close()
            self._open.clear()

    async def _look(self, sentinel: Node) -> None:
        try:
            async with asyncio.timeout(_LONGEST_S):
                election, master = await self._ask(sentinel)
        except (OSError, RelevoError, ReplyError, TimeoutError):
            return  # it is asked again when its turn comes; links find their own way when nobody answers
        if election >= self._election:
            self._election = election
            for listener in tuple(self._listeners):
                listener(master)

    async def _ask(self, sentinel: Node) -> tuple[int, Node]:
        transport, way = self._open.get(sentinel), self._address.sentinel()
        if transport is None or transport.closed:
            transport = self._open[sentinel] = await self._dial(way, sentinel)
            await sign_in(transport, way, "relevo-watch")
        name = self._address.master
        asked = command("SENTINEL", "get-master-addr-by-name", name) + command("SENTINEL", "MASTER", name)
        found, told = await send(transport, asked, 2)
        for reply in (found, told):
            if isinstance(reply, ReplyError):
                raise reply
        if not found:
            raise ConnectionLost(address=sentinel, reason=f"the sentinel knows no master named {name!r}")
        # Of a hand-over under way the first answer knows already, and its election the second.
        return int(told[told.index(b"config-epoch") + 1]), Node(found[0].decode(), int(found[1]))


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, MasterWatch]] = WeakKeyDictionary()
