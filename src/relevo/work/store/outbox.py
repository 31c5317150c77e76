"""The events of a transaction: made beside the change, kept in one row of the outbox, decoded by the relay.

Whoever changes messages hands the transaction one row, made with `encode`, *after* it has changed the message rows. The row
locks of one message then put its outbox rows in the order of its changes, which is what lets the relay promise "in order for
each message" without a lock of its own (see agents/outbox_relay.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import msgspec

from relevo.contract.events import EventName
from relevo.wire.events import EventFields

EVENTS: tuple[EventName, ...] = get_args(EventName)


class WorkEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thing that happened to one message. In the outbox an array, because a batch of a thousand writes a thousand.

    `extras` go to the stream as fields of their own, with the engine's names where it has one: `attempt`, `reason`,
    `backoff_ms`, `delay_ms`, `wait_ms` (pending until claimed), `duration_us` (claimed until settled). Of ours:
    `subscription`, `origin` (slug of the queue that a dead letter came from), `replay` (id of the replay).

    >>> encode([WorkEvent("completed", 7, "01J9", 1_700_000_000_000, "invoice", "order-17", {"attempt": 1})])
    '[["completed",7,"01J9",1700000000000,"invoice","order-17",{"attempt":1}]]'
    """

    event: EventName
    queue_id: int
    """Where it happened: of a dead letter the queue that the message was worked on in, not `_dead_letter`."""
    id: str
    ts: int
    message_type: str
    correlation_id: str
    extras: Mapping[str, int | str] | None = None

    def fields(self, queue: str, seq: str) -> EventFields:
        """The event in the engine's format. `seq` is the same whenever the event is sent: by it a reader knows a repetition."""
        extras: dict[str, int | str] = {"correlation_id": self.correlation_id, "queue": queue, "seq": seq}
        return EventFields(self.event, self.id, self.ts, self.message_type, extras | dict(self.extras or {}))


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[WorkEvent])


def encode(events: Sequence[WorkEvent]) -> str:
    """The text of one outbox row."""
    return _encoder.encode(events).decode()


def decode(text: str | bytes) -> list[WorkEvent]:
    return _decoder.decode(text)


def stream_name(tenant: str, scope: str, queue: str) -> str:
    """The name under which the events of a work queue are read, with `QueueEvents` or by the pipeline.

    >>> stream_name("acme", "billing", "invoices")
    'work.acme.billing.invoices'
    """
    return f"work.{tenant}.{scope}.{queue}"
