"""A queue at one instant: how many jobs wait, run, are delayed or dead, and for how long the oldest has waited."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from relevo.broker.link import Link
from relevo.broker.resp import Reply, ReplyError, command, pairs
from relevo.wire.keys import QueueKeys


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
    consumers: int
    dead: int
    delayed: int
    overdue_ms: int | None
    """How late the first delayed job is; None when none is delayed, 0 when none is due."""
    next_due_ms: int | None
    """Milliseconds until the first delayed job is due; None when none is delayed."""
    repeatable: int
    oldest_waiting_ms: int | None
    """Age of the oldest entry nobody has read; None when none waits."""

    @property
    def waiting(self) -> int:
        """Jobs that no worker has been given yet: the number to scale on, with `oldest_waiting_ms`."""
        return max(0, self.stream - self.pending)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "waiting": self.waiting}

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
        )
        replies = await link.send(b"".join(asked), len(asked))
        groups: Reply = replies[2]
        time, stream, dead, delayed, first, repeatable = (
            link.checked(replies[at], "the snapshot") for at in (0, 1, 3, 4, 5, 6)
        )
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        due_ms = int(float(first[1])) if first else None
        # A queue nobody has used has no stream, and XINFO says so with an error.
        listed: list[Reply] = [] if isinstance(groups, ReplyError) else groups
        ours = next((each for each in map(pairs, listed) if each[b"name"] == group.encode()), None)
        pending = int(ours[b"pending"]) if ours else 0
        oldest = None
        if stream > pending:
            after = b"(" + ours[b"last-delivered-id"] if ours else b"-"
            entries: Reply = await link.call("XRANGE", keys.stream, after, "+", "COUNT", 1)
            oldest = max(0, now_ms - int(entries[0][0].partition(b"-")[0])) if entries else None
        return QueueSnapshot(
            queue=keys.queue,
            group=group,
            group_exists=ours is not None,
            stream=stream,
            pending=pending,
            consumers=int(ours[b"consumers"]) if ours else 0,
            dead=dead,
            delayed=delayed,
            overdue_ms=None if due_ms is None else max(0, now_ms - due_ms),
            next_due_ms=None if due_ms is None else max(0, due_ms - now_ms),
            repeatable=repeatable,
            oldest_waiting_ms=oldest,
        )
