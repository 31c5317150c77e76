"""A queue as everything on a message's walk needs it: its settings, its state, and where its dead letters go."""

from __future__ import annotations

import msgspec

from relevo.contract.queues import ConsumerMode, Ordering, OverflowPolicy
from relevo.contract.scopes import QueueState


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be chosen when a queue is made. All but ordering and consumer_mode may be changed later: rows carry those."""

    display_name: str = ""
    description: str = ""
    ordering: Ordering = "fifo"
    consumer_mode: ConsumerMode = "competing"
    visibility_timeout_s: int = 30
    max_retries: int = 5
    backoff_initial_ms: int = 1000
    backoff_multiplier: float = 2.0
    backoff_cap_ms: int = 300_000
    backoff_jitter_ms: int = 250
    max_reclaims: int = 3
    max_depth: int | None = None
    overflow_policy: OverflowPolicy = "reject"
    default_ttl_s: int | None = None
    dead_letter_expired: bool = False
    aging_crosses_tiers: bool = False


class QueueRecord(QueueSettings, frozen=True, kw_only=True):
    """A queue as everything else needs it: its settings, its state, its scope's state, and where its dead letters go."""

    id: int
    tenant_id: int
    scope_id: int
    tenant: str
    scope: str
    slug: str
    system: bool
    state: QueueState
    created_at: int
    updated_at: int
    scope_state: QueueState
    dead_letter_id: int
    """The scope's `_dead_letter`."""
    events_queue_id: int
    """The scope's `_events`."""
    events_to_queue: frozenset[str]
