"""Long polls wake up when there may be something to claim: at once in this process, through a Redis stream in others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Generator, Mapping

import msgspec

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.engine.service.loop import AGAIN, Loop
from relevo.engine.service.signals import Signal
from relevo.wire.ids import IdMint

log = logging.getLogger("relevo.wakeups")

_KEPT = 1_000
_BLOCK_MS = 5_000
_BESIDE_OWN_S = 0.005
"""The pause after a read that brought nothing but what this node sent. A busy one would read back each commit of its own, for a
tenth of its time; so what others send meanwhile is heard this much later."""
_LIVES_MS = 3_600_000
_MOST_TOLD = 20
"""Sets of labels that a wake names; beyond that whoever waits for labels looks."""


class CancelToken:
    """Ends the wait of one claim from outside: its worker hung up, or the process is to end. What it is taking it takes."""

    def __init__(self) -> None:
        self.ended = False
        self.waiter: Waiter | None = None

    def end(self) -> None:
        self.ended = True
        if self.waiter is not None:
            self.waiter.woken.set()


class Wake(msgspec.Struct, array_like=True):
    """What became ready in one queue, as far as those who wait for it have to know."""

    count: int = 0
    labels: list[dict[str, str] | None] = []
    """The labels of those that have some, each set of them once; None for one of which they are not known."""

    def name(self, labels: Mapping[str, str] | None) -> None:
        """One of the messages carries these labels."""
        if None not in self.labels and labels not in self.labels:
            self.labels.append(None if labels is None or len(self.labels) >= _MOST_TOLD else dict(labels))

    def may_carry(self, wanted: Mapping[str, str]) -> bool:
        return any(labels is None or wanted.items() <= labels.items() for labels in self.labels)


class Waiter:
    """One claim that may have to wait. A wake that comes while it still looks is not lost."""

    def __init__(
        self, wakeups: LongPoll, place: int, labels: Mapping[str, str] | None, subscription: str | None
    ) -> None:
        self._wakeups = wakeups
        self._place = place
        self.labels = labels
        self.subscription = subscription
        self.woken = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Returns when there may be something, at the latest after `seconds` or the time of the next look."""
        self._wakeups.begun.emit(self._place)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, self._wakeups.look_again_s)):
                await self.woken.wait()
        self.woken.clear()


