"""Writes the events of work queues to Redis streams, in the engine's format: `QueueEvents("work.acme.billing.invoices")` reads
them, and so does whatever reads the events of stream queues."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import ReplyError, pack
from relevo.errors import ServerRefused
from relevo.wire.keys import QueueKeys
from relevo.work.outbox import WorkEvent, stream_name
from relevo.work.queues import QueueRecord

_ANSWER_S = 3.0
"""Less than half of the relay's lease: who has not heard by then has still time to let go."""


class EventStreams:
    """The streams of all queues. One connection, or one a queue on a cluster, where each lives in a slot of its own."""

    def __init__(self, redis_url: str, *, max_len: int) -> None:
        self._address = Address.parse(redis_url)
        self._max_len = max_len
        self._links: dict[bytes, Link] = {}

    async def send(self, events: Mapping[QueueRecord, Sequence[tuple[WorkEvent, str]]]) -> None:
        """Appends events, each with its `seq`. The events of one queue arrive all together or not at all, so that a server that
        refuses one in the middle (no memory left) does not put a message's events out of order."""
        async with asyncio.timeout(_ANSWER_S):
            await asyncio.gather(*(self._append(queue, own) for queue, own in events.items()))

    async def close(self) -> None:
        links, self._links = self._links, {}
        await asyncio.gather(*(link.close() for link in links.values()))

    async def _append(self, queue: QueueRecord, events: Sequence[tuple[WorkEvent, str]]) -> None:
        keys = QueueKeys(stream_name(queue.tenant, queue.scope, queue.slug))
        commands = [pack(("MULTI",))]
        for event, seq in events:
            fields = event.fields(queue.slug, seq).encode()
            commands.append(pack(("XADD", keys.events, "MAXLEN", "~", self._max_len, "*", *fields)))
        commands.append(pack(("EXEC",)))
        replies = await self._link(keys.tag).send(b"".join(commands), len(commands))
        done = replies[-1]
        refused = next((each for each in replies if isinstance(each, ReplyError)), None)
        if refused is None and isinstance(done, list):
            refused = next((each for each in done if isinstance(each, ReplyError)), None)  # pyright: ignore[reportUnknownVariableType]
        if refused is not None:
            raise ServerRefused(command="XADD", reason=str(refused))

    def _link(self, tag: bytes) -> Link:
        key = tag if self._address.kind == "cluster" else b""
        if key not in self._links:
            self._links[key] = Link(self._address, tag, purpose="work-events", wait=_ANSWER_S)
        return self._links[key]
