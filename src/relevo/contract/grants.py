"""Grants: what a key may do in one scope or queue beyond what it says itself."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from relevo.contract.fields import AnyQueue, CreatedAt, MessageId, RequestBody, about, one_of
from relevo.contract.keys import Permission, TenantPermission


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Permissions of one key in a scope, or in one queue of it."""

    id: Annotated[str, about("The id of the grant.")]
    key_id: Annotated[str, about("The key it is for.")]
    scope: Annotated[str, about("Where it holds.")]
    queue: Annotated[str | None, about("Only in this queue; null for the whole scope.")]
    permissions: Annotated[list[Annotated[str, one_of(Permission)]], about("What the key may do there.")]
    created_by: Annotated[str, about("Who gave it: `key:<id>`, or `cli`.")]
    created_at: CreatedAt


class GrantIn(RequestBody):
    """Permissions for a key in this scope, or in one queue of it."""

    key_id: Annotated[MessageId, about("The key it is for.")]
    permissions: Annotated[list[TenantPermission], Meta(min_length=1, max_length=5), about("What the key may do here.")]
    queue: Annotated[AnyQueue | None, about("Only in this queue; null for the whole scope.")] = None
