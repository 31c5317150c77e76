"""Gives the jobs of lanes their turns, and releases what jobs held that are gone. One leader for each queue."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply
from relevo.broker.scripts import script
from relevo.engine.lanes.lanes import WINDOW
from relevo.engine.service.leader_loop import LeaderLoop
from relevo.engine.service.loop import AGAIN, Idle
from relevo.engine.service.signals import Signal
from relevo.errors import Undecodable
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

log = logging.getLogger("relevo.lanes")


DISPATCH_LANES = script("dispatch_lanes", __name__)
RELEASE_GONE = script("release_gone", __name__)
_PAGE = 1000
_AUDIT_PAGES = 100
_AUDIT_EVERY_S = 60.0


class LaneDispatcher(LeaderLoop):
    """Lets lanes go that had to wait, keeps the stream filled up to its window, and frees places that nobody will free."""

    def __init__(
        self, link: Link, keys: QueueKeys, group: str, holder: str, *, every: float = 0.05, idle: Idle | None = None
    ) -> None:
        super().__init__("lanes", link, keys.lanes_lock, holder, every=every * 5, idle=idle)
        self.dispatched: Signal[int] = Signal()
        self.freed: Signal[int] = Signal()
        self._keys = keys
        self._group = group
        self._busy_s = every
        self._audit_due = 0.0
        self._suspects: set[str] = set()

    async def tick(self) -> float | None:
        reply = await self.lead(DISPATCH_LANES, [self._keys.stream], self._keys.tag, self._group, WINDOW)
        if reply is None:
            return 1.0
        moved, lanes, wait_ms = reply
        if moved:
            self.dispatched.emit(moved)
        if time.monotonic() >= self._audit_due:  # by the clock: busy lanes must not keep a lost place from being found
            self._audit_due = time.monotonic() + _AUDIT_EVERY_S
            await self.audit()
        if moved >= WINDOW:
            return AGAIN
        if lanes or wait_ms >= 0:
            return self._busy_s if wait_ms < 0 else min(self._busy_s, max(wait_ms, 1) / 1000)
        return None  # no lane waits for us; adds and settles dispatch by themselves

    async def audit(self) -> int:
        """Releases what jobs hold that are gone: removed by hand, or finished by a worker that knows no notes. A job must be
        missing in two audits, since one on its way between two keys may be seen in neither."""
        stored: Reply = await self._link.call("HGETALL", self._keys.notes)
        noted = {stored[at].decode(errors="replace"): Notes.decode(stored[at + 1]) for at in range(0, len(stored), 2)}
        if not noted:
            self._suspects = set()
            return 0
        alive = await self._alive({notes.lane for notes in noted.values() if notes.lane})
        if alive is None:
            return 0
        missing = noted.keys() - alive
        gone, self._suspects = missing & self._suspects, set(missing)
        if gone:
            await release_gone(self._link, self._keys, {job_id: noted[job_id] for job_id in gone}, "the job is gone")
            log.warning("queue %s: released what %d jobs held that are gone", self._keys.queue, len(gone))
            self.freed.emit(len(gone))
        return len(gone)

    async def _alive(self, lanes: set[str]) -> set[str] | None:
        """Ids of jobs in the stream, the delayed set and the lanes; None when there are too many to look through.

        Jobs move on from the delayed set through the lanes to the stream, and back for a retry: looked through in that
        order, and once more at the end, one that moves is met somewhere.
        """
        before = await self._members(lanes)
        entries = None if before is None else await self._entries()
        after = None if entries is None else await self._members(lanes)
        if before is None or entries is None or after is None:
            log.warning("queue %s is too long to look for places that are lost", self._keys.queue)
            return None
        return before | entries | after

    async def _entries(self) -> set[str] | None:
        ids: set[str] = set()
        after = b"-"
        for _ in range(_AUDIT_PAGES):
            page: Reply = await self._link.call("XRANGE", self._keys.stream, after, "+", "COUNT", _PAGE)
            ids.update(_id_of(dict(zip(fields[::2], fields[1::2], strict=False)).get(b"d", b"")) for _, fields in page)
            if len(page) < _PAGE:
                return ids
            after = b"(" + page[-1][0]
        return None

    async def _members(self, lanes: set[str]) -> set[str] | None:
        most = _PAGE * _AUDIT_PAGES
        members: Reply = await self._link.call("ZRANGE", self._keys.delayed, 0, most)
        for lane in lanes:
            members += await self._link.call("LRANGE", self._keys.lane(lane), 0, most)
            if len(members) > most:
                return None
        ids: set[str] = set()
        for member in members:
            try:
                ids.add(_id_of(DelayedMember.decode(member).envelope))
            except Undecodable:
                continue
        return None if len(members) > most else ids


async def release_gone(link: Link, keys: QueueKeys, gone: Mapping[str, Notes], why: str) -> None:
    """Gives up what jobs held that ended without being settled by a worker of ours."""
    arguments: list[Argument] = [keys.tag]
    for job_id, notes in gone.items():
        arguments += (job_id, notes.lane or "", notes.dedup or "", *notes.node, why)
    await link.run(RELEASE_GONE, [keys.stream, keys.notes], *arguments)


def _id_of(envelope: bytes) -> str:
    try:
        return Envelope.decode(envelope).id
    except Undecodable:
        return ""
