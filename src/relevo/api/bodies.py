"""What callers send, as types: decoded and checked in one go by msgspec, and shown in the OpenAPI document as they are."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from relevo.work.caller import Permission
from relevo.work.failure import Failure
from relevo.work.message import NewMessage, Tier
from relevo.work.outbox import EventName
from relevo.work.queues import ConsumerMode, Ordering, OverflowPolicy, QueueState
from relevo.work.tenants import SLUG

_PLAIN = r"^[^\x00-\x1f\x7f]*$"
_LONGEST_S = 315_360_000  # ten years
_LAST_MS = 253_402_300_799_999  # the year 9999

Slug = Annotated[str, Meta(pattern=SLUG, max_length=63)]
AnyQueue = Annotated[str, Meta(pattern=r"^_?[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$", max_length=63)]
Title = Annotated[str, Meta(max_length=200, pattern=_PLAIN)]
Prose = Annotated[str, Meta(max_length=10_000, pattern=r"^[^\x00]*$")]
Word = Annotated[str, Meta(min_length=1, max_length=200, pattern=_PLAIN)]
ShortWord = Annotated[str, Meta(min_length=1, max_length=100, pattern=_PLAIN)]
MessageId = Annotated[str, Meta(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$", min_length=26, max_length=26)]
Token = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_-]{1,40}$", min_length=1, max_length=40)]
Seconds = Annotated[int, Meta(ge=1, le=_LONGEST_S)]
Moment = (
    Annotated[int, Meta(ge=0, le=_LAST_MS, description="milliseconds since 1970")]
    | Annotated[datetime, Meta(tz=True, description="RFC 3339")]
)
MaybeMoment = Moment | None
Labels = Annotated[dict[ShortWord, Annotated[str, Meta(max_length=200, pattern=_PLAIN)]], Meta(max_length=50)]
Depth = Annotated[int, Meta(ge=1, le=10**12)]
Milliseconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
VersionNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]


def ms_of(moment: int | datetime | None) -> int | None:
    """A moment as whole milliseconds since 1970."""
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment


class _Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An object whose fields are all known here: one that is not, is an error and no wish."""


# --- scopes and queues -----------------------------------------------------------------------------------------------------


class ScopeIn(_Body):
    """A scope to make."""

    slug: Slug
    display_name: Title = ""
    description: Prose = ""
    events_to_queue: Annotated[list[EventName], Meta(max_length=50)] = []
    """Events that also become messages of the scope's `_events` queue."""
    audit_to_queue: bool = False
    """Whether audit entries of the scope also become messages of its `_audit` queue."""


class ScopeChange(_Body):
    """What to change of a scope; what is left out stays."""

    display_name: Title | UnsetType = UNSET
    description: Prose | UnsetType = UNSET
    state: QueueState | UnsetType = UNSET
    events_to_queue: Annotated[list[EventName], Meta(max_length=50)] | UnsetType = UNSET
    audit_to_queue: bool | UnsetType = UNSET


_Visibility = Annotated[int, Meta(ge=1, le=43_200)]
_Retries = Annotated[int, Meta(ge=0, le=1000)]
_Multiplier = Annotated[float, Meta(ge=1, le=100)]


class QueueIn(_Body):
    """A queue to make."""

    slug: Slug
    display_name: Title = ""
    description: Prose = ""
    ordering: Ordering = "fifo"
    consumer_mode: ConsumerMode = "competing"
    visibility_timeout_s: _Visibility = 30
    max_retries: _Retries = 5
    backoff_initial_ms: Milliseconds = 1000
    backoff_multiplier: _Multiplier = 2.0
    backoff_cap_ms: Milliseconds = 300_000
    backoff_jitter_ms: Milliseconds = 250
    max_reclaims: _Retries = 3
    max_depth: Depth | None = None
    overflow_policy: OverflowPolicy = "reject"
    default_ttl_s: Seconds | None = None
    dead_letter_expired: bool = False
    aging_crosses_tiers: bool = False


class QueueChange(_Body):
    """What to change of a queue; what is left out stays. Its ordering and consumer_mode are for life."""

    display_name: Title | UnsetType = UNSET
    description: Prose | UnsetType = UNSET
    state: QueueState | UnsetType = UNSET
    visibility_timeout_s: _Visibility | UnsetType = UNSET
    max_retries: _Retries | UnsetType = UNSET
    backoff_initial_ms: Milliseconds | UnsetType = UNSET
    backoff_multiplier: _Multiplier | UnsetType = UNSET
    backoff_cap_ms: Milliseconds | UnsetType = UNSET
    backoff_jitter_ms: Milliseconds | UnsetType = UNSET
    max_reclaims: _Retries | UnsetType = UNSET
    max_depth: Depth | UnsetType | None = UNSET
    overflow_policy: OverflowPolicy | UnsetType = UNSET
    default_ttl_s: Seconds | UnsetType | None = UNSET
    dead_letter_expired: bool | UnsetType = UNSET
    aging_crosses_tiers: bool | UnsetType = UNSET


def changes_in(body: ScopeChange | QueueChange) -> dict[str, Any]:
    """The fields that were sent."""
    return {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}


# --- messages --------------------------------------------------------------------------------------------------------------