class LongPoll:
    """Who waits for messages of which queue.

    `wake` is called after a commit that made messages claimable; it wakes as many waiting claims as there are messages, first
    come first served: of a broadcast queue as many of each subscription. Claims for some labels are woken beside these, by
    messages that may carry them: they must not keep a wake from who takes any message. A wake is a hint: whoever is woken looks
    into the database, and whoever is not looks there every `poll_s` all the same.
    """

    def __init__(self, redis_url: str | None, *, poll_s: float) -> None:
        self._address = None if redis_url is None else Address.parse(redis_url)
        self._poll_s = poll_s
        self.begun: Signal[int] = Signal()
        """Emitted with the queue's id when somebody has looked in vain and begins to wait."""
        self.ended: Signal[int] = Signal()
        """Emitted with the queue's id when somebody waits no longer, for whatever reason."""
        self._waiting: dict[int, deque[Waiter]] = {}
        self._node = IdMint()()
        self._sender: Link | None = None
        self._reader: _Reader | None = None
        self._key = b""
        self._expiry = b""

    def open(self, installation: str) -> None:
        """Begins to listen to other nodes; Redis may be away."""
        if self._address is None:
            return
        tag = f"{{{installation}}}".encode()
        self._key = b"rw:" + tag + b":wakes"
        self._expiry = command("PEXPIRE", self._key, _LIVES_MS)
        self._sender = Link(self._address, tag, purpose="wake")
        self._sender.open_soon()
        self._reader = _Reader(
            self, Link(self._address, tag, purpose="wakes", patience=_BLOCK_MS / 1000 + 15), self._key
        )
        self._reader.start()

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()
        if self._sender is not None:
            await self._sender.close()

    @property
    def look_again_s(self) -> float:
        """How long a claim waits before it looks without being woken: longer while other nodes can tell us."""
        told = self._reader is not None and self._reader.listening
        return self._poll_s * 10 if told else self._poll_s

    async def listening(self) -> None:
        """Waits until other nodes' wakes arrive here; for tests, and for readiness."""
        if self._reader is not None:
            await self._reader.heard.wait()

    def wake(self, ready: Mapping[int, Wake]) -> None:
        """Messages of these queues can be claimed now: wakes claims here and on other nodes. Never raises."""
        for queue_id, wake in ready.items():
            self._wake_here(queue_id, wake)
        sender = self._sender
        if sender is None:
            return
        transport = sender.open_transport
        if transport is None:
            sender.open_soon()
            return
        told = msgspec.json.encode([self._node, list(ready.items())])
        data = command("XADD", self._key, "MAXLEN", "~", _KEPT, "*", "w", told) + self._expiry
        transport.submit(data, 2, _ignore)

    @contextlib.contextmanager
    def waiter(
        self, queue_id: int, labels: Mapping[str, str] | None = None, subscription: str | None = None
    ) -> Generator[Waiter]:
        """A place among those who wait; to be taken before looking, so that nothing published meanwhile is missed."""
        waiter = Waiter(self, queue_id, labels, subscription)
        line = self._waiting.setdefault(queue_id, deque())
        line.append(waiter)
        try:
            yield waiter
        finally:
            if waiter in line:
                line.remove(waiter)
            if not line and self._waiting.get(queue_id) is line:
                del self._waiting[queue_id]
            if waiter.woken.is_set():  # woken, and gone before it could look: the next in line looks instead
                self._wake_here(queue_id, Wake(1, [None]))
            self.ended.emit(queue_id)

    def _wake_here(self, queue_id: int, wake: Wake) -> None:
        left: dict[str | None, int] = {}
        for waiter in self._waiting.get(queue_id, ()):
            if waiter.woken.is_set():
                continue
            if waiter.labels:
                if wake.may_carry(waiter.labels):
                    waiter.woken.set()
            elif (count := left.get(waiter.subscription, wake.count)) > 0:
                waiter.woken.set()
                left[waiter.subscription] = count - 1

    def heard(self, told: bytes) -> bool:
        """Takes a wake that was sent to all nodes; whether another node sent it."""
        node, ready = msgspec.json.decode(told, type=tuple[str, list[tuple[int, Wake]]])
        if node != self._node:
            for queue_id, wake in ready:
                self._wake_here(queue_id, wake)
        return node != self._node

    def wake_all(self) -> None:
        """Wakes may have been missed: everybody looks."""
        for line in self._waiting.values():
            for waiter in line:
                waiter.woken.set()


class _Reader(Loop):
    """Follows the stream of wakes."""

    def __init__(self, wakeups: LongPoll, link: Link, key: bytes) -> None:
        super().__init__("wakes", every=0.0)
        self.heard = asyncio.Event()
        self._wakeups = wakeups
        self._link = link
        self._key = key
        self._last: str | None = None

    @property
    def listening(self) -> bool:
        return self._link.up and self.heard.is_set()

    async def tick(self) -> float | None:
        last = self._last
        if last is None or not self._link.up:
            newest: Reply = await self._link.call("XREVRANGE", self._key, "+", "-", "COUNT", 1)
            last = self._last = newest[0][0].decode() if newest else "0-0"
            self._wakeups.wake_all()
        self.heard.set()
        reply: Reply = await self._link.call("XREAD", "BLOCK", _BLOCK_MS, "COUNT", 100, "STREAMS", self._key, last)
        others = not reply
        for entry_id, fields in reply[0][1] if reply else ():
            self._last = entry_id.decode()
            others = self._wakeups.heard(fields[1]) or others
        return AGAIN if others else _BESIDE_OWN_S

    async def close(self) -> None:
        """Does not wait for the read under way: closing its connection ends it."""
        self._stopping = True
        await self._link.close()
        await self.stop()


def _ignore(_: object) -> None:
    """A wake that got lost costs a claim the time until its next look."""
