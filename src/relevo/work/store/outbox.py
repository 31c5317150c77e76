"""The events of a transaction: told beside the change, kept packed in one row of the outbox, spread out by the relay.

Whoever changes messages tells the transaction *after* it has changed the message rows. The row locks of one message then put
its outbox rows in the order of its changes, which is what lets the relay promise "in order for each message" without a lock of
its own (see agents/outbox_relay.py). Why rows are packed: docs/decisions/0023-events-are-packed.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, Literal, get_args

import msgspec

from relevo.contract.events import EventName

EVENTS: tuple[EventName, ...] = get_args(EventName)

Values = int | str | Sequence[int] | list[str]
"""One value that all messages of a call share, or one for each of them."""


class WorkEvent(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened to one message.

    `extras` go to the stream as fields of their own, with the engine's names where it has one: `attempt`, `reason`,
    `backoff_ms`, `delay_ms`, `wait_ms` (pending until claimed), `duration_us` (claimed until settled). Of ours:
    `subscription`, `origin` (slug of the queue that a dead letter came from), `replay` (id of the replay).
    """

    event: EventName
    queue_id: int
    """Where it happened: of a dead letter the queue that the message was worked on in, not `_dead_letter`."""
    id: str
    ts: int
    message_type: str
    correlation_id: str
    extras: Mapping[str, int | str] | None = None


class PackedEvents(msgspec.Struct, array_like=True):
    """The same thing that happened to several messages of a queue at once. What they share is said once.

    >>> both = PackedEvents.of(
    ...     "claimed", 7, 1_700_000_000_000, ["01A", "01B"], "invoice", ["01A", "01B"], {"attempt": [1, 1]}
    ... )
    >>> encode([both])
    '[1,[[7,0,2,"claimed",1700000000000,["01A","01B"],"invoice",null,["attempt",1]]]]'
    """

    queue_id: int
    place: int
    """Of the first of them in its row; with the row's number it is the event's `seq`."""
    count: int
    event: EventName
    ts: int
    ids: list[str]
    message_types: str | list[str]
    correlation_ids: str | list[str] | None
    """None: each message has its own id."""
    extras: list[Any]
    """Name, values, name, values …: the order is that of the fields in the stream."""

    @staticmethod
    def of(
        event: EventName,
        queue_id: int,
        ts: int,
        ids: list[str],
        message_types: str | list[str],
        correlation_ids: str | list[str],
        extras: Mapping[str, Values] | None = None,
    ) -> PackedEvents:
        own = None if correlation_ids == ids else _shared(correlation_ids)
        told = [each for name, values in (extras or {}).items() for each in (name, _shared(values))]
        return PackedEvents(queue_id, 0, len(ids), event, ts, ids, _shared(message_types), own, told)

    def unpacked(self) -> Iterator[WorkEvent]:
        types = _each(self.message_types)
        correlations = self.ids if self.correlation_ids is None else _each(self.correlation_ids)
        names = self.extras[::2]
        columns = [_each(values) for values in self.extras[1::2]]
        extras = zip(*columns, strict=False) if columns else repeat(())
        for message_id, message_type, correlation_id, told in zip(self.ids, types, correlations, extras, strict=False):
            more = dict(zip(names, told, strict=True)) or None
            yield WorkEvent(self.event, self.queue_id, message_id, self.ts, message_type, correlation_id, more)


class Part(msgspec.Struct, array_like=True, frozen=True):
    """What the relay has to know of packed events: their first fields."""

    queue_id: int
    place: int
    count: int


class OutboxRow:
    """A row of the outbox. Its events are made one by one only when somebody asks for them."""

    def __init__(self, number: int, created_at: int, text: str, *, copied: bool) -> None:
        self.id = number
        self.copied = copied
        self.mark = f"{number}-{created_at}"
        """Of this row alone. A number may come again, when a database was set back or made anew."""
        texts = _row.decode(text).packed
        self.parts = [(_part.decode(each), each) for each in texts]
        self.count = sum(part.count for part, _ in self.parts)

    @cached_property
    def events(self) -> list[WorkEvent]:
        return [event for _, text in self.parts for event in _packed.decode(text).unpacked()]

    def packed_of(self, queue_id: int) -> bytes:
        """The packed events of one queue, as they are kept."""
        return b"[" + b",".join([bytes(text) for part, text in self.parts if part.queue_id == queue_id]) + b"]"


class _Row(msgspec.Struct, array_like=True):
    version: Literal[1]
    packed: list[msgspec.Raw]


_row = msgspec.json.Decoder(_Row)
_part = msgspec.json.Decoder(Part)
_packed = msgspec.json.Decoder(PackedEvents)
_encoder = msgspec.json.Encoder()


def encode(packed: Sequence[PackedEvents]) -> str:
    """The text of one outbox row."""
    place = 0
    for each in packed:
        each.place = place
        place += each.count
    return _encoder.encode((1, packed)).decode()


def encode_each(events: Iterable[WorkEvent]) -> str:
    """The same of events that have nothing to do with each other; each keeps its place."""
    return encode(
        [
            PackedEvents.of(
                each.event, each.queue_id, each.ts, [each.id], each.message_type, each.correlation_id, each.extras
            )
            for each in events
        ]
    )


def decode(text: str) -> list[WorkEvent]:
    """The events of a row, one by one."""
    return OutboxRow(0, 0, text, copied=False).events


def _shared(values: Any) -> Any:
    """One value instead of many that are the same."""
    if isinstance(values, list) and values.count(values[0]) == len(values):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return values[0]  # pyright: ignore[reportUnknownVariableType]
    return values  # pyright: ignore[reportUnknownVariableType]


def _each(values: Any) -> Iterable[Any]:
    return values if isinstance(values, list) else repeat(values)  # pyright: ignore[reportUnknownVariableType]


def stream_name(tenant: str, scope: str, queue: str) -> str:
    """The name under which the events of a work queue are read, with `QueueEvents` or by the pipeline.

    >>> stream_name("acme", "billing", "invoices")
    'work.acme.billing.invoices'
    """
    return f"work.{tenant}.{scope}.{queue}"