class MessageIn(NewMessage, kw_only=True, forbid_unknown_fields=True):
    """A message to publish. `body` is any JSON value and comes back byte for byte."""

    # The same fields as a NewMessage, with the limits of HTTP; moments may also be RFC 3339 until `in_numbers`.
    message_type: Word = "message"
    priority_tier: Tier = "normal"
    priority_score: Annotated[int, Meta(ge=0, le=999)] = 0
    labels: Labels = msgspec.field(default_factory=dict[str, str])
    content_type: ShortWord = "application/json"
    ttl_seconds: Seconds | None = None
    deadline: MaybeMoment = None
    delay_seconds: Annotated[float, Meta(ge=0, le=_LONGEST_S)] | None = None
    visible_at: MaybeMoment = None
    idempotency_key: Word | None = None
    correlation_id: Word | None = None
    causation_id: Word | None = None
    parent_id: MessageId | None = None
    source_type: ShortWord | None = None
    source_id: Word | None = None
    hitl_spec: Raw = msgspec.field(default_factory=Raw)

    def in_numbers(self) -> NewMessage:
        """Itself, with moments in milliseconds."""
        if isinstance(self.deadline, datetime):
            self.deadline = ms_of(self.deadline)  # pyright: ignore[reportIncompatibleVariableOverride]
        if isinstance(self.visible_at, datetime):
            self.visible_at = ms_of(self.visible_at)  # pyright: ignore[reportIncompatibleVariableOverride]
        return self


class BatchIn(_Body):
    """Messages to publish in one transaction; each has its own outcome."""

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=1000)]


class ClaimIn(_Body):
    """What a worker asks for."""

    batch_size: Annotated[int, Meta(ge=1, le=1000)] = 1
    wait_s: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """How long to wait for the first message."""
    consumer: Word | None = None
    labels: Labels | None = None
    subscription: Slug | None = None
    """Of a broadcast queue: as whom."""


class CompleteIn(_Body):
    """Finishes a message; `result` is any JSON value."""

    claim_token: Token
    result: Raw = msgspec.field(default_factory=Raw)
    subscription: Slug | None = None


class FailIn(_Body):
    """Gives a message back as failed, with the `error` as the worker met it, a `reason` in its own words, or both. `dead`: no
    more tries."""

    claim_token: Token
    reason: Prose | None = None
    error: Failure | None = None
    dead: bool = False
    subscription: Slug | None = None


class ReleaseIn(_Body):
    """Gives a message back untouched: this attempt does not count."""

    claim_token: Token
    subscription: Slug | None = None


class ExtendIn(_Body):
    """Keeps a message for longer, counted from now; without `seconds` for the queue's visibility timeout."""

    claim_token: Token
    seconds: Annotated[float, Meta(ge=1, le=43_200)] | None = None
    subscription: Slug | None = None


class CompleteItem(CompleteIn, kw_only=True):
    """One of many to complete."""

    id: MessageId


class FailItem(FailIn, kw_only=True):
    """One of many to fail."""

    id: MessageId


class ReleaseItem(ReleaseIn, kw_only=True):
    """One of many to release."""

    id: MessageId


class ExtendItem(ExtendIn, kw_only=True):
    """One of many to extend."""

    id: MessageId


class CompleteBatch(_Body):
    """Messages to complete; each has its own outcome."""

    items: Annotated[list[CompleteItem], Meta(min_length=1, max_length=1000)]


class FailBatch(_Body):
    """Messages to fail; each has its own outcome."""

    items: Annotated[list[FailItem], Meta(min_length=1, max_length=1000)]


class ReleaseBatch(_Body):
    """Messages to release; each has its own outcome."""

    items: Annotated[list[ReleaseItem], Meta(min_length=1, max_length=1000)]


class ExtendBatch(_Body):
    """Messages to extend; each has its own outcome."""

    items: Annotated[list[ExtendItem], Meta(min_length=1, max_length=1000)]


class CancelIn(_Body):
    """Why a message is cancelled."""

    reason: Prose | None = None


class PriorityIn(_Body):
    """The new priority of a message that waits."""

    priority_tier: Tier | None = None
    priority_score: Annotated[int, Meta(ge=0, le=999)] | None = None


# --- the rest --------------------------------------------------------------------------------------------------------------


class ReplayFilterIn(_Body):
    """Which dead letters: all of the given."""

    queue: Slug | None = None
    """The queue they came from."""
    reason: Word | None = None
    """Part of the reason."""
    message_type: Word | None = None
    correlation_id: Word | None = None
    labels: Labels = {}
    since: Moment | None = None
    until: Moment | None = None
    """When they died."""
    text: Word | None = None
    """Part of the body, as it was sent."""
    ids: Annotated[list[MessageId], Meta(min_length=1, max_length=1000)] | None = None


class ReplayIn(_Body):
    """A replay of dead letters to ask for."""

    filter: ReplayFilterIn = msgspec.field(default_factory=ReplayFilterIn)
    rate_per_s: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    max_replays: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Messages that were replayed this often already stay where they are."""
    dry_run: bool = False
    """Only count them."""


class SubscriptionIn(_Body):
    """A subscription to a broadcast queue."""

    name: Slug
    after: MessageId | Annotated[int, Meta(ge=0, le=_LAST_MS)] | None = None
    """Messages after this one, or after this moment (milliseconds since 1970), are seen; none: those from now on."""


class KeyIn(_Body):
    """An API key to make."""

    name: Word
    permissions: Annotated[list[Permission], Meta(min_length=1, max_length=6)]
    """`operate` reaches the agents of the installation; only a key that has it can give it."""
    scopes: Annotated[list[Slug], Meta(min_length=1, max_length=100)] | None = None
    queues: Annotated[list[AnyQueue], Meta(min_length=1, max_length=100)] | None = None
    expires_at: Moment | None = None
