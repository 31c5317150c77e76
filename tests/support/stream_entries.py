"""What the relay of work queues writes into a stream."""

from relevo.wire.events import EventFields
from relevo.work.store.outbox import WorkEvent


def entry_of(event: WorkEvent, queue: str, seq: str) -> EventFields:
    """The event in the engine's format."""
    extras: dict[str, int | str] = {"correlation_id": event.correlation_id, "queue": queue, "seq": seq}
    return EventFields(event.event, event.id, event.ts, event.message_type, extras | dict(event.extras or {}))
