"""Claims: what a worker asks for, what it gets, and how it settles it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from relevo.contract.failures import FailureIn
from relevo.contract.fields import (
    MANY,
    CreatedAt,
    Labels,
    MessageId,
    Prose,
    RequestBody,
    Slug,
    Token,
    Word,
    about,
    one_of,
)
from relevo.contract.messages import Refusal, State, Tier

_TOKEN = about("The `claim_token` of the claim: the right to settle it.")
_SUBSCRIPTION = about("Of a broadcast queue: as which subscription.")
_ID = about("The id of the message.")


class ClaimIn(RequestBody):
    """What a worker asks for."""

    batch_size: Annotated[int, Meta(ge=1, le=1000), about("How many messages at most.")] = 1
    wait_s: Annotated[float, Meta(ge=0, le=60), about("How many seconds to wait for the first message.")] = 0.0
    consumer: Annotated[Word | None, about("A name of the worker, for people who look at the message.")] = None
    labels: Annotated[Labels | None, about("Only messages that have all of these.")] = None
    subscription: Annotated[Slug | None, _SUBSCRIPTION] = None


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A message in your hands until `claim_until`; settle it with `claim_token`."""

    id: Annotated[str, _ID]
    queue: Annotated[str, about("The queue it came from.")]
    claim_token: Annotated[str, about("The right to settle it.")]
    claim_until: Annotated[int, about("Until when it is yours. Extend the claim if you need longer.")]
    attempts: Annotated[int, about("How often it was claimed, this time included.")]
    reclaims: Annotated[int, about("How many of its claims ended without a word.")]
    message_type: Annotated[str, about("What kind of message it is.")]
    priority_tier: Annotated[str, one_of(Tier), about("How urgent it is.")]
    priority_score: Annotated[int, about("Its place within the tier.")]
    labels: Annotated[dict[str, str], about("Its labels.")]
    content_type: Annotated[str, about("What the body is.")]
    body: Annotated[Any, about("What was published.")]
    correlation_id: Annotated[str, about("What belongs together carries the same.")]
    causation_id: Annotated[str | None, about("What caused it.")]
    parent_id: Annotated[str | None, about("The message it was made from.")]
    deadline: Annotated[int | None, about("When it has to be done.")]
    created_at: CreatedAt


class Settled(msgspec.Struct, frozen=True):
    """The outcome of a settle: the state afterwards, or why nothing changed."""

    id: Annotated[str, _ID]
    state: Annotated[Annotated[str, one_of(State)] | None, about("The state of the message afterwards.")] = None
    visible_at: Annotated[int | None, about("Of one that comes again: from when on it can be claimed.")] = None
    claim_until: Annotated[int | None, about("Of one that was extended: until when it is yours.")] = None
    refusal: Annotated[Refusal | None, about("Why nothing changed.")] = None


class CompleteIn(RequestBody):
    """Finishes a message."""

    claim_token: Annotated[Token, _TOKEN]
    result: Annotated[Raw, about("Any JSON value, kept with the message.")] = msgspec.field(default_factory=Raw)
    subscription: Annotated[Slug | None, _SUBSCRIPTION] = None


class FailIn(RequestBody):
    """Gives a message back as failed, with the `error` as the worker met it, a `reason` in its own words, or both."""

    claim_token: Annotated[Token, _TOKEN]
    reason: Annotated[Prose | None, about("Why, in your own words.")] = None
    error: Annotated[FailureIn | None, about("The error as the worker met it.")] = None
    dead: Annotated[bool, about("No more tries: it becomes a dead letter now.")] = False
    subscription: Annotated[Slug | None, _SUBSCRIPTION] = None


class ReleaseIn(RequestBody):
    """Gives a message back untouched: this attempt does not count."""

    claim_token: Annotated[Token, _TOKEN]
    subscription: Annotated[Slug | None, _SUBSCRIPTION] = None


class ExtendIn(RequestBody):
    """Keeps a message for longer."""

    claim_token: Annotated[Token, _TOKEN]
    extend_s: Annotated[
        Annotated[float, Meta(ge=1, le=43_200)] | None,
        about("How many seconds it is yours, counted from now; null for the queue's visibility timeout."),
    ] = None
    subscription: Annotated[Slug | None, _SUBSCRIPTION] = None


class CompleteItem(CompleteIn, kw_only=True):
    """One of many to complete."""

    id: Annotated[MessageId, _ID]


class FailItem(FailIn, kw_only=True):
    """One of many to fail."""

    id: Annotated[MessageId, _ID]


class ReleaseItem(ReleaseIn, kw_only=True):
    """One of many to release."""

    id: Annotated[MessageId, _ID]


class ExtendItem(ExtendIn, kw_only=True):
    """One of many to extend."""

    id: Annotated[MessageId, _ID]


class CompleteBatch(RequestBody):
    """Messages to complete."""

    items: Annotated[list[CompleteItem], MANY]


class FailBatch(RequestBody):
    """Messages to fail."""

    items: Annotated[list[FailItem], MANY]


class ReleaseBatch(RequestBody):
    """Messages to release."""

    items: Annotated[list[ReleaseItem], MANY]


class ExtendBatch(RequestBody):
    """Messages to extend."""

    items: Annotated[list[ExtendItem], MANY]
