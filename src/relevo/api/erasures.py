"""`/v1/scopes/{scope}/erasures`: what messages of a data subject say is erased, and that it was."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response

from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Cursor, Limit, ScopeSlug, require_id
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.erasures import Erasure, ErasureIn

router = APIRouter(prefix="/v1/scopes/{scope}/erasures", tags=["erasures"])


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
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    return page_answer(await work_queues.erasures.list(caller, scope, limit=limit, cursor=cursor), caller.request_id)


@router.get("/{erasure_id}", summary="How far an erasure is", **describe("get_erasure", Erasure))
async def get_erasure(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    erasure_id: Annotated[str, Path(description="id of the erasure", max_length=100)],
) -> Response:
    return answer(await work_queues.erasures.get(caller, scope, require_id(erasure_id, "erasure")), caller.request_id)
