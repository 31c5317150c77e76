"""What a queue holds at most: the one home of these numbers, for producers, workers, schedulers, the outbox and Spark."""

from __future__ import annotations

from dataclasses import dataclass

from relevo.options import check, option
from relevo.wire.events import MAX_EVENTS


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """Limits of one queue. Give everybody who writes to it the same ones.

    >>> QueueLimits(max_stream_len=5).dlq_max_stream_len
    100000
    """

    max_stream_len: int = option(1_000_000, "Jobs in the stream: a full queue refuses an add, and all else waits.")
    dlq_max_stream_len: int = option(100_000, "Dead letters: beyond that the oldest are dropped.")
    events_max_stream_len: int = option(
        MAX_EVENTS, "Events: beyond that the oldest are dropped, about a hundred at a time."
    )
    max_payload_bytes: int = option(
        1_048_576,
        "Bytes of one encoded job: a larger one is refused when it is added, and dead-lettered when it is read.",
    )
    max_delay_secs: int = option(2_592_000, "The longest delay of a job in seconds; 0 for any.", zero=True)

    def __post_init__(self) -> None:
        check(self)
