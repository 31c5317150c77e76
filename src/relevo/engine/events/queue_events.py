"""The queue's events: `EventLog` writes them (packed, to travel with a flush), `QueueEvents` reads them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from relevo.arguments import checked_queue_name, positive
from relevo.broker.address import Address, CredentialProvider
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.errors import BadArgument, ConnectionLost, EventsTrimmed, Unreachable
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys

log = logging.getLogger("relevo.events")

_PLACE = re.compile(r"\$|\d+(-\d+)?")


@dataclass(frozen=True)
class QueueEvent:
    """One event. `job_id` is None for events of the queue itself; `id` is where to resume after it."""

    name: str
    job_id: str | None
    job_name: str
    fields: dict[str, Any]
    id: str = field(default="", compare=False)


class QueueEvents:
    """Follows a queue's events, from any process.

    Starts after the last event there is (or at `last_event_id`), and from then on misses nothing: the place is a concrete
    id from the first read on, and kept over reconnects. Store `event.id` and pass it as `last_event_id` to resume later;
    what was trimmed away meanwhile is said with `EventsTrimmed` instead of skipped silently.

        events = QueueEvents("emails")
        async for event in events:
            print(event.name, event.job_id, event.fields)
    """

    def __init__(
        self,
        queue_name: str,
        *,
        redis_url: str = "redis://127.0.0.1:6379",
        tls: bool = False,
        last_event_id: str = "$",
        block_ms: int = 5_000,
        count: int = 100,
        credential_provider: CredentialProvider | None = None,
    ) -> None:
        self._keys = QueueKeys(checked_queue_name(queue_name))
        self._address = Address.parse(redis_url, tls=tls, credentials=credential_provider)
        self._last = _place(last_event_id)
        self._block_ms = positive("block_ms", block_ms)
        self._count = positive("count", count)
        self._link: Link | None = None
        self._closed = False
        self._unsure = True
        self._reached = False

    @property
    def name(self) -> str:
        return self._keys.queue

    @property
    def last_event_id(self) -> str:
        """The place to resume from."""
        return self._last

    async def ready(self) -> None:
        """Connects and fixes the starting place: every event written after this returns will be seen."""
        if self._link is None:
            self._link = Link(
                self._address, self._keys.tag, purpose="events", patience=self._block_ms / 1000 + 15, wait=30
            )
        if self._last == "$":
            self._last = await self._end()
        elif self._unsure and self._last not in ("0", "0-0"):
            await self._check_gap()
        self._unsure, self._reached = False, True

    async def __aiter__(self) -> AsyncIterator[QueueEvent]:
        while not self._closed:
            try:
                await self.ready()
                entries = await self._read()
            except (ConnectionLost, Unreachable) as error:
                if self._closed:
                    return
                if isinstance(error, Unreachable) and not self._reached:
                    raise  # the address is wrong, or nobody has started it; an outage is only waited for
                self._unsure = True
                await asyncio.sleep(0.05)
                continue
            self._unsure = len(entries) == self._count  # behind: trimming may overtake us
            for entry_id, flat in entries:
                self._last = entry_id.decode()
                yield as_event(self._last, flat)
                if self._closed:
                    return

    async def close(self) -> None:
        self._closed = True
        if self._link is not None:
            await self._link.close()
            self._link = None

    async def __aenter__(self) -> QueueEvents:
        try:
            await self.ready()
        except BaseException:  # `__aexit__` will not be called: the connection must not outlive us
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _end(self) -> str:
        assert self._link is not None
        return await last_event_id(self._link, self._keys)

    async def _check_gap(self) -> None:
        assert self._link is not None
        oldest: Reply = await self._link.call("XRANGE", self._keys.events, "-", "+", "COUNT", 1)
        if not oldest:
            return
        if _order(oldest[0][0].decode()) > _order(self._last):
            raise EventsTrimmed(queue=self._keys.queue, last_id=self._last, first_id=oldest[0][0].decode())

    async def _read(self) -> list[tuple[bytes, list[bytes]]]:
        assert self._link is not None
        reply: Reply = await self._link.call(
            "XREAD", "COUNT", self._count, "BLOCK", self._block_ms, "STREAMS", self._keys.events, self._last
        )
        return reply[0][1] if reply else []


async def events_after(link: Link, keys: QueueKeys, place: str, count: int) -> list[QueueEvent]:
    """The events there are behind a place, without waiting for more; for those who look now and then."""
    found: Reply = await link.call("XRANGE", keys.events, f"({place}", "+", "COUNT", count)
    return [as_event(entry_id.decode(), flat) for entry_id, flat in found]


async def last_event_id(link: Link, keys: QueueKeys) -> str:
    newest: Reply = await link.call("XREVRANGE", keys.events, "+", "-", "COUNT", 1)
    return newest[0][0].decode() if newest else "0-0"


def as_event(entry_id: str, flat: list[bytes]) -> QueueEvent:
    decoded = EventFields.decode(flat)
    fields: dict[str, Any] = {"ts": decoded.ts, **decoded.extras}
    return QueueEvent(decoded.event, decoded.id or None, decoded.name, fields, entry_id)


def _place(value: object) -> str:
    if not isinstance(value, str) or not _PLACE.fullmatch(value):
        remedy = 'Pass the `id` of an event, "0" for all that are kept, or "$" for those to come.'
        raise BadArgument(
            argument="last_event_id", value=value, reason="it names no place in the events", remedy=remedy
        )
    return value


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition("-")
    return int(ms), int(sequence or 0)
