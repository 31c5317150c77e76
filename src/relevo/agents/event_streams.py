"""Writes the events of work queues to Redis streams, in the engine's format: `QueueEvents("work.acme.billing.invoices")` reads
them, and so does whatever reads the events of stream queues."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from relevo.broker.address import Address
from relevo.broker.link import Link
from relevo.broker.resp import ReplyError
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
        shared = _bulk("queue") + _bulk(queue.slug)
        head = "".join(
            _bulk(each) for each in ("XADD", keys.events.decode(), "MAXLEN", "~", str(self._max_len), "*", "e")
        )
        commands = [_MULTI, *(_xadd(head, shared, event, seq) for event, seq in events), _EXEC]
        replies = await self._link(keys.tag).send("".join(commands).encode(), len(commands))
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


def _xadd(head: str, queue: str, event: WorkEvent, seq: str) -> str:
    """One packed command, with the fields of `WorkEvent.fields` in their order. Written by hand because every change of every
    message comes by here: 2 us instead of 6."""
    extras = event.extras
    count = 18 + 2 * len(extras) if extras else 18
    packed = (
        f"{head}{_bulk(event.event)}$2\r\nid\r\n{_bulk(event.id)}$2\r\nts\r\n{_bulk(str(event.ts))}$1\r\nn\r\n"
        f"{_bulk(event.message_type)}$14\r\ncorrelation_id\r\n{_bulk(event.correlation_id)}{queue}$3\r\nseq\r\n{_bulk(seq)}"
    )
    if extras:
        packed += "".join(f"{_bulk(name)}{_bulk(str(value))}" for name, value in extras.items())
    return f"*{count + 2}\r\n{packed}"


def _bulk(text: str) -> str:
    size = len(text) if text.isascii() else len(text.encode())
    return f"${size}\r\n{text}\r\n"


_MULTI = f"*1\r\n{_bulk('MULTI')}"
_EXEC = f"*1\r\n{_bulk('EXEC')}"
