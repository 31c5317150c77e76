"""What the client gives back. Fields that a newer server adds are ignored; times are milliseconds since 1970."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a listing; pass `next_cursor` on for the next, None at the end."""

    items: list[T]
    next_cursor: str | None = None


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A scope."""

    slug: str
    display_name: str
    description: str
    state: str
    events_to_queue: list[str]
    audit_to_queue: bool
    created_at: int
    updated_at: int


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: its settings, its state and its depths."""

    slug: str
    display_name: str
    description: str
    system: bool
    ordering: str
    consumer_mode: str
    visibility_timeout_s: int
    max_retries: int
    backoff_initial_ms: int
    backoff_multiplier: float
    backoff_cap_ms: int
    backoff_jitter_ms: int
    max_reclaims: int
    max_depth: int | None
    overflow_policy: str
    default_ttl_s: int | None
    dead_letter_expired: bool
    aging_crosses_tiers: bool
    state: str
    created_at: int
    updated_at: int
    depth_pending: int
    depth_delayed: int
    depth_claimed: int
    depth_in_review: int
    depth_dead: int


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is on disk. `duplicate`: its idempotency key was known, and this is the first one's id."""

    id: str
    state: str
    duplicate: bool = False


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why one item of a batch was not done."""

    code: str
    detail: str


class BatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one message of a batch: `id` and `state`, or `code` and `detail` of its refusal."""

    id: str | None = None
    state: str | None = None
    duplicate: bool = False
    code: str | None = None
    detail: str | None = None

    @property
    def published(self) -> bool:
        return self.code is None


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A message in your hands until `claim_until`; settle it with `claim_token`."""

    id: str
    queue: str
    claim_token: str
    claim_until: int
    attempts: int
    reclaims: int
    message_type: str
    priority_tier: str
    priority_score: int
    labels: dict[str, str]
    content_type: str
    body: Any
    correlation_id: str
    causation_id: str | None
    parent_id: str | None
    deadline: int | None
    created_at: int


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a settle: the state afterwards, or why nothing changed."""

    id: str
    state: str | None = None
    visible_at: int | None = None
    claim_until: int | None = None
    refusal: Refusal | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a message failed, in parts. Lists leave the stack out."""

    type: str | None = None
    message: str | None = None
    stack: str | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a reader sees it."""

    id: str
    queue: str
    origin_queue: str | None
    state: str
    message_type: str
    priority_tier: str
    priority_score: int
    labels: dict[str, str]
    content_type: str
    body: Any
    correlation_id: str
    causation_id: str | None
    parent_id: str | None
    source_type: str | None
    source_id: str | None
    idempotency_key: str | None
    attempts: int
    reclaims: int
    replays: int
    claimed_by: str | None
    claimed_at: int | None
    claim_until: int | None
    visible_at: int | None
    expires_at: int | None
    deadline: int | None
    failure_reason: str | None
    error: Failure | None = None
    result: Any
    hitl_spec: Any = None
    created_at: int
    updated_at: int
    finished_at: int | None
    archived_at: int | None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a message."""

    at: int
    event: str
    actor: str | None
    detail: Any = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that could not be done."""

    id: str
    queue: str | None
    message_type: str
    reason: str | None
    error: Failure | None = None
    attempts: int
    reclaims: int
    replays: int
    labels: dict[str, str]
    content_type: str
    body: Any
    correlation_id: str
    parent_id: str | None
    subscription: str | None
    created_at: int
    died_at: int | None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A replay of dead letters and how far it is."""

    id: str
    state: str
    filter: Any
    rate_per_s: int | None
    dry_run: bool
    total: int
    done: int
    skipped: int
    error: str | None
    created_by: str
    created_at: int
    updated_at: int


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A named consumer of a broadcast queue."""

    name: str
    from_id: str
    created_at: int
    pending: int
    delayed: int
    claimed: int


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key, without its secret."""

    id: str
    name: str
    hint: str
    permissions: list[str]
    scopes: list[str] | None
    queues: list[str] | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key just made; `secret` is shown this once."""

    key: ApiKey
    secret: str


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one queue did on one day."""

    day: str
    scope: str
    queue: str
    published: int
    published_bytes: int
    claims: int
    completed: int
    failed: int
    retried: int
    released: int
    reclaimed: int
    expired: int
    dead_lettered: int
    cancelled: int
    replayed: int
    handler_ms: int


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what."""

    id: int
    at: int
    actor: str
    action: str
    target: str
    scope: str | None
    queue: str | None
    request_id: str
    correlation_id: str | None
    before: Any = None
    after: Any = None


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened; `id` is what it happened to."""

    at: int
    source: str
    scope: str | None
    queue: str | None
    id: str
    what: str
    actor: str | None
    detail: Any = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """All that happened under one correlation id, the oldest first."""

    messages: list[str]
    reviews: list[str]
    steps: list[TraceStep]
    complete: bool


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A duty of the installation and its last run."""

    agent: str
    about: str
    every_s: float
    running: bool
    last_started_at: int | None
    last_finished_at: int | None
    last_duration_ms: int | None
    last_items: int | None
    last_error: str | None
    last_node: str | None
    next_run_at: int | None
    runs: int
    failures: int
