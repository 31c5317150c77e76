"""Looking into a queue: which jobs there are in which state, how many, and where one of them is.

Nothing here walks a big queue without bound: a search looks at `most` entries of each place and says when that was not all,
a listing goes page by page with a cursor.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from relevo.arguments import positive
from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.broker.scripts import Script, script
from relevo.engine.admin.job_search import FIND_JOB, FoundJob, JobSearch, entry_job, member_job
from relevo.engine.admin.snapshot import HANDED_BACK, held
from relevo.engine.job.job import Job, ResultSource
from relevo.engine.lanes.lane_page import LanePage
from relevo.errors import BadArgument
from relevo.wire.ids import minted_ms
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.job_pages")

WAITING_PAGE = script("waiting_page", __name__)
ACTIVE_PAGE = script("active_page", __name__)
DELAYED_PAGE = script("delayed_page", __name__)

SCRIPTS = (FIND_JOB, WAITING_PAGE, ACTIVE_PAGE, DELAYED_PAGE)

STATES: Final = ("waiting", "active", "delayed", "completed", "failed")
COUNTED: Final = (*STATES, "paused")

MOST: Final = 10_000
"""Entries that one search or one page looks at in each place, unless told otherwise."""

_STEP = 500  # entries a script looks at in one go: more would hold up the server for other clients
_SCAN_STEP = 1000
_CUT = 4096  # bytes of a delayed member that a cursor keeps: its name and id are at the beginning


@dataclass(frozen=True)
class JobPage:
    """Some jobs of one state. `cursor` leads to the next page and is None on the last one."""

    jobs: list[Job]
    cursor: str | None
    unreadable: int = 0
    """Entries of this page that hold no readable job; workers send such entries to the dead letters."""
    bounded: bool = False
    """The page is short because a call looks at a limited number of entries: go on with `cursor`."""


class Bounded(NamedTuple):
    """A number; not `complete` when there may be more."""

    least: int
    complete: bool


class Jobs:
    """The jobs of one queue, as one group of workers sees them."""

    def __init__(self, link: Link, keys: QueueKeys, group: str, queue: ResultSource | None = None) -> None:
        self._link = link
        self._keys = keys
        self._group = group
        self._queue = queue

    # --- one job -------------------------------------------------------------------------------------------------------

    async def find(self, job_id: str, *, most: int = MOST) -> FoundJob:
        """The job with this id. When it is in several places the first of these counts: with a worker, delayed, waiting, dead,
        completed.

        Looks at up to `most` entries of the stream, the delayed set and the dead letters, from the job's birth on when
        the id tells it (ids that relevo makes do), so a recent job is found in a long queue. A queue of up to 500 entries a
        place is searched in one atomic step; in a longer one a job that moves meanwhile is looked for a second time.
        """
        search = JobSearch(self._link, self._keys, self._group, job_id, most)
        await search.run()
        if search.nothing and search.steps > 1:
            search = JobSearch(self._link, self._keys, self._group, job_id, most)
            await search.run()
        found = search.found(self._queue)
        return (
            replace(found, refused_s=await self._refused_s(job_id)) if found.state in ("delayed", "waiting") else found
        )

    async def _refused_s(self, job_id: str) -> float | None:
        """The key of a refused job holds how long it was to be kept, and the server counts down what is left of that."""
        key = self._keys.refused(job_id)
        packed = command("GET", key) + command("PTTL", key)
        kept, left = await self._link.repeat(lambda: packed, 2, "GET")
        if not isinstance(kept, bytes) or not isinstance(left, int):
            return None
        gone_ms = int(kept) - left
        return gone_ms / 1000 if 0 <= gone_ms < int(kept) else None

    # --- many jobs -----------------------------------------------------------------------------------------------------

    async def page(
        self, state: str, *, limit: int = 100, cursor: str | None = None, offset: int = 0, most: int = MOST
    ) -> JobPage:
        """Up to `limit` jobs of one state, oldest (delayed: soonest) first, behind `cursor`, without the first `offset`.

        Pages that follow each other show every job that is there all the time exactly once, also delayed ones of the same
        millisecond. Completed jobs are those with a stored result: they come in no order, with nothing but their id, a page
        of them may be longer than `limit`, and one may come twice while Redis rearranges its keys. Waiting jobs of lanes come
        last, lane by lane; while a lane moves up, a later page may miss some of it.
        """
        _checked_state(state)
        positive("limit", limit, zero=True)
        positive("offset", offset, zero=True)
        if limit == 0:
            return JobPage([], cursor)
        if state == "delayed":
            return await self._delayed(limit, cursor, offset)
        if state == "completed":
            return await self._completed(limit, cursor, offset, most)
        if state == "waiting":
            return await self._waiting(limit, cursor, offset, most)
        return await self._entries(state, limit, cursor, offset, most)

    async def _waiting(self, limit: int, cursor: str | None, offset: int, most: int) -> JobPage:
        """The stream's, and behind them those in lanes."""
        laned = cursor is not None and cursor.startswith(LanePage.MARK)
        page = JobPage([], None) if laned else await self._entries("waiting", limit, cursor, offset, most)
        if page.cursor is not None:
            return page
        # What is left of the offset is known only if the stream ran out before it.
        skipped = 0 if laned or not offset else min(offset, await self._unheld())
        lanes = LanePage(self._link, self._keys, cursor if laned else None)
        jobs, unreadable = list(page.jobs), page.unreadable
        async for member in lanes.members(offset - skipped):
            if len(jobs) >= limit:
                return JobPage(jobs, lanes.cursor, unreadable)
            job = member_job(member, self._queue)
            unreadable += job is None
            if job is not None:
                jobs.append(job)
        return JobPage(jobs, None, unreadable)

    async def _unheld(self) -> int:
        asked = command("XLEN", self._keys.stream) + command("XPENDING", self._keys.stream, self._group)
        replies = await self._link.repeat(lambda: asked, 2, "XPENDING")
        there = held(replies[1])
        return max(0, int(self._link.checked(replies[0], "XLEN")) - (there.all - there.handed_back))

    async def _entries(self, state: str, limit: int, cursor: str | None, offset: int, most: int) -> JobPage:
        if cursor is not None and not re.fullmatch(r"[0-9]{1,20}-[0-9]{1,20}", cursor):
            raise _bad_cursor(state, cursor)
        jobs: list[Job] = []
        following: bytes = b"-" if cursor is None else b"(" + cursor.encode()
        looked = unreadable = 0
        while following and len(jobs) < limit and looked < most:
            step = min(_STEP, most - looked)
            found, seen, following = await self._step(state, following, step, offset + limit - len(jobs))
            looked += seen
            for entry in found[offset:]:
                job = entry_job(entry[1], self._queue, dead=state == "failed")
                unreadable += job is None
                if job is not None:
                    jobs.append(job)
            offset = max(0, offset - len(found))
        return JobPage(jobs, following[1:].decode() or None, unreadable, bool(following) and len(jobs) < limit)

    async def _step(self, state: str, after: bytes, step: int, wanted: int) -> tuple[list[Reply], int, bytes]:
        """Entries of a state, how many were looked at for them, and where to go on."""
        if state == "failed":
            count = min(step, wanted)
            letters: Reply = await self._link.call("XRANGE", self._keys.dead, after, "+", "COUNT", count)
            return letters, len(letters), b"(" + letters[-1][0] if len(letters) == count else b""
        lister: Script = WAITING_PAGE if state == "waiting" else ACTIVE_PAGE
        reply: Reply = await self._link.run(
            lister, [self._keys.stream], self._group, HANDED_BACK, after, step, min(step, wanted)
        )
        return reply[0], reply[1], reply[2]

    async def _delayed(self, limit: int, cursor: str | None, offset: int) -> JobPage:
        place: _Cursor = _place_of(cursor)
        jobs: list[Job] = []
        unreadable, more = 0, 1
        while more and len(jobs) < limit:
            step = min(_STEP, offset + limit - len(jobs))
            reply: Reply = await self._link.run(DELAYED_PAGE, [self._keys.delayed], *place, step)
            members: list[tuple[bytes, bytes]] = reply[0]
            more: int = reply[1]
            for member, _ in members[offset:]:
                job = member_job(member, self._queue)
                unreadable += job is None
                if job is not None:
                    jobs.append(job)
            offset = max(0, offset - len(members))
            if members:
                member, score = members[-1]
                place = (score, member[:_CUT], int(len(member) > _CUT))
        return JobPage(jobs, _cursor_of(place) if more else None, unreadable)

    async def _completed(self, limit: int, cursor: str | None, offset: int, most: int) -> JobPage:
        if cursor is not None and not re.fullmatch(r"[0-9]{1,20}", cursor):
            raise _bad_cursor("completed", cursor)
        ids: dict[str, None] = {}
        at, scanned, begun = (cursor or "0").encode(), 0, False
        while (not begun or at != b"0") and len(ids) < offset + limit and scanned < most:
            begun = True
            at, found = await self._scan(at)
            ids.update(dict.fromkeys(found))
            scanned += _SCAN_STEP
        jobs = [Job(each, "", None, 0, minted_ms(each) or 0, self._queue) for each in list(ids)[offset:]]
        return JobPage(jobs, at.decode() if at != b"0" else None, 0, at != b"0" and len(jobs) < limit)

    async def _scan(self, at: bytes) -> tuple[bytes, list[str]]:
        prefix = self._keys.result("")
        pattern = re.sub(rb"([\\*?\[\]])", rb"\\\1", prefix) + b"*"
        reply: Reply = await self._link.call("SCAN", at, "MATCH", pattern, "COUNT", _SCAN_STEP)
        return reply[0], [key[len(prefix) :].decode(errors="replace") for key in reply[1]]

    # --- numbers -------------------------------------------------------------------------------------------------------

    async def counts(self, *types: str, most: int = MOST * 10) -> dict[str, int]:
        """How many jobs are in each state (`paused` is 1 for a paused queue), all of one moment.

        Waiting is what the stream holds and no worker does, and what waits in lanes (`Queue.lanes` tells of each): never
        the stream's length alone, which counts what runs, nor
        what is pending alone, which is 0 for a queue without workers. Completed is the number of stored results, found by
        looking at up to `most` keys of the server; when that was not all, the log says so and the count is a lower bound.
        """
        for each in types:
            if each not in COUNTED:
                raise BadArgument(
                    argument="types", value=each, reason="no such count", remedy=f"Use {_words(COUNTED)}."
                )
        wanted = dict.fromkeys(types or COUNTED)
        keys = self._keys
        asked = (
            command("MULTI"),
            command("XLEN", keys.stream),
            command("XPENDING", keys.stream, self._group),
            command("ZCARD", keys.delayed),
            command("XLEN", keys.dead),
            command("EXISTS", keys.paused),
            command("HGET", keys.lane_sizes, ""),
            command("EXEC"),
        )
        replies = await self._link.repeat(lambda: b"".join(asked), len(asked), "the counts")
        stream, pending, delayed, dead, paused, laned = self._link.checked(replies[-1], "the counts")
        there = held(pending)
        active = there.all - there.handed_back
        numbers = {
            "waiting": max(0, self._link.checked(stream, "XLEN") - active)
            + int(self._link.checked(laned, "HGET") or 0),
            "active": active,
            "delayed": self._link.checked(delayed, "ZCARD"),
            "failed": self._link.checked(dead, "XLEN"),
            "paused": self._link.checked(paused, "EXISTS"),
        }
        if "completed" in wanted:
            completed = await self.count_completed(most=most)
            numbers["completed"] = completed.least
            if not completed.complete:
                log.warning(
                    "queue %s: more than %d keys on its server; %d is only the least number of completed jobs",
                    keys.queue,
                    most,
                    completed.least,
                )
        return {each: numbers[each] for each in wanted}

    async def count_completed(self, *, most: int = MOST * 10) -> Bounded:
        """Results that are stored, found by looking at up to `most` keys of the server."""
        ids: set[str] = set()
        at, scanned = b"0", 0
        while True:
            at, found = await self._scan(at)
            ids.update(found)
            scanned += _SCAN_STEP
            if at == b"0" or scanned >= most:
                return Bounded(len(ids), at == b"0")


