"""What a `relevo serve` may be told about HTTP; where rows and order are kept is told to the work_queues."""

from __future__ import annotations

import msgspec


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, and who may read the metrics."""

    max_message_bytes: int = 1_048_576
    """The largest request that publishes one message."""
    max_batch_bytes: int = 8 * 1_048_576
    """The largest request that publishes or settles many."""
    small_body_bytes: int = 65_536
    """The largest of all other requests."""
    longest_wait_s: float = 60.0
    """Long polls are answered after this time, whatever they asked for: less than what a proxy in between allows."""
    metrics_open: bool = True
    """Whether /metrics asks for nothing. It names tenants and queues: meant for loopback."""
    metrics_token: str | None = None
    """Asked for as `Authorization: Bearer …` where /metrics is not open; without one it is not there."""
