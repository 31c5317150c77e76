"""Scopes: queues that belong together, and the scopes whose messages they let in."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relevo.contract.events import EventName
from relevo.contract.fields import CreatedAt, CreatedBy, Prose, RequestBody, Slug, Title, UpdatedAt, about, one_of

QueueState = Literal["active", "paused", "draining", "archived"]
"""Of scopes and of queues."""

_Events = Annotated[list[EventName], Meta(max_length=50)]
_TO_QUEUE = about("Events that also become messages of the scope's `_events` queue.")
_TO_AUDIT = about("Whether audit entries of the scope also become messages of its `_audit` queue.")
_NAME = about("A name for people.")
_DESCRIPTION = about("What the scope is for.")


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A scope."""

    slug: Annotated[str, about("Its name in addresses.")]
    display_name: Annotated[str, _NAME]
    description: Annotated[str, _DESCRIPTION]
    state: Annotated[str, one_of(QueueState), about("Whether its queues take and give messages.")]
    events_to_queue: Annotated[list[str], _TO_QUEUE]
    audit_to_queue: Annotated[bool, _TO_AUDIT]
    created_at: CreatedAt
    updated_at: UpdatedAt


class ScopeIn(RequestBody):
    """A scope to make."""

    slug: Annotated[Slug, about("Its name in addresses. It cannot be changed later.")]
    display_name: Annotated[Title, _NAME] = ""
    description: Annotated[Prose, _DESCRIPTION] = ""
    events_to_queue: Annotated[_Events, _TO_QUEUE] = msgspec.field(default_factory=list[EventName])
    audit_to_queue: Annotated[bool, _TO_AUDIT] = False


class ScopeChange(RequestBody):
    """What to change of a scope; what is left out stays."""

    display_name: Annotated[Title | UnsetType, _NAME] = UNSET
    description: Annotated[Prose | UnsetType, _DESCRIPTION] = UNSET
    state: Annotated[
        QueueState | UnsetType,
        about("`active` takes and gives messages, `draining` only gives them, `paused` and `archived` do neither."),
    ] = UNSET
    events_to_queue: Annotated[_Events | UnsetType, _TO_QUEUE] = UNSET
    audit_to_queue: Annotated[bool | UnsetType, _TO_AUDIT] = UNSET


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of `trusted` may be routed into `scope`."""

    scope: Annotated[str, about("The scope that lets messages in.")]
    trusted: Annotated[str, about("The scope whose messages may come.")]
    created_by: CreatedBy
    created_at: CreatedAt
