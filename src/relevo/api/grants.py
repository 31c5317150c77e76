"""`/v1/scopes/{scope}/grants`: what keys may do here beyond what they say themselves; `/v1/keys/{key_id}`: rotation, limits."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Cursor, Limit, ScopeSlug, require_id
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.grants import Grant, GrantIn
from relevo.contract.keys import KeyLimits, KeyRotationIn, LimitsIn, NewKey
from relevo.errors import WrongState

router = APIRouter(tags=["access"])

KeyId = Annotated[str, Path(description="id of the key", max_length=100)]


_GRANT = msgspec.json.Decoder(GrantIn)
_LIMITS = msgspec.json.Decoder(LimitsIn)
_ROTATION = msgspec.json.Decoder(KeyRotationIn)


@router.get("/v1/scopes/{scope}/grants", summary="List grants", **describe("list_grants", list[Grant], paged=True))
async def list_grants(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    key_id: Annotated[str | None, Query(max_length=26, pattern=r"^[0-9A-Z]{26}$")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    page = await work_queues.access.list(caller, scope, key_id=key_id, limit=limit, cursor=cursor)
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
    grant_id: Annotated[str, Path(description="id of the grant", max_length=100)],
) -> Response:
    await work_queues.access.revoke(caller, scope, require_id(grant_id, "grant"))
    return Response(status_code=204)


@router.post(
    "/v1/keys/{key_id}/rotate",
    summary="A new secret for a key; the old one works for a while longer",
    **describe("rotate_key", NewKey, body=KeyRotationIn, body_optional=True, problems=[WrongState]),
)
async def rotate_key(request: Request, caller: Authenticated, work_queues: ThisWorkQueues, key_id: KeyId) -> Response:
    body = await body_of(request, _ROTATION, optional=True)
    return answer(
        await work_queues.keys.rotate(caller, require_id(key_id, "key"), grace_s=body.grace_s), caller.request_id
    )


@router.get("/v1/keys/{key_id}/limits", summary="The limits of a key", **describe("get_key_limits", KeyLimits))
async def get_limits(caller: Authenticated, work_queues: ThisWorkQueues, key_id: KeyId) -> Response:
    return answer(await work_queues.access.limits(caller, require_id(key_id, "key")), caller.request_id)


@router.put(
    "/v1/keys/{key_id}/limits",
    summary="Set the limits of a key",
    **describe("set_key_limits", KeyLimits, body=LimitsIn),
)
async def set_limits(request: Request, caller: Authenticated, work_queues: ThisWorkQueues, key_id: KeyId) -> Response:
    body = await body_of(request, _LIMITS)
    wanted = KeyLimits(**msgspec.structs.asdict(body))
    return answer(await work_queues.access.limit(caller, require_id(key_id, "key"), wanted), caller.request_id)
