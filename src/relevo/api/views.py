"""What callers see of queues and keys: the records without our own numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from relevo.work.depths import Depth, depths_of
from relevo.work.office import Office
from relevo.work.queues import ConsumerMode, Ordering, OverflowPolicy, QueueRecord, QueueState
from relevo.work.scopes import Scope


class ScopeOut(msgspec.Struct, frozen=True, kw_only=True):
    """A scope."""

    slug: str
    display_name: str
    description: str
    state: QueueState
    events_to_queue: list[str]
    audit_to_queue: bool
    created_at: int
    updated_at: int


class QueueOut(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: its settings, its state, and how many messages it holds."""

    slug: str
    display_name: str
    description: str
    system: bool
    ordering: Ordering
    consumer_mode: ConsumerMode
    visibility_timeout_s: int
    max_retries: int
    backoff_initial_ms: int
    backoff_multiplier: float
    backoff_cap_ms: int
    backoff_jitter_ms: int
    max_reclaims: int
    max_depth: int | None
    overflow_policy: OverflowPolicy
    default_ttl_s: int | None
    dead_letter_expired: bool
    aging_crosses_tiers: bool
    state: QueueState
    created_at: int
    updated_at: int
    depth_pending: int
    depth_delayed: int
    depth_claimed: int
    depth_in_review: int
    depth_dead: int


def scope_out(scope: Scope) -> ScopeOut:
    return ScopeOut(**{name: getattr(scope, name) for name in ScopeOut.__struct_fields__})


async def queues_out(office: Office, records: Sequence[QueueRecord]) -> list[QueueOut]:
    """Queues with their depths, asked of the database in one go."""
    depths = await depths_of(office.database, [record.id for record in records])
    return [_queue_out(record, depths.get(record.id, Depth())) for record in records]


def _queue_out(record: QueueRecord, depth: Depth) -> QueueOut:
    counted = {f"depth_{state}": count for state, count in depth._asdict().items()}
    fields: dict[str, Any] = {
        name: counted[name] if name in counted else getattr(record, name) for name in QueueOut.__struct_fields__
    }
    return QueueOut(**fields)
