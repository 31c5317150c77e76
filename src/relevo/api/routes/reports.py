"""`/v1/usage`, `/v1/audit` and `/v1/trace`: what was done, counted and told."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from fastapi import Query, Response
from starlette.responses import StreamingResponse

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import (
    DayFilter,
    Paged,
    QueueFilter,
    ScopeFilter,
    TextFilter,
    Within,
)
from relevo.api.responses import answer, page_answer
from relevo.contract.audit import AuditEntry, Trace, UsageRow
from relevo.contract.fields import PLAIN
from relevo.work.audit.entries import AuditFilter, ExportedEntry

router = idempotency.router("/v1", tag="reports")


@router.get("/usage", summary="What each queue did on each day", **describe("list_usage", list[UsageRow], paged=True))
async def usage(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    paging: Paged,
    since: DayFilter = None,
    until: DayFilter = None,
    scope: ScopeFilter = None,
) -> Response:
    page = await work_queues.usage.list(caller, since=since, until=until, scope=scope, **paging)
    return page_answer(page, caller.request_id)


@router.get(
    "/audit", summary="Who changed what; newest first", **describe("list_audit_entries", list[AuditEntry], paged=True)
)
async def audit(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    paging: Paged,
    period: Within,
    scope: ScopeFilter = None,
    queue: QueueFilter = None,
    actor: TextFilter = None,
    action: TextFilter = None,
    target: TextFilter = None,
    request_id: TextFilter = None,
    correlation_id: TextFilter = None,
) -> Response:
    wanted = AuditFilter(
        scope=scope,
        queue=queue,
        actor=actor,
        action=action,
        target=target,
        request_id=request_id,
        correlation_id=correlation_id,
        **period,
    )
    page = await work_queues.audit.list(caller, wanted, **paging)
    return page_answer(page, caller.request_id)


LINES = "application/x-ndjson"
_exporting: dict[str, Any] = describe("export_audit", None)
_exporting["responses"][200] = {"description": "one JSON object a line", "content": {LINES: {}}}


@router.get("/audit/export", summary="The audit as JSON lines, oldest first, with its hashes", **_exporting)
async def export_audit(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    period: Within,
    scope: ScopeFilter = None,
    after: Annotated[int, Query(ge=0, lt=2**63, description="the `id` of the last line there is already")] = 0,
) -> Response:
    wanted = AuditFilter(scope=scope, **period)
    caller.require("view")  # here: once the answer has begun it is too late to refuse
    lines = _lines(work_queues.audit.export(caller, wanted, after=after))
    return StreamingResponse(lines, media_type=LINES, headers={"cache-control": "no-store"})


async def _lines(pages: AsyncGenerator[list[ExportedEntry]]) -> AsyncGenerator[bytes]:
    encoder = msgspec.json.Encoder()
    async for page in pages:
        yield encoder.encode_lines(page)


@router.get(
    "/trace", summary="All that happened under one correlation id, oldest first", **describe("get_trace", Trace)
)
async def trace(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    correlation_id: Annotated[str, Query(min_length=1, max_length=200, pattern=PLAIN)],
    scope: ScopeFilter = None,
) -> Response:
    return answer(await work_queues.traces.of(caller, correlation_id, scope=scope), caller.request_id)