# --- cursors of the delayed set ----------------------------------------------------------------------------------------

_Cursor = tuple[bytes, bytes, int]
"""Score and member behind which to go on, and 1 when the member is only its beginning."""


def _cursor_of(place: _Cursor) -> str:
    score, member, cut = place
    return f"{score.decode()}:{cut}:{base64.urlsafe_b64encode(member).decode()}"


def _place_of(cursor: str | None) -> _Cursor:
    if cursor is None:
        return b"", b"", 0
    score, cut, member = (*cursor.split(":"), "", "")[:3]
    try:
        float(score)
        return score.encode(), base64.b64decode(member, altchars=b"-_", validate=True), int(cut)
    except (ValueError, binascii.Error):
        raise _bad_cursor("delayed", cursor) from None


def _bad_cursor(state: str, cursor: str) -> BadArgument:
    remedy = f"Pass the `cursor` of the page of {state} jobs before, or None for the first."
    return BadArgument(argument="cursor", value=cursor, reason=f"not a cursor of {state} jobs", remedy=remedy)


def _checked_state(state: str) -> None:
    if state not in STATES:
        raise BadArgument(argument="state", value=state, reason="no such state", remedy=f"Use {_words(STATES)}.")


def _words(words: tuple[str, ...]) -> str:
    return ", ".join(words)
