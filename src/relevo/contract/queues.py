"""Queues: how messages are ordered, retried and limited, and how many there are."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relevo.contract.fields import (
    CreatedAt,
    Pause,
    Prose,
    RequestBody,
    Seconds,
    Slug,
    Title,
    UpdatedAt,
    about,
    one_of,
)
from relevo.contract.scopes import QueueState

Ordering = Literal["fifo", "priority", "deadline"]
ConsumerMode = Literal["competing", "broadcast"]
OverflowPolicy = Literal["reject", "drop_oldest", "dead_letter_oldest"]

_Visibility = Annotated[int, Meta(ge=1, le=43_200)]
_Retries = Annotated[int, Meta(ge=0, le=1000)]
_Multiplier = Annotated[float, Meta(ge=1, le=100)]
_Depth = Annotated[int, Meta(ge=1, le=10**12)]

_SLUG = about("Its name in addresses.")
_NAME = about("A name for people.")
_DESCRIPTION = about("What the queue is for.")
_ORDERING = about("Which message is claimed next: the oldest, the most urgent, or the one with the nearest deadline.")
_MODE = about("`competing`: each message goes to one worker. `broadcast`: each subscription gets every message.")
_VISIBILITY = about("Seconds that a claim lasts. After that the message goes to another worker.")
_RETRIES = about("How often a message that failed is tried again before it is a dead letter.")
_INITIAL = about("Seconds before the first retry.")
_MULTIPLIER = about("By what the pause grows with each retry.")
_CAP = about("The longest pause before a retry, in seconds.")
_JITTER = about("Up to so many seconds are added to each pause, at random.")
_RECLAIMS = about("How many claims may end without a word before the message is a dead letter.")
_MAX_DEPTH = about("The most messages that may wait; null for no limit.")
_OVERFLOW = about("What happens to a publish when `max_depth` is reached.")
_TTL = about("Seconds that a message may wait when it does not say so itself; null for ever.")
_EXPIRED = about("Whether expired messages become dead letters.")
_AGING = about("Whether a message that waits long may overtake those of a higher tier.")
_STATE = about("`active` takes and gives messages, `draining` only gives them, `paused` and `archived` do neither.")


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: its settings, its state, and how many messages it holds."""

    slug: Annotated[str, _SLUG]
    display_name: Annotated[str, _NAME]
    description: Annotated[str, _DESCRIPTION]
    system: Annotated[bool, about("Whether the scope has it by itself, as it has `_dead_letter`.")]
    ordering: Annotated[str, one_of(Ordering), _ORDERING]
    consumer_mode: Annotated[str, one_of(ConsumerMode), _MODE]
    visibility_timeout_s: Annotated[int, _VISIBILITY]
    max_retries: Annotated[int, _RETRIES]
    backoff_initial_s: Annotated[float, _INITIAL]
    backoff_multiplier: Annotated[float, _MULTIPLIER]
    backoff_cap_s: Annotated[float, _CAP]
    backoff_jitter_s: Annotated[float, _JITTER]
    max_reclaims: Annotated[int, _RECLAIMS]
    max_depth: Annotated[int | None, _MAX_DEPTH]
    overflow_policy: Annotated[str, one_of(OverflowPolicy), _OVERFLOW]
    default_ttl_s: Annotated[int | None, _TTL]
    dead_letter_expired: Annotated[bool, _EXPIRED]
    aging_crosses_tiers: Annotated[bool, _AGING]
    state: Annotated[str, one_of(QueueState), _STATE]
    created_at: CreatedAt
    updated_at: UpdatedAt
    depth_pending: Annotated[int, about("How many messages wait to be claimed.")]
    depth_delayed: Annotated[int, about("How many wait for their time.")]
    depth_claimed: Annotated[int, about("How many are being worked on.")]
    depth_in_review: Annotated[int, about("How many wait for a person's decision.")]
    depth_dead: Annotated[int, about("How many are dead letters.")]


class QueueIn(RequestBody):
    """A queue to make."""

    slug: Annotated[Slug, about("Its name in addresses. It cannot be changed later.")]
    display_name: Annotated[Title, _NAME] = ""
    description: Annotated[Prose, _DESCRIPTION] = ""
    ordering: Annotated[Ordering, _ORDERING] = "fifo"
    consumer_mode: Annotated[ConsumerMode, _MODE] = "competing"
    visibility_timeout_s: Annotated[_Visibility, _VISIBILITY] = 30
    max_retries: Annotated[_Retries, _RETRIES] = 5
    backoff_initial_s: Annotated[Pause, _INITIAL] = 1.0
    backoff_multiplier: Annotated[_Multiplier, _MULTIPLIER] = 2.0
    backoff_cap_s: Annotated[Pause, _CAP] = 300.0
    backoff_jitter_s: Annotated[Pause, _JITTER] = 0.25
    max_reclaims: Annotated[_Retries, _RECLAIMS] = 3
    max_depth: Annotated[_Depth | None, _MAX_DEPTH] = None
    overflow_policy: Annotated[OverflowPolicy, _OVERFLOW] = "reject"
    default_ttl_s: Annotated[Seconds | None, _TTL] = None
    dead_letter_expired: Annotated[bool, _EXPIRED] = False
    aging_crosses_tiers: Annotated[bool, _AGING] = False


class QueueChange(RequestBody):
    """What to change of a queue; what is left out stays. Its ordering and consumer_mode are for life."""

    display_name: Annotated[Title | UnsetType, _NAME] = UNSET
    description: Annotated[Prose | UnsetType, _DESCRIPTION] = UNSET
    state: Annotated[QueueState | UnsetType, _STATE] = UNSET
    visibility_timeout_s: Annotated[_Visibility | UnsetType, _VISIBILITY] = UNSET
    max_retries: Annotated[_Retries | UnsetType, _RETRIES] = UNSET
    backoff_initial_s: Annotated[Pause | UnsetType, _INITIAL] = UNSET
    backoff_multiplier: Annotated[_Multiplier | UnsetType, _MULTIPLIER] = UNSET
    backoff_cap_s: Annotated[Pause | UnsetType, _CAP] = UNSET
    backoff_jitter_s: Annotated[Pause | UnsetType, _JITTER] = UNSET
    max_reclaims: Annotated[_Retries | UnsetType, _RECLAIMS] = UNSET
    max_depth: Annotated[_Depth | UnsetType | None, _MAX_DEPTH] = UNSET
    overflow_policy: Annotated[OverflowPolicy | UnsetType, _OVERFLOW] = UNSET
    default_ttl_s: Annotated[Seconds | UnsetType | None, _TTL] = UNSET
    dead_letter_expired: Annotated[bool | UnsetType, _EXPIRED] = UNSET
    aging_crosses_tiers: Annotated[bool | UnsetType, _AGING] = UNSET
