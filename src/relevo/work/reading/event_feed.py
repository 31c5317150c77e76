"""Follows the events of a scope: its queues' Redis streams as one, in the order of their time, from any place on.

Each queue has a stream of its own, whose ids begin with the server's time. A place in all of them together is therefore a time,
and what was read of that very millisecond: `1700000000000.12-0` is "all before, and of queue 12 up to the first of that time".
While it is read the feed knows its place in each stream; the short form is for who comes back later. On a cluster, where
servers have clocks of their own, who comes back is given the last second again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import Reply
from relevo.errors import EventsNotKept, EventsUnavailable, InvalidInput, NotFound, RelevoError
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys
from relevo.work.caller import Caller
from relevo.work.pagination import LONGEST
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import stream_name
from relevo.work.tenancy.queues import Queues

_PLACE = re.compile(r"(?P<ms>\d{1,16})(?P<seen>(\.\d{1,18}-\d{1,18})*)")
_COUNT = 100
_WAIT_S = 5.0
_POLL_S = 0.5
_OVERLAP_MS = 1_000
_LAST_SEQUENCE = 2**64 - 1


class FeedEvent(NamedTuple):
    """One event; `place` is where to resume after it."""

    place: str
    name: str
    data: dict[str, Any]


class Gap(NamedTuple):
    """Events of a queue after the place where we were to resume are gone from its stream."""

    queue: str


class _Stream:
    """One queue's stream, and how far it is read."""

    def __init__(self, queue: QueueRecord, place: str) -> None:
        self.queue = queue
        self.keys = QueueKeys(stream_name(queue.tenant, queue.scope, queue.slug))
        self.place = place


