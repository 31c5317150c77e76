"""A queue at one instant: how many jobs wait, run, are delayed or dead, and for how long the oldest has waited."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from relevo.broker.link import Link
from relevo.broker.resp import Reply, ReplyError, command, pairs
from relevo.wire.keys import QueueKeys

HANDED_BACK: Final = b"c-handed-back"
"""The consumer, run by nobody, that `hand_back.lua` leaves entries with: they are pending, and wait for the next reader."""


@dataclass(frozen=True)
class QueueSnapshot:
    """The numbers of one queue, all from one pipeline (the age of the oldest waiting job needs a second)."""

    queue: str
    group: str
    group_exists: bool
    stream: int
    """Entries in the stream: waiting and running."""
    pending: int
    """Given to a worker and not settled: running, prefetched, or of a worker that died."""
    handed_back: int
    """Of the pending: given back by a worker that left or was paused, and free for the next reader."""
    consumers: int
    dead: int
    delayed: int
    overdue_ms: int | None
    """How late the first delayed job is; None when none is delayed, 0 when none is due."""
    next_due_ms: int | None
    """Milliseconds until the first delayed job is due; None when none is delayed."""
    repeatable: int
    oldest_waiting_ms: int | None
    """Age of the oldest entry of the stream that no worker holds; None when none waits there."""
    due: int = 0
    """Delayed jobs whose time has come. They wait for a promoter, which is part of every worker."""
    paused: bool = False
    laned: int = 0
    """Jobs that wait in lanes for their turn."""

    @property
    def active(self) -> int:
        """Jobs that workers hold."""
        return max(0, self.pending - self.handed_back)

    @property
    def waiting(self) -> int:
        """Jobs in the stream that no worker holds, and those in lanes. Neither the stream's length nor what is pending tells
        that alone."""
        return max(0, self.stream - self.active) + self.laned

    @property
    def backlog(self) -> int:
        """Jobs that could run now and do not: the number to scale on, with `oldest_waiting_ms`. Due delayed jobs count: in a
        queue scaled down to no worker nobody promotes them, and nothing else would call for one."""
        return self.waiting + self.due

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "active": self.active, "waiting": self.waiting, "backlog": self.backlog}

    @staticmethod
    async def take(link: Link, keys: QueueKeys, group: str = "default") -> QueueSnapshot:
        asked = (
            command("TIME"),
            command("XLEN", keys.stream),
            command("XINFO", "GROUPS", keys.stream),
            command("XLEN", keys.dead),
            command("ZCARD", keys.delayed),
            command("ZRANGE", keys.delayed, 0, 0, "WITHSCORES"),
            command("ZCARD", keys.repeat),
            command("XPENDING", keys.stream, group),
            command("XPENDING", keys.stream, group, "-", "+", 1, HANDED_BACK),
            command("EXISTS", keys.paused),
            command("HGET", keys.lane_sizes, ""),
        )
        replies = await link.repeat(lambda: b"".join(asked), len(asked), "the snapshot")
        groups: Reply = replies[2]
        time, stream, dead, delayed, first, repeatable, paused, laned = (
            link.checked(replies[at], "the snapshot") for at in (0, 1, 3, 4, 5, 6, 9, 10)
        )
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        due_ms = int(float(first[1])) if first else None
        # A queue nobody has used has no stream, and XINFO says so with an error.
        listed: list[Reply] = [] if isinstance(groups, ReplyError) else groups
        ours = next((each for each in map(pairs, listed) if each[b"name"] == group.encode()), None)
        pending = held(replies[7])
        given_back: list[Reply] = [] if isinstance(replies[8], ReplyError) else replies[8]
        after = b"(" + ours[b"last-delivered-id"] if ours else b"-"
        more = (
            command("XRANGE", keys.stream, after, "+", "COUNT", 1),
            command("ZCOUNT", keys.delayed, "-inf", now_ms),
        )
        unread, due = await link.repeat(lambda: b"".join(more), len(more), "the snapshot")
        waiting: list[Reply] = [*link.checked(unread, "the snapshot"), *given_back]
        born = min((int(each[0].partition(b"-")[0]) for each in waiting), default=None)
        return QueueSnapshot(
            queue=keys.queue,
            group=group,
            group_exists=ours is not None,
            stream=stream,
            pending=pending.all,
            handed_back=pending.handed_back,
            consumers=int(ours[b"consumers"]) if ours else 0,
            dead=dead,
            delayed=delayed,
            overdue_ms=None if due_ms is None else max(0, now_ms - due_ms),
            next_due_ms=None if due_ms is None else max(0, due_ms - now_ms),
            repeatable=repeatable,
            oldest_waiting_ms=None if born is None else max(0, now_ms - born),
            due=link.checked(due, "the snapshot"),
            paused=paused == 1,
            laned=int(laned or 0),
        )


class Held(NamedTuple):
    """What is pending in a group: all of it, and the part that waits for the next reader."""

    all: int
    handed_back: int


def held(pending: Reply) -> Held:
    """Reads an XPENDING summary, or the error that there is no such group: then nobody has read yet."""
    if isinstance(pending, ReplyError) or not pending[0]:
        return Held(0, 0)
    return Held(int(pending[0]), sum(int(count) for consumer, count in pending[3] if consumer == HANDED_BACK))
