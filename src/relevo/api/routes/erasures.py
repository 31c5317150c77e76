"""`/v1/scopes/{scope}/erasures`: what messages of a data subject say is erased, and that it was."""

from __future__ import annotations

import msgspec
from fastapi import Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import ErasureKey, Paged, ScopeSlug
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.erasures import Erasure, ErasureIn

router = idempotency.router("/v1/scopes/{scope}/erasures", tag="erasures")


_NEW = msgspec.json.Decoder(ErasureIn)


@router.post(
    "",
    summary="Erase what messages labelled `subject=…` say; large ones go on in the background",
    **describe("start_erasure", Erasure, body=ErasureIn, status=202),
)
async def start_erasure(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _NEW)
    return answer(await work_queues.erasures.start(caller, scope, body.subject), caller.request_id, 202)


@router.get(
    "",
    summary="List erasures; whom they were about is not known any more",
    **describe("list_erasures", list[Erasure], paged=True),
)
async def list_erasures(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged
) -> Response:
    return page_answer(await work_queues.erasures.list(caller, scope, **paging), caller.request_id)


@router.get("/{erasure_id}", summary="How far an erasure is", **describe("get_erasure", Erasure))
async def get_erasure(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    erasure_id: ErasureKey,
) -> Response:
    return answer(await work_queues.erasures.get(caller, scope, erasure_id), caller.request_id)
