"""`/v1/scopes/{scope}/grants`: what keys may do here beyond what they say themselves; `/v1/keys/{key_id}`: rotation, limits."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import GrantKey, KeyKey, Paged, ScopeSlug
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.fields import ID
from relevo.contract.grants import Grant, GrantIn
from relevo.contract.keys import KeyLimits, KeyRotationIn, LimitsIn, NewKey
from relevo.errors import WrongState

router = idempotency.router(tag="access")


_GRANT = msgspec.json.Decoder(GrantIn)
_LIMITS = msgspec.json.Decoder(LimitsIn)
_ROTATION = msgspec.json.Decoder(KeyRotationIn)


@router.get("/v1/scopes/{scope}/grants", summary="List grants", **describe("list_grants", list[Grant], paged=True))
async def list_grants(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    paging: Paged,
    key_id: Annotated[str | None, Query(max_length=26, pattern=ID)] = None,
) -> Response:
    page = await work_queues.access.list(caller, scope, key_id=key_id, **paging)
    return page_answer(page, caller.request_id)


@router.post(
    "/v1/scopes/{scope}/grants",
    summary="Grant a key permissions here",
    **describe("create_grant", Grant, body=GrantIn, status=201),
)
async def create_grant(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _GRANT)
    made = await work_queues.access.grant(caller, scope, body.key_id, body.permissions, queue=body.queue)
    return answer(made, caller.request_id, 201)


@router.delete(
    "/v1/scopes/{scope}/grants/{grant_id}", summary="Take a grant back", **describe("revoke_grant", None, status=204)
)
async def revoke_grant(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    grant_id: GrantKey,
) -> Response:
    await work_queues.access.revoke(caller, scope, grant_id)
    return Response(status_code=204)


@router.post(
    "/v1/keys/{key_id}/rotate",
    summary="A new secret for a key; the old one works for a while longer",
    **describe("rotate_key", NewKey, body=KeyRotationIn, body_optional=True, problems=[WrongState]),
)
async def rotate_key(request: Request, caller: Authenticated, work_queues: ThisWorkQueues, key_id: KeyKey) -> Response:
    body = await body_of(request, _ROTATION, optional=True)
    return answer(await work_queues.keys.rotate(caller, key_id, grace_s=body.grace_s), caller.request_id)


@router.get("/v1/keys/{key_id}/limits", summary="The limits of a key", **describe("get_key_limits", KeyLimits))
async def get_limits(caller: Authenticated, work_queues: ThisWorkQueues, key_id: KeyKey) -> Response:
    return answer(await work_queues.access.limits(caller, key_id), caller.request_id)


@router.put(
    "/v1/keys/{key_id}/limits",
    summary="Set the limits of a key",
    **describe("set_key_limits", KeyLimits, body=LimitsIn),
)
async def set_limits(request: Request, caller: Authenticated, work_queues: ThisWorkQueues, key_id: KeyKey) -> Response:
    body = await body_of(request, _LIMITS)
    wanted = KeyLimits(**msgspec.structs.asdict(body))
    return answer(await work_queues.access.limit(caller, key_id, wanted), caller.request_id)
