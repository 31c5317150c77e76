"""Dead letters: messages that could not be done, and replays, which send them back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from relevo.contract.failures import Failure
from relevo.contract.fields import (
    CreatedAt,
    CreatedBy,
    Labels,
    MessageId,
    Moment,
    RequestBody,
    Slug,
    UpdatedAt,
    Word,
    about,
    one_of,
)

ReplayState = Literal["running", "done", "cancelled", "failed"]

_RATE = about("How many a second at most; null for no limit.")
_DRY = about("Only counts them.")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that could not be done."""

    id: Annotated[str, about("The id of the message.")]
    queue: Annotated[str | None, about("The queue it came from; null when that was deleted.")]
    message_type: Annotated[str, about("What kind of message it is.")]
    reason: Annotated[str | None, about("Why it died, in one line.")]
    error: Annotated[Failure | None, about("Its last failure, without the stack: the message shows it.")] = None
    attempts: Annotated[int, about("How often it was claimed.")]
    reclaims: Annotated[int, about("How many of its claims ended without a word.")]
    replays: Annotated[int, about("How often it was sent back.")]
    labels: Annotated[dict[str, str], about("Its labels.")]
    content_type: Annotated[str, about("What the body is.")]
    body: Annotated[Any, about("What was published.")]
    correlation_id: Annotated[str, about("What belongs together carries the same.")]
    parent_id: Annotated[str | None, about("The message it was made from.")]
    subscription: Annotated[
        str | None, about("Of a copy that a subscription of a broadcast queue could not deliver: whose.")
    ]
    created_at: CreatedAt
    died_at: Annotated[int | None, about("When it became a dead letter.")]


class ReplayFilterIn(RequestBody):
    """Which dead letters: those to which all of the given applies."""

    queue: Annotated[Slug | None, about("The queue they came from.")] = None
    reason: Annotated[Word | None, about("A part of the reason.")] = None
    message_type: Annotated[Word | None, about("What kind of message.")] = None
    correlation_id: Annotated[Word | None, about("What they belong to.")] = None
    labels: Annotated[Labels, about("Labels that they have.")] = msgspec.field(default_factory=dict[str, str])
    since: Annotated[Moment | None, about("Died at this moment or later.")] = None
    until: Annotated[Moment | None, about("Died before this moment.")] = None
    text: Annotated[Word | None, about("A part of the body, as it was sent.")] = None
    ids: Annotated[
        Annotated[list[MessageId], Meta(min_length=1, max_length=1000)] | None, about("These and no others.")
    ] = None


class ReplayIn(RequestBody):
    """A replay of dead letters to ask for."""

    filter: Annotated[ReplayFilterIn, about("Which dead letters; all of the scope when it is left out.")] = (
        msgspec.field(default_factory=ReplayFilterIn)
    )
    rate_per_s: Annotated[Annotated[int, Meta(ge=1, le=100_000)] | None, _RATE] = None
    max_replays: Annotated[
        int, Meta(ge=1, le=1000), about("Messages that were replayed this often already stay where they are.")
    ] = 5
    dry_run: Annotated[bool, _DRY] = False


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A replay of dead letters and how far it is."""

    id: Annotated[str, about("The id of the replay.")]
    state: Annotated[str, one_of(ReplayState), about("Whether it goes on.")]
    filter: Annotated[Any, about("What was asked for.")]
    rate_per_s: Annotated[int | None, _RATE]
    dry_run: Annotated[bool, _DRY]
    total: Annotated[int, about("How many matched at its beginning.")]
    done: Annotated[int, about("How many were sent back.")]
    skipped: Annotated[int, about("How many stayed: replayed too often, or their queue takes no messages any more.")]
    error: Annotated[str | None, about("Why it failed.")]
    created_by: CreatedBy
    created_at: CreatedAt
    updated_at: UpdatedAt
