"""Subscriptions of a broadcast queue: each gets every message."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from relevo.contract.fields import LAST_MS, CreatedAt, MessageId, RequestBody, Slug, about


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A named consumer of a broadcast queue, and how many messages it has in each state."""

    name: Annotated[str, about("Its name: claims say it.")]
    from_id: Annotated[str, about("It sees the messages after this id.")]
    created_at: CreatedAt
    pending: Annotated[int, about("How many wait to be claimed.")]
    delayed: Annotated[int, about("How many wait for their next try.")]
    claimed: Annotated[int, about("How many are being worked on.")]


class SubscriptionIn(RequestBody):
    """A subscription to a broadcast queue."""

    name: Annotated[Slug, about("Its name: claims say it.")]
    after: Annotated[
        MessageId | Annotated[int, Meta(ge=0, le=LAST_MS)] | None,
        about("It sees the messages after this id, or after this moment; null for those from now on."),
    ] = None
