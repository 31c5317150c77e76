"""Webhooks: events sent to an address, signed; and the log of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relevo.contract.events import EventName
from relevo.contract.fields import CreatedAt, RequestBody, UpdatedAt, about, one_of

WebhookState = Literal["active", "disabled"]
DeliveryState = Literal["waiting", "delivered", "failed"]
LONGEST_OVERLAP_S = 30 * 86_400

_Url = Annotated[str, Meta(min_length=8, max_length=2_000, pattern=r"^[^\x00-\x20\x7f]+$")]
_Events = Annotated[list[EventName], Meta(max_length=50)]
_URL = about("Where events are sent.")
_EVENTS = about("Which events are sent; empty for all.")
_STATE = about("Whether events are sent.")


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, without its secrets."""

    id: Annotated[str, about("The id of the webhook.")]
    url: Annotated[str, _URL]
    events: Annotated[list[str], _EVENTS]
    state: Annotated[str, one_of(WebhookState), _STATE]
    secrets: Annotated[int, about("How many secrets sign: two while one takes over from the other.")]
    failures_in_a_row: Annotated[int, about("How many deliveries have failed since the last that went well.")]
    disabled_reason: Annotated[str | None, about("Why it was switched off.")]
    created_at: CreatedAt
    updated_at: UpdatedAt


class NewSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with a secret just made."""

    webhook: Annotated[Webhook, about("The webhook as it is listed.")]
    secret: Annotated[str, about("What signs its events, shown this once: empty when the answer is given again.")]


class WebhookIn(RequestBody):
    """A webhook to make."""

    url: Annotated[_Url, _URL]
    events: Annotated[_Events, _EVENTS] = msgspec.field(default_factory=list[EventName])


class WebhookChange(RequestBody):
    """What to change of a webhook; what is left out stays."""

    url: Annotated[_Url | UnsetType, _URL] = UNSET
    events: Annotated[_Events | UnsetType, _EVENTS] = UNSET
    state: Annotated[WebhookState | UnsetType, _STATE] = UNSET


class RotationIn(RequestBody):
    """How a webhook gets a new secret."""

    overlap_s: Annotated[
        int, Meta(ge=0, le=LONGEST_OVERLAP_S), about("Seconds that the old secret signs beside the new one.")
    ] = 86_400


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a webhook's log: what was sent, how often it was tried, and how the last attempt went."""

    id: Annotated[str, about("The id of the delivery.")]
    webhook_id: Annotated[str, about("The webhook.")]
    event: Annotated[str, about("Which event.")]
    message_id: Annotated[str, about("The message it happened to.")]
    payload: Annotated[Any, about("What was sent.")]
    state: Annotated[str, one_of(DeliveryState), about("Whether it arrived.")]
    attempts: Annotated[int, about("How often it was tried.")]
    last_status: Annotated[int | None, about("The HTTP status of the last answer.")]
    last_error: Annotated[str | None, about("Why the last attempt failed.")]
    next_at: Annotated[int | None, about("When it is tried again.")]
    created_at: CreatedAt
    updated_at: UpdatedAt
