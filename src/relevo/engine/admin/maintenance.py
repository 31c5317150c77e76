"""Maintenance of a queue: remove a job, empty the queue, clear what is old, delete it all. A job that runs is never taken from
under its worker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import NamedTuple

from relevo.arguments import flag, positive
from relevo.broker.link import Link
from relevo.broker.resp import Argument, Reply
from relevo.broker.scripts import script
from relevo.engine.admin.job_pages import STATES, Jobs
from relevo.engine.admin.snapshot import HANDED_BACK
from relevo.engine.events.event_log import EventLog
from relevo.engine.service.queue_registry import QueueRegistry
from relevo.errors import BadArgument, QueueBusy, Undecodable
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.ids import minted_ms
from relevo.wire.keys import QueueKeys
from relevo.wire.notes import Notes

REMOVE_JOBS = script("remove_jobs", __name__)
DRAIN = script("drain", __name__)
OBLITERATE = script("obliterate", __name__)

SCRIPTS = (REMOVE_JOBS, DRAIN, OBLITERATE)

_PAGE = 500
_TRIES = 3


@dataclass(frozen=True)
class Removal:
    """From where a job was removed."""

    delayed: bool = False
    stream: bool = False
    dlq: bool = False
    result: bool = False
    running: bool = False
    """A worker holds it: it was spared there."""
    complete: bool = True
    """False when the search met its bound before it had seen the whole queue."""

    @property
    def count(self) -> int:
        return self.delayed + self.stream + self.dlq + self.result

    def as_report(self) -> dict[str, bool]:
        return {each: found for each, found in asdict(self).items() if each not in ("running", "complete")}


class _Target(NamedTuple):
    """Something to remove: `kind` and `place` as in remove_jobs.lua."""

    kind: str
    job_id: str
    place: bytes


class Maintenance:
    """What can be done to one queue as a whole, or to a job that is in the way."""

    def __init__(self, link: Link, keys: QueueKeys, group: str) -> None:
        self._link = link
        self._keys = keys
        self._group = group
        self._jobs = Jobs(link, keys, group)

    # --- one job -------------------------------------------------------------------------------------------------------

    async def remove(self, job_id: str, *, most: int = 10_000) -> Removal:
        """Removes a job from wherever it is (the stream, the delayed set, the dead letters, the results), except out of the
        hands of a worker. Its id may then be used again. Looks at up to `most` entries of each place."""
        total = Removal()
        for _ in range(_TRIES):  # a job may move between the look and the grasp
            found = await self._jobs.find(job_id, most=most)
            targets = [
                *(_Target("stream", job_id, entry) for entry in found.entries),
                *(_Target("delayed", job_id, member) for member in found.members),
                *(_Target("lane", job_id, member) for member in found.laned),
                *(_Target("dlq", job_id, letter) for letter in found.letters),
            ]
            wanted = len(targets)
            if found.result:
                targets.append(_Target("result", job_id, b""))
            if found.state != "unknown":
                targets.append(_Target("id", job_id, b""))
            done = await self._remove_jobs(targets)
            hits = {target.kind for target, outcome in zip(targets, done, strict=True) if outcome == 1}
            running = any(outcome == -1 for outcome in done)
            total = Removal(
                total.delayed or "delayed" in hits,
                total.stream or bool(hits & {"stream", "lane"}),
                total.dlq or "dlq" in hits,
                total.result or "result" in hits,
                running,
                found.complete,
            )
            if running or all(outcome == 1 for outcome in done[:wanted]):
                break
        return total

    async def take_back(self, job_id: str) -> tuple[bool, bool]:
        """Removes a job that no worker holds; whether it did, and whether the job is anywhere it can run from (or the search
        met its bound before that was clear). Dead letters and results stay."""
        found = await self._jobs.find(job_id)
        targets = [
            *(_Target("stream", job_id, entry) for entry in found.entries),
            *(_Target("delayed", job_id, member) for member in found.members),
            *(_Target("lane", job_id, member) for member in found.laned),
        ]
        done = await self._remove_jobs(targets) if targets else []
        taken = bool(done) and all(outcome == 1 for outcome in done)
        if taken:
            name = "" if found.job is None else found.job.name
            event = EventLog(self._keys).event("cancelled", job_id, name)
            await self._link.repeat(lambda: event, 1, "XADD")
        return taken, bool(targets) or not found.complete

    # --- many jobs -----------------------------------------------------------------------------------------------------

    async def drain(self, *, delayed: bool = True) -> int:
        """Removes every job that nobody has begun: in the stream, in the lanes, and with `delayed` those that wait for their
        time (retries too). Jobs added meanwhile, jobs that run, dead letters, results and schedules stay. Returns how many were
        removed."""
        flag("delayed", delayed)
        removed = 0
        newest: Reply = await self._link.call("XREVRANGE", self._keys.stream, "+", "-", "COUNT", 1)
        if newest:
            after = b"-"
            while after:
                count, after = await self._drain("stream", after, newest[0][0])
                removed += count
        for lane in await self._lanes():
            more = lane
            while more:
                count, more = await self._drain("lane", lane, b"")
                removed += count
        left = int(await self._link.call("ZCARD", self._keys.delayed)) if delayed else 0
        while left > 0:
            count, more = await self._drain("delayed", b"", b"", page=min(_PAGE, left))
            removed += count
            left = left - count if more else 0
        return removed

    async def _lanes(self) -> set[bytes]:
        """The lanes that jobs of this queue are noted for."""
        lanes: set[bytes] = set()
        cursor = b"0"
        while True:
            reply: Reply = await self._link.call("HSCAN", self._keys.notes, cursor, "COUNT", 1000)
            cursor, flat = reply
            found = (Notes.decode(notes).lane for notes in flat[1::2])
            lanes.update(lane.encode() for lane in found if lane is not None)
            if cursor == b"0":
                return lanes

    async def _drain(self, what: str, after: bytes, last: bytes, *, page: int = _PAGE) -> tuple[int, bytes]:
        keys = self._keys
        reply: Reply = await self._link.run(
            DRAIN, [keys.stream, keys.delayed], keys.tag, self._group, HANDED_BACK, what, after, last, page
        )
        return reply[0], reply[1]

    async def clean(self, grace_ms: int = 0, limit: int = 1000, state: str = "completed") -> list[str]:
        """Removes up to `limit` jobs of one state that are older than `grace_ms`, oldest first; returns their ids (empty for an
        entry that holds no readable job).

        Age is counted by Redis' clock: waiting ones since they were added to the stream, failed ones since they died,
        delayed ones since they were created, completed ones since their id was minted (a result with an id of the caller's own
        making has no known age: it goes only with `grace_ms=0`, and by itself at the end of its TTL). Active jobs are
        never removed.
        """
        if state not in STATES:
            remedy = f"Use {', '.join(STATES)}."
            raise BadArgument(argument="state", value=state, reason="no such state", remedy=remedy)
        positive("grace_ms", grace_ms, zero=True)
        positive("limit", limit, zero=True)
        if state == "active" or limit == 0:
            return []
        seconds, micros = await self._link.call("TIME")
        before = int(seconds) * 1000 + int(micros) // 1000 - grace_ms
        if state == "completed":
            return await self._clean_results(None if grace_ms == 0 else before, limit)
        if state == "delayed":
            return await self._clean_delayed(before, limit)
        return await self._clean_entries(state, before, limit)

    async def _clean_entries(self, state: str, before: int, limit: int) -> list[str]:
        kind, key = ("dlq", self._keys.dead) if state == "failed" else ("stream", self._keys.stream)
        removed: list[str] = []
        after = b"-"
        while after and len(removed) < limit:
            count = min(_PAGE, limit - len(removed))
            entries: Reply = await self._link.call("XRANGE", key, after, b"%d" % before, "COUNT", count)
            targets = [_Target(kind, _id_in(fields), entry_id) for entry_id, fields in entries]
            removed += await self._removed(targets)
            after = b"(" + entries[-1][0] if len(entries) == count else b""
        return removed

    async def _clean_delayed(self, before: int, limit: int) -> list[str]:
        removed: list[str] = []
        rank = 0
        while len(removed) < limit:
            members: Reply = await self._link.call("ZRANGE", self._keys.delayed, rank, rank + _PAGE - 1)
            if not members:
                break
            targets = [target for target in map(_delayed_target, members) if target.created_ms <= before]
            gone = await self._removed(target.target for target in targets[: limit - len(removed)])
            removed += gone
            rank += len(members) - len(gone)
        return removed

    async def _clean_results(self, before: int | None, limit: int) -> list[str]:
        removed: list[str] = []
        cursor: str | None = None
        while len(removed) < limit:
            page = await self._jobs.page("completed", limit=_PAGE, cursor=cursor)
            old = [job.id for job in page.jobs if before is None or 0 < (minted_ms(job.id) or 0) <= before]
            removed += await self._removed(_Target("result", each, b"") for each in old[: limit - len(removed)])
            cursor = page.cursor
            if cursor is None:
                break
        return removed

    async def _removed(self, targets: Iterable[_Target]) -> list[str]:
        targets = list(targets)
        done = await self._remove_jobs(targets)
        return [target.job_id for target, outcome in zip(targets, done, strict=True) if outcome == 1]

    async def _remove_jobs(self, targets: list[_Target]) -> list[int]:
        keys = self._keys
        done: list[int] = []
        for at in range(0, len(targets), _PAGE):
            arguments: list[Argument] = [keys.tag, self._group, HANDED_BACK]
            for target in targets[at : at + _PAGE]:
                arguments += target
            done += await self._link.run(REMOVE_JOBS, [keys.stream, keys.delayed, keys.dead], *arguments)
        return done

    # --- everything ----------------------------------------------------------------------------------------------------

    async def obliterate(self, *, force: bool = False) -> int:
        """Deletes the queue: jobs, dead letters, results, events, schedules, its pause. Returns the number of keys.

        Raises `QueueBusy`, and deletes nothing, while workers hold jobs; with `force` their jobs are deleted too (what
        runs goes on and cannot be settled). The queue may be used again at once. Walks through the keys of the server it is on,
        some at a time.
        """
        flag("force", force)
        keys = self._keys
        main = [keys.stream, keys.delayed, keys.dead, keys.repeat, keys.repeat_paused, keys.events, keys.paused]
        running, deleted = await self._link.run(OBLITERATE, main, HANDED_BACK, int(force))
        if running:
            raise QueueBusy(queue=keys.queue, running=running)
        pattern = re.sub(rb"([\\*?\[\]])", rb"\\\1", keys.tag) + b":*"
        cursor = b"0"
        while True:
            reply: Reply = await self._link.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            cursor, found = reply
            if found:
                deleted += int(await self._link.call("UNLINK", *found))
            if cursor == b"0":
                break
        await self._unregister()
        return deleted

    async def _unregister(self) -> None:
        registry = QueueRegistry(self._link.address)
        try:
            await registry.remove(self._keys.queue)
        finally:
            await registry.close()


class _Aged(NamedTuple):
    target: _Target
    created_ms: int


def _delayed_target(member: bytes) -> _Aged:
    try:
        envelope = Envelope.decode(DelayedMember.decode(member).envelope)
    except Undecodable:
        return _Aged(_Target("delayed", "", member), 0)
    return _Aged(_Target("delayed", envelope.id, member), envelope.created_at_ms)


def _id_in(flat: list[bytes]) -> str:
    for field, value in zip(flat[::2], flat[1::2], strict=False):
        if field == b"d":
            try:
                return Envelope.decode(value).id
            except Undecodable:
                break
    return ""
