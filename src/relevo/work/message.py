"""What a message is: its states, its priorities, what a publisher hands in and what a reader or a worker gets out."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

State = Literal[
    "pending", "delayed", "claimed", "in_review", "completed", "failed", "expired", "dead", "cancelled", "archived"
]
Tier = Literal["background", "low", "normal", "high", "critical"]

STATES: tuple[State, ...] = get_args(State)
TIERS: tuple[Tier, ...] = get_args(Tier)
"""From the least to the most urgent: a tier's place is the number in its row."""

TERMINAL: frozenset[State] = frozenset({"completed", "failed", "expired", "dead", "cancelled"})
"""States that nobody works on any more. All but `dead` are archived in time: dead letters wait for a decision."""


class NewMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a publisher hands in. The body is any JSON value and is kept byte for byte."""

    body: msgspec.Raw
    message_type: str = "message"
    priority_tier: Tier = "normal"
    priority_score: int = 0
    labels: dict[str, str] = {}
    content_type: str = "application/json"
    ttl_seconds: int | None = None
    deadline: int | None = None
    """Milliseconds since 1970; the HTTP side also takes RFC 3339."""
    delay_seconds: float | None = None
    visible_at: int | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    parent_id: str | None = None
    source_type: str | None = None
    source_id: str | None = None
    hitl_spec: msgspec.Raw = msgspec.Raw()
    """Empty for none: msgspec takes `Raw` only by itself, not beside None."""


class Published(msgspec.Struct, frozen=True):
    """What a publisher gets back. `duplicate`: the key was known, this is the first message's id and state."""

    id: str
    state: State
    duplicate: bool = False


class ClaimedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a worker's hands until `claim_until`; `claim_token` is the right to settle it."""

    id: str
    queue: str
    claim_token: str
    claim_until: int
    attempts: int
    reclaims: int
    message_type: str
    priority_tier: Tier
    priority_score: int
    labels: msgspec.Raw
    content_type: str
    body: msgspec.Raw
    correlation_id: str
    causation_id: str | None
    parent_id: str | None
    deadline: int | None
    created_at: int


class Refusal(msgspec.Struct, frozen=True):
    """Why one item of a batch was not done: the stable `code` of a problem document, and its sentence."""

    code: str
    detail: str


class Settled(msgspec.Struct, frozen=True):
    """The outcome of one settle. `state` is the message's state afterwards; `refusal` says why nothing changed."""

    id: str
    state: State | None = None
    visible_at: int | None = None
    claim_until: int | None = None
    refusal: Refusal | None = None
