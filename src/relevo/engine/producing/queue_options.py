"""The options of a queue, as producers make it: each with its default and what it means."""

from __future__ import annotations

from dataclasses import dataclass

from relevo.options import check, option
from relevo.wire.limits import QueueLimits


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """What `Queue` takes beside its name and the address."""

    max_stream_len: int = option(
        QueueLimits.max_stream_len, "Jobs in the stream before adds are refused with `QueueFull`.", none=True
    )
    max_delay_secs: int = option(
        QueueLimits.max_delay_secs, "The longest delay in seconds, 30 days; 0 for any.", zero=True, none=True
    )
    max_payload_bytes: int = option(
        QueueLimits.max_payload_bytes, "Bytes of one encoded job; a larger one is refused.", none=True
    )
    wait_s: float = option(30.0, "Seconds a call waits for Redis to come back.", zero=True)
    consumer_group: str = option("default", "The consumer group of the queue's workers.")
    tracing: bool | None = option(None, "OpenTelemetry spans for all adds, or none; by default inside of a trace.")

    def __post_init__(self) -> None:
        check(self)

    @property
    def limits(self) -> QueueLimits:
        return QueueLimits(
            max_stream_len=self.max_stream_len,
            max_delay_secs=self.max_delay_secs,
            max_payload_bytes=self.max_payload_bytes,
        )
