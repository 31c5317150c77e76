"""What was done: the audit, the story of a correlation id, and what queues did on each day."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from relevo.contract.fields import about, one_of

TraceSource = Literal["message", "review", "webhook", "audit"]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what, when, and what it was before and after."""

    id: Annotated[int, about("The number of the entry; a newer one has a higher number.")]
    at: Annotated[int, about("When.")]
    actor: Annotated[str, about("Who: `key:<id>`, `agent:<name>`, or `cli`.")]
    action: Annotated[str, about("What was done, such as `queue.create`.")]
    target: Annotated[str, about("What it was done to.")]
    scope: Annotated[str | None, about("In which scope.")]
    queue: Annotated[str | None, about("In which queue.")]
    request_id: Annotated[str, about("The request that did it.")]
    correlation_id: Annotated[str | None, about("What it belongs to.")]
    before: Annotated[Any, about("What was there before; null for nothing.")] = None
    after: Annotated[Any, about("What is there since; null for nothing.")] = None


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    at: Annotated[int, about("When.")]
    source: Annotated[str, one_of(TraceSource), about("Where it is told from.")]
    scope: Annotated[str | None, about("In which scope.")]
    queue: Annotated[str | None, about("In which queue.")]
    id: Annotated[str, about("What it happened to: a message, a review, a delivery, the target of an audit entry.")]
    what: Annotated[str, about("What happened.")]
    actor: Annotated[str | None, about("Who did it.")]
    detail: Annotated[Any, about("What else is known of it.")] = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """All that happened under one correlation id, the oldest first."""

    messages: Annotated[list[str], about("The ids of its messages.")]
    reviews: Annotated[list[str], about("The ids of its reviews.")]
    steps: Annotated[list[TraceStep], about("What happened, in order.")]
    complete: Annotated[bool, about("False when the story is longer than what is told of it.")]


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one queue did on one day."""

    day: Annotated[str, about("The day, in UTC: `2026-11-15`.")]
    scope: Annotated[str, about("The scope of the queue.")]
    queue: Annotated[str, about("The queue.")]
    published: Annotated[int, about("Messages published.")]
    published_bytes: Annotated[int, about("The bytes of their bodies.")]
    claims: Annotated[int, about("Messages handed to workers.")]
    completed: Annotated[int, about("Messages completed.")]
    failed: Annotated[int, about("Attempts that failed.")]
    retried: Annotated[int, about("Attempts that failed and were scheduled again.")]
    released: Annotated[int, about("Messages given back untouched.")]
    reclaimed: Annotated[int, about("Claims that ended without a word.")]
    expired: Annotated[int, about("Messages that nobody claimed in time.")]
    dead_lettered: Annotated[int, about("Messages that became dead letters.")]
    cancelled: Annotated[int, about("Messages cancelled.")]
    replayed: Annotated[int, about("Dead letters sent back.")]
    handler_s: Annotated[float, about("The time from claim to settle, summed, in seconds.")]
