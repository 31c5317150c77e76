"""`/v1/scopes/{scope}/trusts`: the scopes whose messages may be routed into this one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged, ScopeSlug
from relevo.api.responses import answer, page_answer
from relevo.contract.scopes import Trust

router = idempotency.router("/v1/scopes/{scope}/trusts", tag="scopes")

Trusted = Annotated[str, Path(max_length=63, description="slug of the scope that is let in")]


@router.get("", summary="Whom a scope lets in", **describe("list_trusts", list[Trust], paged=True))
async def list_trusts(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged) -> Response:
    return page_answer(await work_queues.trusts.list(caller, scope, **paging), caller.request_id)


@router.put("/{trusted}", summary="Let messages of another scope in", **describe("grant_trust", Trust))
async def grant_trust(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, trusted: Trusted
) -> Response:
    return answer(await work_queues.trusts.grant(caller, scope, trusted), caller.request_id)


@router.delete("/{trusted}", summary="No longer let them in", **describe("revoke_trust", None, status=204))
async def revoke_trust(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, trusted: Trusted
) -> Response:
    await work_queues.trusts.revoke(caller, scope, trusted)
    return Response(status_code=204)
