"""When a message that failed is tried again: after its queue's backoff, or never."""

from __future__ import annotations

from relevo.wire.retry import RetryDefaults
from relevo.work.queue_record import QueueSettings
from relevo.work.store.interface import QueuePolicy


def wait_before_retry(rules: QueueSettings | QueuePolicy, tries: int) -> int | None:
    """Milliseconds, after so many tries; None when those were all."""
    if tries >= rules.max_retries:
        return None
    backoff = RetryDefaults(
        initial_ms=rules.backoff_initial_ms,
        max_ms=rules.backoff_cap_ms,
        multiplier=float(rules.backoff_multiplier),
        jitter_ms=rules.backoff_jitter_ms,
    )
    return max(0, backoff.wait_ms(tries))
