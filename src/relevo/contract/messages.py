"""Messages: what a publisher hands in, and what a reader sees."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from relevo.contract.failures import Failure
from relevo.contract.fields import (
    LONGEST_S,
    MANY,
    CreatedAt,
    Labels,
    MaybeMoment,
    MessageId,
    Prose,
    RequestBody,
    Seconds,
    ShortWord,
    UpdatedAt,
    Word,
    about,
    ms_of,
    one_of,
)

State = Literal[
    "pending", "delayed", "claimed", "in_review", "completed", "failed", "expired", "dead", "cancelled", "archived"
]
Tier = Literal["background", "low", "normal", "high", "critical"]

_Score = Annotated[int, Meta(ge=0, le=999)]

_ID = about("The id of the message.")
_STATE = about("The state of the message.")
_TYPE = about("What kind of message it is; your own word.")
_TIER = about("How urgent it is.")
_SCORE = about("Its place among messages of the same tier: the higher goes first.")
_LABELS = about("Names and values to look for and to claim by. `subject` is whom it is about, for erasure.")
_CONTENT_TYPE = about("What the body is.")
_CORRELATION = about("What belongs together carries the same; its own id when nothing was given.")
_CAUSATION = about("What caused it.")
_PARENT = about("The message it was made from.")
_SOURCE_TYPE = about("The kind of thing that published it.")
_SOURCE_ID = about("Which one of them.")
_KEY = about("Two messages with the same key are one.")
_DEADLINE = about("When it has to be done.")


class NewMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a publisher hands in. The body is any JSON value and is kept byte for byte."""

    body: Annotated[Raw, about("Any JSON value; it comes back byte for byte.")]
    message_type: str = "message"
    priority_tier: Tier = "normal"
    priority_score: int = 0
    labels: dict[str, str] = {}
    content_type: str = "application/json"
    ttl_s: int | None = None
    deadline: int | None = None
    """Milliseconds since 1970; the HTTP side also takes RFC 3339."""
    delay_s: float | None = None
    visible_at: int | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    parent_id: str | None = None
    source_type: str | None = None
    source_id: str | None = None
    hitl_spec: Raw = Raw()
    """Empty for none: msgspec takes `Raw` only by itself, not beside None."""


class MessageIn(NewMessage, kw_only=True, forbid_unknown_fields=True):
    """A message to publish."""

    # The same fields as a NewMessage, with the limits of HTTP; moments may also be RFC 3339 until `in_numbers`.
    message_type: Annotated[Word, _TYPE] = "message"
    priority_tier: Annotated[Tier, _TIER] = "normal"
    priority_score: Annotated[_Score, _SCORE] = 0
    labels: Annotated[Labels, _LABELS] = msgspec.field(default_factory=dict[str, str])
    content_type: Annotated[ShortWord, _CONTENT_TYPE] = "application/json"
    ttl_s: Annotated[Seconds | None, about("It expires when nobody has claimed it for so long.")] = None
    deadline: Annotated[MaybeMoment, _DEADLINE] = None
    delay_s: Annotated[
        Annotated[float, Meta(ge=0, le=LONGEST_S)] | None, about("It can be claimed only after so many seconds.")
    ] = None
    visible_at: Annotated[MaybeMoment, about("It can be claimed only from this moment on.")] = None
    idempotency_key: Annotated[
        Word | None, about("The same key publishes once: again, the first message's id is answered.")
    ] = None
    correlation_id: Annotated[Word | None, _CORRELATION] = None
    causation_id: Annotated[Word | None, _CAUSATION] = None
    parent_id: Annotated[MessageId | None, _PARENT] = None
    source_type: Annotated[ShortWord | None, _SOURCE_TYPE] = None
    source_id: Annotated[Word | None, _SOURCE_ID] = None
    hitl_spec: Annotated[
        Raw, about("What people are asked before it is done: a review specification, or a pattern and its parameters.")
    ] = msgspec.field(default_factory=Raw)

    def in_numbers(self) -> NewMessage:
        """Itself, with moments in milliseconds."""
        if isinstance(self.deadline, datetime):
            self.deadline = ms_of(self.deadline)  # pyright: ignore[reportIncompatibleVariableOverride]
        if isinstance(self.visible_at, datetime):
            self.visible_at = ms_of(self.visible_at)  # pyright: ignore[reportIncompatibleVariableOverride]
        return self


