"""Routing rules as they are shown, and what one would do. What a rule may hold is checked in `relevo.work.routing`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from relevo.contract.fields import CreatedAt, UpdatedAt, about, one_of
from relevo.contract.messages import Tier

Trigger = Literal[
    "message_published", "message_completed", "message_failed", "message_expired", "message_dead", "review_decided"
]
BreakerState = Literal["closed", "open", "half_open"]
Ending = Literal["stays", "moves", "archived", "dropped"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of a scope. Rules are looked at by `position`, then by name; the first whose condition holds wins."""

    name: Annotated[str, about("Its name in addresses.")]
    trigger: Annotated[str, one_of(Trigger), about("What has to happen for it to be looked at.")]
    condition: Annotated[str, about("A CEL expression over message, labels, body, queue and now.")] = "true"
    actions: Annotated[list[Any], about("What is then done, in order; `action` is the kind of each.")]
    position: Annotated[int, about("Rules with a lower position are asked first.")] = 100
    enabled: Annotated[bool, about("Whether it is asked at all.")] = True
    queue: Annotated[str | None, about("Only messages of this queue; null for all of the scope.")] = None


class StoredRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule and how it does. While its breaker is `open` nobody asks it."""

    rule: Annotated[Rule, about("The rule as it was written.")]
    breaker: Annotated[str, one_of(BreakerState), about("Whether it is asked: `open` is no, `half_open` is once.")]
    failures_lately: Annotated[int, about("How often it failed in the last minute.")]
    last_error: Annotated[str | None, about("How it failed last.")]
    opened_at: Annotated[int | None, about("Since when nobody asks it.")]
    matched: Annotated[int, about("How often its condition held.")]
    failed: Annotated[int, about("How often it failed.")]
    created_at: CreatedAt
    updated_at: UpdatedAt


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule would do with one message."""

    message_id: Annotated[str, about("The message; of a sample an empty text.")]
    matches: Annotated[bool, about("Whether the condition holds.")]
    error: Annotated[str | None, about("Why it could not be said, or not be done.")] = None
    ending: Annotated[Annotated[str, one_of(Ending)] | None, about("Where the message would end up.")] = None
    to: Annotated[str | None, about("The queue it would move to.")] = None
    copies_to: Annotated[list[str], about("The queues that would get a copy.")] = []
    review: Annotated[bool, about("Whether a person would have to look at it.")] = False
    body: Annotated[Any, about("The body as it would be afterwards; null when the rule does not match.")] = None
    labels: Annotated[dict[str, str], about("The labels as they would be afterwards.")] = {}
    priority_tier: Annotated[Annotated[str, one_of(Tier)] | None, about("The tier that it would have afterwards.")] = (
        None
    )
