"""Watches all queues that one process works, so that the duties of an idle queue may rest.

A worker's duties ask Redis several times a second: is the queue paused, is a job cancelled, due, waiting in a lane? Mostly the
answer is no, all day long, and with a thousand queues in a process asking would take a whole core. So one question is asked
for all of them together: which of these keys are there at all? While none is, the duties of a queue ask only as often as
their locks need it; with the first that is, they are woken and go at their own pace. Nobody learns of anything later.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar
from weakref import WeakKeyDictionary

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.engine.service.loop import Loop
from relevo.engine.service.signals import Signal
from relevo.wire.keys import QueueKeys

EVERY_S = 0.1
_UNKNOWN = -1


class IdleWatchMember:
    """One worker's part in the watch: the duties that may rest are given it. Those of a cluster keep their own pace: its
    queues live on many servers."""

    every = EVERY_S

    def __init__(self, address: Address, keys: QueueKeys) -> None:
        watched = (keys.paused, keys.cancelled, keys.delayed, keys.lanes, keys.lanes_later, keys.notes)
        self.question: bytes = command("EXISTS", *watched)
        self.watch: IdleWatch | None = None
        self.stirred: Signal[None] = Signal()
        """Emitted when the first of the keys is there."""
        self._address = address
        self._tag = keys.tag
        self._there = _UNKNOWN

    def begin(self) -> None:
        if self._address.kind == "cluster":
            return
        self.watch = IdleWatch.shared(self._address, self._tag)
        self.watch.members[self] = None

    async def end(self) -> None:
        if self.watch is not None:
            await self.watch.left_by(self)

    def quiet(self) -> bool:
        """Whether none of the keys was there a moment ago."""
        return self._there == 0 and self.watch is not None and self.watch.fresh

    def on_reply(self, reply: Reply) -> None:
        was, self._there = self._there, reply if isinstance(reply, int) else _UNKNOWN
        if was == 0 != self._there:
            self.stirred.emit(None)


class IdleWatch(Loop):
    """Asks for the members: all workers that share a loop and an address."""

    _shared: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, IdleWatch]]] = WeakKeyDictionary()

    def __init__(self, link: Link, address: Address) -> None:
        super().__init__("idle-watch", every=EVERY_S)
        self.members: dict[IdleWatchMember, None] = {}
        self.looked: Signal[int] = Signal()
        """Emitted after each look, with the number of queues that have something to do."""
        self._link = link
        self._address = address
        self._looked_at = float("-inf")

    @staticmethod
    def shared(address: Address, tag: bytes) -> IdleWatch:
        """The watch of this loop for this address; the first to ask starts it."""
        known = IdleWatch._shared.setdefault(asyncio.get_running_loop(), {})
        if address not in known:
            known[address] = IdleWatch(Link(address, tag, purpose="idle-watch"), address)
            known[address].start()
        return known[address]

    async def left_by(self, member: IdleWatchMember) -> None:
        """The last to leave ends it."""
        self.members.pop(member, None)
        known = IdleWatch._shared.get(asyncio.get_running_loop(), {})
        if not self.members and known.get(self._address) is self:
            del known[self._address]
            await self._link.close()  # first: a look that waits for a server that is gone would keep us waiting
            await self.stop()

    @property
    def fresh(self) -> bool:
        return asyncio.get_running_loop().time() - self._looked_at < 5 * EVERY_S

    async def tick(self) -> float | None:
        members = list(self.members)
        if not members:
            return None
        try:
            replies = await self._link.send(b"".join([member.question for member in members]), len(members))
        except BaseException:
            for member in members:  # blind: everyone looks for himself
                member.on_reply(_UNKNOWN)
            raise
        self._looked_at = asyncio.get_running_loop().time()
        for member, reply in zip(members, replies, strict=True):
            member.on_reply(reply)
        self.looked.emit(len(replies) - replies.count(0))
        return None
