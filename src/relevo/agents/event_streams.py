"""Writes the events of work queues to Redis streams, in the engine's format: `QueueEvents("work.acme.billing.invoices")` reads
them, and so does whatever reads the events of stream queues."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.scripts import script
from relevo.engine.service.queue_registry import QueueRegistry
from relevo.wire.keys import QueueKeys
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import OutboxRow, stream_name

SPREAD = script("spread_events", __name__)

_ANSWER_S = 3.0
"""Less than half of the relay's lease: who has not heard by then has still time to let go."""
_MARKED_MS = 30_000
"""How long a row that is gone is known, for a relay that read it before and stood still: three times what that one is given."""
_LIVES_MS = 7 * 86_400_000
"""Marks of a queue in which nothing happens any more are forgotten."""


class EventStreams:
    """The streams of all queues. One connection, or one a queue on a cluster, where each lives in a slot of its own."""

    def __init__(self, redis_url: str, *, max_len: int) -> None:
        self._address = Address.parse(redis_url)
        self._max_len = max_len
        self._links: dict[bytes, Link] = {}
        self._registry = QueueRegistry(self._address)

    async def send(self, rows: Mapping[QueueRecord, Sequence[OutboxRow]], *, first: int) -> None:
        """Appends the events of these rows, those of each queue to its own stream, and none of them twice. `first` is the
        smallest number in the outbox.

        The events of one queue arrive all together or not at all, so that a server that refuses (no memory left) does not put
        a message's events out of order."""
        async with asyncio.timeout(_ANSWER_S):
            await asyncio.gather(*(self._spread(queue, own, first) for queue, own in rows.items()))

    async def close(self) -> None:
        links, self._links = self._links, {}
        await asyncio.gather(self._registry.close(), *(link.close() for link in links.values()))

    async def _spread(self, queue: QueueRecord, rows: Sequence[OutboxRow], first: int) -> None:
        keys = QueueKeys(stream_name(queue.tenant, queue.scope, queue.slug))
        await self._registry.add(keys.queue)
        packed = [each for row in rows for each in (row.mark, row.packed_of(queue.id))]
        await self._link(keys.tag).run(
            SPREAD, (keys.events, keys.relayed), queue.slug, self._max_len, first, _MARKED_MS, _LIVES_MS, *packed
        )

    def _link(self, tag: bytes) -> Link:
        key = tag if self._address.kind == "cluster" else b""
        if key not in self._links:
            self._links[key] = Link(self._address, tag, purpose="work-events", scripts=(SPREAD,), wait=_ANSWER_S)
        return self._links[key]