class BatchIn(RequestBody):
    """Messages to publish in one transaction; each has its own outcome."""

    items: Annotated[list[MessageIn], MANY]


class PlainMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """As most messages are: read by the short way first, and by `MessageIn` when this does not fit."""

    body: Raw
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class PlainBatch(RequestBody):
    """The same of `BatchIn`."""

    items: Annotated[list[PlainMessage], MANY]


class Published(msgspec.Struct, frozen=True):
    """A message that is on disk."""

    id: Annotated[str, _ID]
    state: Annotated[str, one_of(State), _STATE]
    duplicate: Annotated[
        bool, about("Whether the idempotency key was known: this is then the id and the state of the first message.")
    ] = False


class Refusal(msgspec.Struct, frozen=True):
    """Why one item of a batch was not done."""

    code: Annotated[str, about("The stable name of the error, as in a problem document.")]
    detail: Annotated[str, about("What was wrong, and what to do about it.")]


class BatchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one message of a batch: as `Published`, or why it was refused."""

    id: Annotated[str | None, _ID] = None
    state: Annotated[Annotated[str, one_of(State)] | None, _STATE] = None
    duplicate: Annotated[bool, about("Whether the idempotency key was known.")] = False
    refusal: Annotated[Refusal | None, about("Why it was not published.")] = None

    @property
    def published(self) -> bool:
        return self.refusal is None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a reader sees it, at work or archived."""

    id: Annotated[str, _ID]
    queue: Annotated[str, about("The queue it is in.")]
    origin_queue: Annotated[str | None, about("Of a dead letter or a routed message: the queue it came from.")]
    state: Annotated[str, one_of(State), _STATE]
    message_type: Annotated[str, _TYPE]
    priority_tier: Annotated[str, one_of(Tier), _TIER]
    priority_score: Annotated[int, _SCORE]
    labels: Annotated[dict[str, str], _LABELS]
    content_type: Annotated[str, _CONTENT_TYPE]
    body: Annotated[Any, about("What was published; null after erasure.")]
    correlation_id: Annotated[str, _CORRELATION]
    causation_id: Annotated[str | None, _CAUSATION]
    parent_id: Annotated[str | None, _PARENT]
    source_type: Annotated[str | None, _SOURCE_TYPE]
    source_id: Annotated[str | None, _SOURCE_ID]
    idempotency_key: Annotated[str | None, _KEY]
    attempts: Annotated[int, about("How often it was claimed.")]
    reclaims: Annotated[int, about("How many of its claims ended without a word.")]
    replays: Annotated[int, about("How often it was sent back from the dead letters.")]
    claimed_by: Annotated[str | None, about("Who works on it.")]
    claimed_at: Annotated[int | None, about("Since when.")]
    claim_until: Annotated[int | None, about("Until when the claim lasts.")]
    visible_at: Annotated[int | None, about("From when on it can be claimed.")]
    expires_at: Annotated[int | None, about("When it expires if nobody claims it.")]
    deadline: Annotated[int | None, _DEADLINE]
    failure_reason: Annotated[str | None, about("Why it failed last, in one line.")]
    error: Annotated[Failure | None, about("Its last failure. Lists leave the stack out.")] = None
    result: Annotated[Any, about("What its worker handed in; null while there is none.")]
    hitl_spec: Annotated[Any, about("What people are asked before it is done; null for nothing.")] = None
    created_at: CreatedAt
    updated_at: UpdatedAt
    finished_at: Annotated[int | None, about("When it reached its last state.")]
    archived_at: Annotated[int | None, about("When it was moved to the archive.")]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a message."""

    at: Annotated[int, about("When.")]
    event: Annotated[str, about("What happened, such as `claimed`.")]
    actor: Annotated[str | None, about("Who did it: `key:<id>`, `agent:<name>`, or `cli`.")]
    detail: Annotated[Any, about("What else is known of it.")] = None


class CancelIn(RequestBody):
    """Why a message is cancelled."""

    reason: Annotated[Prose | None, about("For its history.")] = None


class PriorityIn(RequestBody):
    """The new priority of a message that waits."""

    priority_tier: Annotated[Tier | None, about("How urgent it is now; null leaves it.")] = None
    priority_score: Annotated[_Score | None, about("Its new place within the tier; null leaves it.")] = None
