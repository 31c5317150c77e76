"""What the client gives back about rules, reviews, schemas, access, webhooks, parts and erasures. As types.py."""

from __future__ import annotations

from typing import Any

import msgspec


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A routing rule as it was written; each action is an object with `action` as its kind."""

    name: str
    trigger: str
    condition: str = "true"
    actions: list[dict[str, Any]]
    position: int = 100
    enabled: bool = True
    queue: str | None = None


class StoredRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule and how it does. While its breaker is `open` nobody asks it."""

    rule: Rule
    breaker: str
    failures_lately: int
    last_error: str | None
    opened_at: int | None
    matched: int
    failed: int
    created_at: int
    updated_at: int


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule would do with one message."""

    message_id: str
    matches: bool
    error: str | None = None
    ending: str | None = None
    to: str | None = None
    copies_to: list[str] = []
    review: bool = False
    body: Any = None
    labels: dict[str, str] = {}
    priority_tier: str | None = None


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of `trusted` may be routed into `scope`."""

    scope: str
    trusted: str
    created_by: str
    created_at: int


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One person's answer."""

    person: str
    at: int
    answer: dict[str, Any]
    corrected_body: Any = None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a review's history."""

    at: int
    person: str
    did: str
    text: str = ""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A review as people see it; `spec` is what they are asked."""

    id: str
    scope: str
    queue: str | None
    message_id: str | None
    source: str
    correlation_id: str
    title: str
    state: str
    spec: dict[str, Any]
    assignees: list[str]
    holder: str | None
    held_until: int | None
    due_at: int | None
    votes: list[Vote]
    notes: list[Note]
    outcome: dict[str, Any] | None
    reason: str | None
    created_at: int
    finished_at: int | None


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a review's specification under a name; `parameters` are what a use of it has to give."""

    name: str
    version: int
    spec: dict[str, Any]
    parameters: list[str]
    created_by: str
    created_at: int


class StreamWatch(msgspec.Struct, frozen=True, kw_only=True):
    """Every new dead letter of `stream_queue` becomes a review of the scope."""

    stream_queue: str
    review: Any
    created_by: str
    created_at: int


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a JSON Schema."""

    name: str
    version: int
    definition: Any
    created_by: str
    created_at: int


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue asks of the bodies that are published to it."""

    queue: str
    schema: str
    version: int


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """How the messages that wait in a queue fit a schema; `examples` are ids of some that do not."""

    looked_at: int
    refused: int
    examples: list[str]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Permissions of one key in a scope, or in one queue of it."""

    id: str
    key_id: str
    scope: str
    queue: str | None
    permissions: list[str]
    created_by: str
    created_at: int


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a key may ask for; None for no limit of its own."""

    requests_per_s: int | None = None
    burst: int | None = None
    max_body_bytes: int | None = None
    acts_for_people: bool = False


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, without its secrets; `events` is empty for all."""

    id: str
    url: str
    events: list[str]
    state: str
    secrets: int
    failures_in_a_row: int
    disabled_reason: str | None
    created_at: int
    updated_at: int


class NewSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with a secret just made, shown this once."""

    webhook: Webhook
    secret: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a webhook's log."""

    id: str
    webhook_id: str
    event: str
    message_id: str
    payload: Any
    state: str
    attempts: int
    last_status: int | None
    last_error: str | None
    next_at: int | None
    created_at: int
    updated_at: int


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a scope. `place` goes on after it; `gap` as a name: some were not kept, look at the rows."""

    name: str
    data: dict[str, Any]
    place: str | None = None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message's result."""

    number: int
    body: Any
    final: bool
    created_at: int


class Chunks(msgspec.Struct, frozen=True, kw_only=True):
    """Parts in their order. When `stream` changes, the message was claimed anew, and what was read before is void."""

    stream: str | None
    state: str
    complete: bool
    chunks: list[Chunk]


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """An erasure and how far it is. Whom it was about is known by a digest only."""

    id: str
    subject_digest: str
    state: str
    messages: int
    created_by: str
    created_at: int
    finished_at: int | None
