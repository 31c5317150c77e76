"""`/v1/usage` and `/v1/audit`: what was done, counted and told."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from relevo.api.answers import answer, page_answer
from relevo.api.auth import Authenticated
from relevo.api.document import describe
from relevo.api.questions import Cursor, DayFilter, Limit, MomentFilter, QueueFilter, ScopeFilter, TextFilter, moment_ms
from relevo.work.audit import AuditEntry, AuditFilter
from relevo.work.office import Office
from relevo.work.usage import UsageRow

router = APIRouter(prefix="/v1", tags=["reports"])


@router.get("/usage", summary="What each queue did on each day", **describe(list[UsageRow]))
async def usage(
    request: Request, caller: Authenticated, since: DayFilter = None, until: DayFilter = None, scope: ScopeFilter = None
) -> Response:
    office: Office = request.app.state.office
    rows = await office.usage.list(caller, since=since, until=until, scope=scope)
    return answer(rows, caller.request_id)


@router.get("/audit", summary="Who changed what; newest first", **describe(list[AuditEntry], paged=True))
async def audit(
    request: Request,
    caller: Authenticated,
    scope: ScopeFilter = None,
    queue: QueueFilter = None,
    actor: TextFilter = None,
    action: TextFilter = None,
    target: TextFilter = None,
    request_id: TextFilter = None,
    correlation_id: TextFilter = None,
    since: MomentFilter = None,
    until: MomentFilter = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    office: Office = request.app.state.office
    wanted = AuditFilter(
        scope=scope, queue=queue, actor=actor, action=action, target=target, request_id=request_id,
        correlation_id=correlation_id, since=moment_ms(since, "since"), until=moment_ms(until, "until"),
    )  # fmt: skip
    page = await office.audit.list(caller, wanted, limit=limit, cursor=cursor)
    return page_answer(page, caller.request_id)