class EventFeed:
    """The events of one scope for one reader. `queues` and `events` narrow it down; empty for all."""

    def __init__(
        self,
        lookup: Queues,
        redis_url: str | None,
        caller: Caller,
        scope: str,
        *,
        queues: Collection[str] = (),
        events: Collection[str] = (),
        after: str | None = None,
    ) -> None:
        caller.require("view")
        self._lookup = lookup
        self._caller = caller
        self._scope = scope
        self._wanted_queues = frozenset(queues)
        self._wanted_events = frozenset(events)
        self._kept = None if redis_url is None else Address.parse(redis_url)
        self._after = None if after is None else _parsed(after)
        self._links: dict[bytes, Link] = {}
        self._streams: dict[int, _Stream] = {}
        self._ms = 0
        self._seen: dict[int, int] = {}
        """Of the millisecond `_ms`: the last sequence number told, by queue."""

    async def open(self) -> None:
        """Finds the streams and fixes the place. `NotFound`, `EventsNotKept`, or `EventsUnavailable` when Redis is away."""
        records = await self._records()
        missing = self._wanted_queues - {record.slug for record in records}
        if missing:
            raise NotFound(what="queue", name=min(missing))
        if self._kept is None:  # asked last: what a key may not see is not there for it, Redis or not
            raise EventsNotKept
        try:
            self._ms, self._seen = self._after or (await self._now(records), {})
        except (RelevoError, OSError) as error:
            await self.close()
            raise EventsUnavailable(reason=f"Redis does not answer ({type(error).__name__})") from error
        if self._address.kind == "cluster" and self._after is not None:
            self._ms, self._seen = self._ms - _OVERLAP_MS, {}
        self._add(records)

    @property
    def _address(self) -> Address:
        assert self._kept is not None, "open() has asked"
        return self._kept

    @property
    def place(self) -> str:
        """Where to resume."""
        return "".join([str(self._ms), *(f".{queue}-{sequence}" for queue, sequence in sorted(self._seen.items()))])

    async def refresh(self) -> None:
        """Looks for queues that were made meanwhile."""
        self._add(await self._records())

    async def gaps(self) -> list[Gap]:
        """Queues whose stream has lost events after the place we came with; asked once, before reading."""
        if self._after is None:
            return []
        found: list[Gap] = []
        for stream in self._streams.values():
            link = self._link(stream.keys.tag)
            if not await link.call("EXISTS", stream.keys.events):
                continue
            told: Reply = await link.call("XINFO", "STREAM", stream.keys.events)
            info: Mapping[bytes, Any] = dict(zip(told[::2], told[1::2], strict=False))
            first = info.get(b"first-entry")
            trimmed = info.get(b"entries-added", 0) > info.get(b"length", 0)
            if trimmed and first and _order(first[0].decode()) > _order(stream.place):
                found.append(Gap(stream.queue.slug))
        return found

    async def read(self) -> list[FeedEvent]:
        """The next events, in the order of their time; none when nothing happened for a few seconds."""
        if not self._streams:
            await asyncio.sleep(_POLL_S)
            return []
        batches = await self._batches()
        horizon = min(
            (_order(entries[-1][0].decode())[0] for entries in batches.values() if len(entries) == _COUNT),
            default=_LAST_SEQUENCE,
        )
        merged: list[tuple[int, int, int, list[bytes]]] = []
        for queue_id, entries in batches.items():
            for entry_id, flat in entries:
                ms, sequence = _order(entry_id.decode())
                if ms <= horizon:  # beyond it, a stream that gave only its first may have something earlier
                    merged.append((ms, queue_id, sequence, flat))
        merged.sort(key=lambda each: each[:3])
        told: list[FeedEvent] = []
        for ms, queue_id, sequence, flat in merged:
            self._streams[queue_id].place = f"{ms}-{sequence}"
            if ms != self._ms:
                self._ms, self._seen = ms, {}
            self._seen[queue_id] = sequence
            fields = EventFields.decode(flat)
            if not self._wanted_events or fields.event in self._wanted_events:
                told.append(FeedEvent(self.place, fields.event, _data(fields, self._scope)))
        return told

    async def close(self) -> None:
        links, self._links = self._links, {}
        await asyncio.gather(*(link.close() for link in links.values()))

    async def _batches(self) -> dict[int, list[Any]]:
        by_key = {stream.keys.events: queue_id for queue_id, stream in self._streams.items()}
        found: dict[int, list[Any]] = {}
        if self._address.kind == "cluster":  # one server a queue: asked in turn, without waiting at any of them
            for stream in self._streams.values():
                reply: Reply = await self._link(stream.keys.tag).call(
                    "XREAD", "COUNT", _COUNT, "STREAMS", stream.keys.events, stream.place
                )
                for key, entries in reply or ():
                    found[by_key[key]] = entries
            if not found:
                await asyncio.sleep(_POLL_S)
            return found
        streams = list(self._streams.values())
        reply = await self._link(streams[0].keys.tag).call(
            "XREAD",
            "COUNT",
            _COUNT,
            "BLOCK",
            int(_WAIT_S * 1000),
            "STREAMS",
            *(stream.keys.events for stream in streams),
            *(stream.place for stream in streams),
        )
        return {by_key[key]: entries for key, entries in reply or ()}

    async def _records(self) -> list[QueueRecord]:
        records: list[QueueRecord] = []
        cursor: str | None = None
        while True:
            page = await self._lookup.list(self._caller, self._scope, limit=LONGEST, cursor=cursor)
            records += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        return [each for each in records if not self._wanted_queues or each.slug in self._wanted_queues]

    def _add(self, records: list[QueueRecord]) -> None:
        for record in records:
            if record.id not in self._streams:
                seen = self._seen.get(record.id)
                # Ids after this one: of the present millisecond what was not told, and everything later.
                place = f"{max(0, self._ms - 1)}-{_LAST_SEQUENCE}" if seen is None else f"{self._ms}-{seen}"
                self._streams[record.id] = _Stream(record, place)

    async def _now(self, records: list[QueueRecord]) -> int:
        tag = QueueKeys(stream_name("x", "x", "x")).tag
        if records:
            tag = QueueKeys(stream_name(records[0].tenant, records[0].scope, records[0].slug)).tag
        seconds, micros = await self._link(tag).call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def _link(self, tag: bytes) -> Link:
        key = tag if self._address.kind == "cluster" else b""
        if key not in self._links:
            self._links[key] = Link(self._address, tag, purpose="feed", patience=_WAIT_S + 15, wait=3.0)
        return self._links[key]


def _parsed(place: str) -> tuple[int, dict[int, int]]:
    found = _PLACE.fullmatch(place)
    if found is None:
        reason = f"{place[:60]!r} is not a position in the events; pass the `id` of the last event you got"
        raise InvalidInput(where="Last-Event-ID", reason=reason)
    pairs = (pair.split("-") for pair in found["seen"].split(".")[1:])
    return int(found["ms"]), {int(queue): int(sequence) for queue, sequence in pairs}


def _data(fields: EventFields, scope: str) -> dict[str, Any]:
    return {
        "event": fields.event,
        "message_id": fields.id,
        "scope": scope,
        "ts": fields.ts,
        "message_type": fields.name,
        **fields.extras,
    }


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition("-")
    return int(ms), int(sequence or 0)
