"""Results: what handlers returned, and waiting for it. A wait is woken by the queue's events, not by polling.

A wait that begins after the job has ended is answered from what the job left: its result, its dead letter, or the event of its
end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from relevo.arguments import instance, texts
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.engine.admin.dead_letters import DeadLetters
from relevo.engine.admin.job_pages import Jobs
from relevo.engine.events.queue_events import QueueEvent, QueueEvents, as_event
from relevo.errors import EventsTrimmed, JobCancelled, JobDead, RelevoError, ResultTimeout
from relevo.wire.events import MAX_EVENTS
from relevo.wire.ids import minted_ms
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec

log = logging.getLogger("relevo.results")

_SAFETY_S = 1.0
_SKEW_MS = 1000
_PAGE = 500
_FEW_EVENTS = 1000
_FEW_ENTRIES = 2000  # a wait must not walk through a long queue
_ALL_EVENTS = MAX_EVENTS
_ENDS = ("completed", "dlq", "cancelled")


class Results:
    """The results of one queue. All waits of a process share one subscription, opened by the first and closed by the last."""

    def __init__(
        self,
        link: Link,
        keys: QueueKeys,
        subscribe: Callable[[], QueueEvents],
        jobs: Jobs,
        dead: DeadLetters,
        codec: Codec = MSGPACK,
    ) -> None:
        self._link = link
        self._keys = keys
        self._jobs = jobs
        self._dead = dead
        self._subscribe = subscribe
        self._decode = codec.decode
        self._waiting: dict[str, set[asyncio.Future[QueueEvent]]] = {}
        self.seen: set[str] = set()
        """Ids that are waited for and were found in the queue."""
        self._events: QueueEvents | None = None
        self._listener: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    async def get(self, job_id: str) -> Any:
        """The stored result, or None: not finished, expired, or nothing was stored."""
        stored: Reply = await self._link.call("GET", self._keys.result(instance("job_id", job_id, str)))
        return None if stored is None else self._decode(stored)

    async def get_many(self, job_ids: Sequence[str]) -> list[Any]:
        if not texts("job_ids", job_ids):
            return []
        stored: Reply = await self._link.call("MGET", *(self._keys.result(job_id) for job_id in job_ids))
        return [None if each is None else self._decode(each) for each in stored]

    async def wait(self, job_id: str, *, timeout: float, poll_interval: float) -> Any:
        """The result as soon as it is there; None as soon as the job has ended without one."""
        future: asyncio.Future[QueueEvent] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, set()).add(future)
        try:
            async with asyncio.timeout(timeout):
                await self._listen()  # first: an end between the look and the subscription would be missed
                return await self._wait(job_id, future, poll_interval)
        except TimeoutError as error:
            if isinstance(error, RelevoError):
                raise
            raise ResultTimeout(job_id=job_id, timeout_s=timeout) from None
        finally:
            waiting = self._waiting[job_id]
            waiting.discard(future)
            if not waiting:
                del self._waiting[job_id]
                self.seen.discard(job_id)
            if not self._waiting:
                await self.close()

    async def _wait(self, job_id: str, future: asyncio.Future[QueueEvent], poll_interval: float) -> Any:
        pause, look_at = _SAFETY_S, 0.0
        end = await self._end_told(job_id, _FEW_EVENTS)
        while True:
            value = await self.get(job_id)
            if value is not None:
                return value
            if end is None and future.done():
                end = future.result()
            if end is not None:
                return await self._ended(job_id, end, poll_interval)
            now = asyncio.get_running_loop().time()
            if (
                now >= look_at
            ):  # no event has told of its end: it lives, or its worker tells no events, or they are trimmed
                found = await self._jobs.find(job_id, most=_FEW_ENTRIES)
                if found.state == "failed":
                    raise await self._death(job_id, "unknown")
                if found.state == "unknown" and found.complete:
                    end = await self._end_told(job_id, _ALL_EVENTS)
                    if end is not None:
                        continue
                    if (
                        job_id in self.seen
                    ):  # it was there and is gone, and left neither a result nor a dead letter: it is done
                        return await self.get(job_id)
                elif found.state not in ("unknown", "completed"):
                    self.seen.add(job_id)
                pause, look_at = pause * 2, now + pause
            await asyncio.wait([future], timeout=max(poll_interval, _SAFETY_S))

    async def _end_told(self, job_id: str, most: int) -> QueueEvent | None:
        """The event of a job's end, if it is among the last `most` and was written after the job was born."""
        born = minted_ms(job_id)
        first = b"-" if born is None else b"%d" % max(0, born - _SKEW_MS)
        before, looked = b"+", 0
        while looked < most:
            count = min(_PAGE, most - looked)
            page: Reply = await self._link.call("XREVRANGE", self._keys.events, before, first, "COUNT", count)
            for entry_id, fields in page:
                event = as_event(entry_id.decode(), fields)
                if event.job_id == job_id:
                    return event if event.name in _ENDS else None  # it has come back to life since it ended
            if len(page) < count:
                return None
            before, looked = b"(" + page[-1][0], looked + count
        return None

    async def _ended(self, job_id: str, event: QueueEvent, poll_interval: float) -> Any:
        """What the end of a job means for those who wait for its result."""
        if event.name == "dlq":
            raise await self._death(job_id, str(event.fields.get("reason", "unknown")))
        if event.name == "cancelled":
            raise JobCancelled(job_id=job_id)
        # ChasquiMQ's workers say "completed" first, and then take the job away and store its result in one step.
        while True:
            state = (await self._jobs.find(job_id, most=_FEW_ENTRIES)).state
            if state != "active":
                return await self.get(job_id)
            await asyncio.sleep(poll_interval)

    async def _death(self, job_id: str, reason: str) -> JobDead:
        letter = await self._dead.latest(job_id)
        if letter is None:  # purged, or replayed since
            return JobDead(job_id=job_id, reason=reason, detail="its dead letter is gone", traceback=None)
        detail = letter.detail or "nothing more is known"
        error = JobDead(job_id=job_id, reason=letter.reason, detail=detail, traceback=letter.traceback)
        if letter.traceback:
            error.add_note(letter.traceback)
        return error

    async def close(self) -> None:
        events, listener = self._events, self._listener
        self._events = self._listener = None
        if events is not None:
            await events.close()
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])

    async def _listen(self) -> None:
        async with self._opening:
            if self._events is None:
                events = self._subscribe()
                try:
                    await events.ready()
                except BaseException:  # also a wait whose time is up: nobody else knows of this subscription
                    await events.close()
                    raise
                self._events = events
                self._listener = asyncio.create_task(self._dispatch(events), name="relevo-results")

    async def _dispatch(self, events: QueueEvents) -> None:
        try:
            async for event in events:
                if event.name in _ENDS and event.job_id in self._waiting:
                    for future in self._waiting[event.job_id]:
                        if not future.done():
                            future.set_result(event)
        except EventsTrimmed as gap:
            log.warning("%s Waits go on by looking every %s s.", gap, _SAFETY_S)
        except RelevoError as error:
            log.warning("results of queue %s are no longer pushed: %s", self._keys.queue, error)
