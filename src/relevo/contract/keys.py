"""API keys of a tenant: what they may do, where, and how often."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from relevo.contract.fields import AnyQueue, CreatedAt, Moment, RequestBody, Slug, Word, about, one_of

TenantPermission = Literal["view", "publish", "consume", "review", "manage"]
Permission = Literal[TenantPermission, "operate"]

_Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]

_RATE = about("Requests a second; null for no limit of its own.")
_BURST = about("Requests at once; by default those of one second.")
_BODY = about("The largest body of a request, in bytes.")
_PEOPLE = about("Whether its requests may name the person they are made for, in the header `Relevo-Person`.")
_SCOPES = about("The scopes it can see; null for all.")
_QUEUES = about("The queues it can see in them; null for all.")


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key, without its secret."""

    id: Annotated[str, about("The id of the key.")]
    name: Annotated[str, about("Its name; its owner holds and decides reviews under it.")]
    hint: Annotated[str, about("The last characters of the secret.")]
    permissions: Annotated[list[Annotated[str, one_of(Permission)]], about("What it may do.")]
    scopes: Annotated[list[str] | None, _SCOPES]
    queues: Annotated[list[str] | None, _QUEUES]
    created_at: CreatedAt
    expires_at: Annotated[int | None, about("When it stops working; null for never.")]
    revoked_at: Annotated[int | None, about("When it was revoked.")]
    last_used_at: Annotated[int | None, about("When it was last used, to some seconds.")]


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key just made."""

    key: Annotated[ApiKey, about("The key as it is listed.")]
    secret: Annotated[str, about("The whole key, shown this once: empty when the answer is given again.")]


class KeyIn(RequestBody):
    """An API key to make."""

    name: Annotated[Word, about("For whom or what it is.")]
    permissions: Annotated[
        list[Permission],
        Meta(min_length=1, max_length=6),
        about("What it may do. `operate` reaches the agents of the installation; only a key that has it can give it."),
    ]
    scopes: Annotated[Annotated[list[Slug], Meta(min_length=1, max_length=100)] | None, _SCOPES] = None
    queues: Annotated[Annotated[list[AnyQueue], Meta(min_length=1, max_length=100)] | None, _QUEUES] = None
    expires_at: Annotated[Moment | None, about("When it stops working; null for never.")] = None


class KeyRotationIn(RequestBody):
    """How a key gets a new secret."""

    grace_s: Annotated[
        int, Meta(ge=0, le=30 * 86_400), about("Seconds that the old secret works beside the new one.")
    ] = 86_400


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a key may ask for; null for no limit beside the installation's own."""

    requests_per_s: Annotated[int | None, _RATE] = None
    burst: Annotated[int | None, _BURST] = None
    max_body_bytes: Annotated[int | None, _BODY] = None
    acts_for_people: Annotated[bool, _PEOPLE] = False


class LimitsIn(RequestBody):
    """All limits of a key; what is left out is not limited."""

    requests_per_s: Annotated[_Count | None, _RATE] = None
    burst: Annotated[_Count | None, _BURST] = None
    max_body_bytes: Annotated[_Count | None, _BODY] = None
    acts_for_people: Annotated[bool, _PEOPLE] = False
