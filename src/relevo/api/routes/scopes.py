"""`/v1/scopes`: a tenant's scopes."""

from __future__ import annotations

import msgspec
from fastapi import Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged, ScopeSlug
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.api.views import changes_in, scope_out
from relevo.contract.scopes import Scope, ScopeChange, ScopeIn
from relevo.errors import QueueNotEmpty, SlugTaken

router = idempotency.router("/v1/scopes", tag="scopes")

_NEW = msgspec.json.Decoder(ScopeIn)
_CHANGE = msgspec.json.Decoder(ScopeChange)


@router.get("", summary="List scopes", **describe("list_scopes", list[Scope], paged=True))
async def list_scopes(caller: Authenticated, work_queues: ThisWorkQueues, paging: Paged) -> Response:
    page = await work_queues.scopes.list(caller, **paging)
    return page_answer(page, caller.request_id, [scope_out(scope) for scope in page.items])


@router.post(
    "",
    summary="Make a scope and its system queues",
    **describe("create_scope", Scope, body=ScopeIn, status=201, problems=[SlugTaken]),
)
async def create_scope(request: Request, caller: Authenticated, work_queues: ThisWorkQueues) -> Response:
    body = await body_of(request, _NEW)
    scope = await work_queues.scopes.create(
        caller,
        body.slug,
        display_name=body.display_name,
        description=body.description,
        events_to_queue=list(body.events_to_queue),
        audit_to_queue=body.audit_to_queue,
    )
    return answer(scope_out(scope), caller.request_id, 201)


@router.get("/{scope}", summary="Read a scope", **describe("get_scope", Scope))
async def get_scope(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug) -> Response:
    caller.require("view")
    return answer(scope_out(await work_queues.scopes.get(caller, scope)), caller.request_id)


@router.patch(
    "/{scope}", summary="Change, pause or archive a scope", **describe("change_scope", Scope, body=ScopeChange)
)
async def change_scope(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    changes = changes_in(await body_of(request, _CHANGE))
    return answer(scope_out(await work_queues.scopes.change(caller, scope, changes)), caller.request_id)


@router.delete(
    "/{scope}", summary="Delete an empty scope", **describe("delete_scope", None, status=204, problems=[QueueNotEmpty])
)
async def delete_scope(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug) -> Response:
    await work_queues.scopes.delete(caller, scope)
    return Response(status_code=204)
