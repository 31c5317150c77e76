"""What a running job says about itself: its progress in percent, and lines of a log. Readable from anywhere for a while."""

from __future__ import annotations

from relevo.broker.link import Link
from relevo.broker.resp import Reply, command
from relevo.engine.events.event_log import EventLog
from relevo.engine.job.parent_result import ParentResult
from relevo.engine.producing.flows import Flows
from relevo.errors import BadArgument, WrongType
from relevo.wire.keys import QueueKeys

MAX_LINES = 1000
MAX_LINE_BYTES = 4096


class JobProgress:
    """JobProgress of the jobs of one queue; each is kept for `ttl_s` after its last word."""

    def __init__(self, link: Link, keys: QueueKeys, *, ttl_s: int = 3600, events: EventLog | None = None) -> None:
        self._link = link
        self._keys = keys
        self._flows = Flows(link, keys)
        self._ttl_s = ttl_s
        self._log = events

    async def update_progress(self, job_id: str, name: str, percent: float) -> int:
        """Whole percent from 0 to 100; what lies outside is taken for the nearer end."""
        if isinstance(percent, bool) or not isinstance(percent, int | float) or percent != percent:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadArgument(argument="progress", value=percent, reason="not a number", remedy="Pass 0 to 100.")
        whole = int(min(max(percent, 0), 100))
        packed = command("SET", self._keys.progress(job_id), whole, "EX", self._ttl_s)
        count = 1
        if self._log is not None and self._log.enabled:
            packed += self._log.event("progress", job_id, name, progress=whole)
            count = 2
        for reply in await self._link.repeat(lambda: packed, count, "the progress"):
            self._link.checked(reply, "the progress")
        return whole

    async def log(self, job_id: str, line: str) -> int:
        """Appends a line (cut at 4096 bytes); returns how many there are. The last thousand are kept."""
        if not isinstance(line, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType(argument="line", value=line, expected="str")
        key = self._keys.log(job_id)
        text = line.encode(errors="replace")[:MAX_LINE_BYTES].decode(errors="ignore")  # cut between characters
        added = command("XADD", key, "MAXLEN", MAX_LINES, "*", "line", text)
        packed = added + command("EXPIRE", key, self._ttl_s) + command("XLEN", key)
        # A server that takes the line and refuses the rest gets the line twice: better than a run that fails of its log.
        replies = await self._link.repeat(lambda: packed, 3, "the log")
        return int(self._link.checked(replies[2], "XLEN"))

    async def parent_results(self, place: str) -> dict[str, ParentResult]:
        """What the jobs before the one at this place of a flow returned, by their keys."""
        return await self._flows.parent_results(place)

    async def progress(self, job_id: str) -> int | None:
        stored: Reply = await self._link.call("GET", self._keys.progress(job_id))
        return None if stored is None else int(stored)

    async def lines(self, job_id: str, *, start: int = 0, end: int = -1, asc: bool = True) -> tuple[list[str], int]:
        """The lines from `start` to `end` (counted from 0; negative ones from the end), and how many there are."""
        entries: Reply = await self._link.call("XRANGE", self._keys.log(job_id), "-", "+")
        lines = [fields[1].decode(errors="replace") for _, fields in entries]
        total = len(lines)
        stop = total + end + 1 if end < 0 else end + 1
        chosen = lines[start if start >= 0 else max(total + start, 0) : max(stop, 0)]
        return (chosen if asc else chosen[::-1]), total
