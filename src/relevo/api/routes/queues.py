"""`/v1/scopes/{scope}/queues`: the queues of a scope, with how many messages they hold."""

from __future__ import annotations

import msgspec
from fastapi import Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged, QueueSlug, ScopeSlug
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.api.views import changes_in, queues_out, settings_in
from relevo.contract.queues import Queue, QueueChange, QueueIn
from relevo.errors import QueueNotEmpty, SlugTaken, SystemQueue
from relevo.work.queue_record import QueueRecord
from relevo.work.work_queues import WorkQueues

router = idempotency.router("/v1/scopes/{scope}/queues", tag="queues")

_NEW = msgspec.json.Decoder(QueueIn)
_CHANGE = msgspec.json.Decoder(QueueChange)


@router.get("", summary="List queues", **describe("list_queues", list[Queue], paged=True))
async def list_queues(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged) -> Response:
    page = await work_queues.queues.list(caller, scope, **paging)
    return page_answer(page, caller.request_id, await queues_out(work_queues, page.items))


@router.post(
    "", summary="Make a queue", **describe("create_queue", Queue, body=QueueIn, status=201, problems=[SlugTaken])
)
async def create_queue(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _NEW)
    record = await work_queues.queues.create(caller, scope, body.slug, settings_in(body))
    return await _shown(work_queues, record, caller.request_id, 201)


@router.get("/{queue}", summary="Read a queue", **describe("get_queue", Queue))
async def get_queue(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug) -> Response:
    caller.require("view")
    return await _shown(work_queues, await work_queues.queues.lookup(caller, scope, queue), caller.request_id)


@router.patch(
    "/{queue}",
    summary="Change, pause, drain or archive a queue",
    **describe("change_queue", Queue, body=QueueChange, problems=[SystemQueue]),
)
async def change_queue(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug
) -> Response:
    changes = changes_in(await body_of(request, _CHANGE))
    return await _shown(work_queues, await work_queues.queues.change(caller, scope, queue, changes), caller.request_id)


@router.delete(
    "/{queue}",
    summary="Delete an empty queue",
    **describe("delete_queue", None, status=204, problems=[QueueNotEmpty, SystemQueue]),
)
async def delete_queue(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug
) -> Response:
    await work_queues.queues.delete(caller, scope, queue)
    return Response(status_code=204)


async def _shown(work_queues: WorkQueues, record: QueueRecord, request_id: str, status: int = 200) -> Response:
    (shown,) = await queues_out(work_queues, [record])
    return answer(shown, request_id, status)
