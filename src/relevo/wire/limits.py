"""What a queue holds at most: the one home of these numbers, for producers, workers, schedulers, the outbox and Spark."""

from __future__ import annotations

from dataclasses import dataclass, fields

from relevo.arguments import positive
from relevo.wire.events import MAX_EVENTS


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """Limits of one queue. Give everybody who writes to it the same ones.

    >>> limits = QueueLimits.given(max_stream_len=5, dlq_max_stream_len=None)
    >>> limits.max_stream_len, limits.dlq_max_stream_len
    (5, 100000)
    """

    max_stream_len: int = 1_000_000
    """Jobs in the stream: a full queue refuses an add, and delayed jobs, retries and schedules wait until there is room."""
    dlq_max_stream_len: int = 100_000
    """Dead letters: beyond that the oldest are dropped."""
    events_max_stream_len: int = MAX_EVENTS
    """Events: beyond that the oldest are dropped, about a hundred at a time."""
    max_payload_bytes: int = 1_048_576
    """Bytes of one encoded job; a larger one is refused when it is added, and dead-lettered when it is read."""
    max_delay_secs: int = 2_592_000
    """The longest delay of a job, in seconds; 0 for any."""

    def __post_init__(self) -> None:
        for field in fields(self):
            positive(field.name, getattr(self, field.name), zero=field.name == "max_delay_secs")

    @staticmethod
    def given(**limits: int | None) -> QueueLimits:
        """These limits; None stands for the default."""
        return QueueLimits(**{name: value for name, value in limits.items() if value is not None})
