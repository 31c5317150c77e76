"""Looks at a whole queue now and then: what waits, for how long, and how soon the fleet will be through with it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from relevo.broker.link import Link
from relevo.broker.resp import Reply, pairs
from relevo.engine.admin.snapshot import QueueSnapshot
from relevo.engine.service.loop import Loop
from relevo.engine.service.signals import Signal
from relevo.errors import ServerRefused
from relevo.metrics.instruments import Instruments
from relevo.wire.keys import QueueKeys

WINDOW_S = 60.0
"""Over how long the rate is taken: long enough to be calm, short enough to tell that workers have come or gone."""


class DrainRate:
    """How many entries leave the stream in a second, whoever takes them out.

    >>> rate = DrainRate()
    >>> rate.note(left=100, now=0.0), rate.note(left=150, now=10.0)
    (None, 5.0)
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, left: int, now: float) -> float | None:
        """The rate over the window up to now; None before there is anything to compare with."""
        seen = self._seen
        if seen and left < seen[-1][1]:
            seen.clear()  # the stream was deleted and made again
        seen.append((now, left))
        while len(seen) > 2 and seen[1][0] <= now - WINDOW_S:
            seen.popleft()
        since, first = seen[0]
        return (left - first) / (now - since) if now > since else None


class BacklogWatch(Loop):
    """Looks every `every` seconds. Every process that watches a queue sees the same numbers: take the `max` over them."""

    def __init__(
        self, link: Callable[[], Link], keys: QueueKeys, group: str, instruments: Instruments, *, every: float
    ) -> None:
        super().__init__("backlog-watch", every=every)
        self.looked: Signal[QueueSnapshot] = Signal()
        self._link = link
        self._keys = keys
        self._group = group
        self._instruments = instruments
        self._rate = DrainRate()

    async def tick(self) -> float | None:
        link = self._link()
        await link.ready()
        seen = await QueueSnapshot.take(link, self._keys, self._group)
        left = await self._left(link)
        queue, made = self._keys.queue, self._instruments
        made.backlog.set(seen.backlog, queue)
        made.active.set(seen.active, queue)
        made.delayed.set(seen.delayed, queue)
        made.dead.set(seen.dead, queue)
        made.consumers.set(seen.consumers, queue)
        made.oldest_seconds.set((seen.oldest_waiting_ms or 0) / 1000, queue)
        rate = None if left is None else self._rate.note(left, time.monotonic())
        made.drain_seconds.set(time_to_drain(seen.backlog, rate), queue)
        self.looked.emit(seen)
        return None

    async def finish(self) -> None:
        made, queue = self._instruments, self._keys.queue  # numbers that nobody renews any more would mislead
        for gauge in (made.backlog, made.active, made.delayed, made.dead, made.consumers, made.oldest_seconds):
            gauge.set(None, queue)
        made.drain_seconds.set(None, queue)

    async def _left(self, link: Link) -> int | None:
        """Entries that have left the stream since it was made: all that the group has read and has yet to read, less those
        that are there. None while the server cannot tell, since unread entries were deleted."""
        try:
            groups: Reply = await link.call("XINFO", "GROUPS", self._keys.stream)
        except ServerRefused:  # nobody has used the queue yet
            return None
        ours = next((each for each in map(pairs, groups) if each[b"name"] == self._group.encode()), None)
        if ours is None or ours.get(b"lag") is None:
            return None
        there: Reply = await link.call("XLEN", self._keys.stream)
        return max(0, int(ours.get(b"entries-read") or 0) + int(ours[b"lag"]) - there)


def time_to_drain(backlog: int, rate: float | None) -> float | None:
    """Seconds until the backlog is gone at this rate; infinite when nothing moves.

    >>> time_to_drain(600, 5.0), time_to_drain(600, 0.0), time_to_drain(0, 0.0), time_to_drain(600, None)
    (120.0, inf, 0.0, None)
    """
    if rate is None:
        return None
    if backlog == 0:
        return 0.0
    return backlog / rate if rate > 0 else float("inf")
