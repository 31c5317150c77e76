"""A plain-Python model of a queue: which jobs it was given, how each is to end, and where each may be now."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.pace import limit
from tests.servers.server import Server

T = TypeVar("T")

# One look at everything, so that no job can move between two of the looks.
_LOOK = """
local function rows(key) return redis.call('EXISTS', key) == 1 and redis.call('XRANGE', key, '-', '+') or {} end
local pending, last = {}, '0-0'
if redis.call('EXISTS', KEYS[1]) == 1 then
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    for at = 1, #group, 2 do if group[at] == 'last-delivered-id' then last = group[at + 1] end end
    for _, row in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 10000)) do pending[#pending + 1] = row[1] end
  end
end
return {rows(KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1), rows(KEYS[3]), pending, last}
"""


@dataclass
class Kept:
    """What the model knows of one job."""

    token: int
    plan: str
    """ok, slow, unrecoverable, or fail."""
    fails: int = 0
    attempts: int = 3
    job_id: str = ""
    far: bool = False
    """Delayed beyond the end of the test."""
    uncertain: bool = False
    """Its add could not say whether it arrived."""
    gone: str = ""
    """cancelled or purged."""
    deaths: int = 0
    """Workers that died with its present entry."""
    completed: int = 0
    seen_as: set[str] = field(default_factory=set[str])
    """The ids under which it came to the handler."""

    def ends_dead(self) -> str:
        """The reason with which it ends among the dead letters, or nothing when it ends well."""
        if self.deaths >= 2:
            return "stalled"
        if self.plan == "unrecoverable":
            return "unrecoverable"
        return "retries_exhausted" if self.plan == "fail" and self.fails >= self.attempts else ""


@dataclass
class Places:
    """Where jobs are, by id, all at one moment."""

    stream: Counter[str] = field(default_factory=Counter[str])
    delayed: Counter[str] = field(default_factory=Counter[str])
    dead: Counter[str] = field(default_factory=Counter[str])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    entries: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    pending: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    delivered: tuple[int, int] = (0, 0)

    @staticmethod
    def of(server: Server, keys: QueueKeys) -> Places:
        rows, members, letters, pending, last = server.call(
            "EVAL", _LOOK, 3, keys.stream, keys.delayed, keys.dead, "default"
        )
        places = Places()
        for entry_id, fields in rows:
            places.stream[Envelope.decode(fields[1]).id] += 1
            places.entries.append(order(entry_id))
        for member in members:
            places.delayed[Envelope.decode(DelayedMember.decode(member).envelope).id] += 1
        for _, flat in letters:
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            job_id = Envelope.decode(fields[b"d"]).id
            places.dead[job_id] += 1
            places.reasons[job_id] = fields[b"reason"].decode()
        places.pending = {order(entry_id) for entry_id in pending}
        places.delivered = order(last)
        return places

    def count(self, job_id: str) -> int:
        return self.stream[job_id] + self.delayed[job_id] + self.dead[job_id]

    def nobodys(self) -> list[tuple[int, int]]:
        """Entries that were delivered and are pending for no one: they would stay in the stream for ever."""
        return [entry for entry in self.entries if entry <= self.delivered and entry not in self.pending]


class LoopThread:
    """An event loop in a thread of its own, for a machine whose steps are plain functions."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="queue-machine", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T], timeout: float = 50) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit(timeout))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(limit(10))
        self._loop.close()


def order(entry_id: bytes) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition(b"-")
    return int(ms), int(sequence or 0)
