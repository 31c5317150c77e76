"""Results: what handlers returned, and waiting for it. A wait is woken by the queue's events, not by polling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.engine.events import QueueEvent, QueueEvents
from relevo.errors import EventsTrimmed, JobCancelled, JobDead, RelevoError, ResultTimeout
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import MSGPACK, Codec

log = logging.getLogger("relevo.results")

_SAFETY_S = 1.0


class Results:
    """The results of one queue. All waits of a process share one subscription, opened by the first and closed by the last."""

    def __init__(
        self, link: Link, keys: QueueKeys, subscribe: Callable[[], QueueEvents], codec: Codec = MSGPACK
    ) -> None:
        self._link = link
        self._keys = keys
        self._subscribe = subscribe
        self._decode = codec.decode
        self._waiting: dict[str, set[asyncio.Future[QueueEvent]]] = {}
        self._events: QueueEvents | None = None
        self._listener: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    async def get(self, job_id: str) -> Any:
        """The stored result, or None: not finished, expired, or nothing was stored."""
        stored: Reply = await self._link.call("GET", self._keys.result(job_id))
        return None if stored is None else self._decode(stored)

    async def get_many(self, job_ids: Sequence[str]) -> list[Any]:
        if not job_ids:
            return []
        stored: Reply = await self._link.call("MGET", *(self._keys.result(job_id) for job_id in job_ids))
        return [None if each is None else self._decode(each) for each in stored]

    async def wait(self, job_id: str, *, timeout: float, poll_interval: float) -> Any:
        """The result as soon as it is there."""
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
            if not self._waiting:
                await self.close()

    async def _wait(self, job_id: str, future: asyncio.Future[QueueEvent], poll_interval: float) -> Any:
        while (value := await self.get(job_id)) is None:
            if future.done():
                # ChasquiMQ's workers say "completed" before they store the result: it may come any moment, or never.
                await asyncio.sleep(poll_interval)
                continue
            # Workers without events push nothing: look again now and then.
            ended, _ = await asyncio.wait([future], timeout=max(poll_interval, _SAFETY_S))
            event = future.result() if ended else None
            if event is not None and event.name == "dlq":
                raise JobDead(job_id=job_id, reason=event.fields.get("reason", "unknown"))
            if event is not None and event.name == "cancelled":
                raise JobCancelled(job_id=job_id)
        return value

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
                if event.name in ("completed", "dlq", "cancelled") and event.job_id in self._waiting:
                    for future in self._waiting[event.job_id]:
                        if not future.done():
                            future.set_result(event)
        except EventsTrimmed as gap:
            log.warning("%s Waits go on by looking every %s s.", gap, _SAFETY_S)
        except RelevoError as error:
            log.warning("results of queue %s are no longer pushed: %s", self._keys.queue, error)
