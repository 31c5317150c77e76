"""`/v1/scopes/{scope}/dead-letters` and `…/replays`: what could not be done, and sending it back."""

from __future__ import annotations

import msgspec
from fastapi import Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import (
    LabelFilter,
    Paged,
    QueueFilter,
    ReplayKey,
    ScopeSlug,
    TextFilter,
    Within,
    labels_in,
)
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.dead_letters import DeadLetter, Replay, ReplayIn
from relevo.contract.fields import ms_of
from relevo.errors import WrongState
from relevo.work.dead_letters.listing import DeadLetterFilter
from relevo.work.dead_letters.replays import ReplayFilter

router = idempotency.router("/v1/scopes/{scope}", tag="dead letters")

_REPLAY = msgspec.json.Decoder(ReplayIn)


@router.get(
    "/dead-letters",
    summary="Dead letters of a scope, newest first",
    **describe("list_dead_letters", list[DeadLetter], paged=True),
)
async def list_dead_letters(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    paging: Paged,
    period: Within,
    queue: QueueFilter = None,
    reason: TextFilter = None,
    message_type: TextFilter = None,
    correlation_id: TextFilter = None,
    label: LabelFilter = None,
    text: TextFilter = None,
) -> Response:
    wanted = DeadLetterFilter(
        queue=queue,
        reason=reason,
        message_type=message_type,
        correlation_id=correlation_id,
        labels=labels_in(label),
        **period,
        text=text,
    )
    page = await work_queues.dead_letters.list(caller, scope, wanted, **paging)
    return page_answer(page, caller.request_id)


@router.post(
    "/replays",
    summary="Send dead letters back to their queues: filtered, throttled, in the background",
    **describe("start_replay", Replay, body=ReplayIn, body_optional=True, status=201),
)
async def start_replay(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _REPLAY, optional=True)
    asked = body.filter
    wanted = ReplayFilter(
        queue=asked.queue,
        reason=asked.reason,
        message_type=asked.message_type,
        correlation_id=asked.correlation_id,
        labels=dict(asked.labels),
        since=ms_of(asked.since),
        until=ms_of(asked.until),
        text=asked.text,
        ids=asked.ids,
        max_replays=body.max_replays,
    )
    replay = await work_queues.replays.start(caller, scope, wanted, rate_per_s=body.rate_per_s, dry_run=body.dry_run)
    return answer(replay, caller.request_id, 201)


@router.get("/replays", summary="List replays, newest first", **describe("list_replays", list[Replay], paged=True))
async def list_replays(caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged) -> Response:
    return page_answer(await work_queues.replays.list(caller, scope, **paging), caller.request_id)


@router.get("/replays/{replay_id}", summary="How far a replay is", **describe("get_replay", Replay))
async def get_replay(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, replay_id: ReplayKey
) -> Response:
    return answer(await work_queues.replays.get(caller, scope, replay_id), caller.request_id)


@router.post(
    "/replays/{replay_id}/cancel", summary="Stop a replay", **describe("cancel_replay", Replay, problems=[WrongState])
)
async def cancel_replay(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, replay_id: ReplayKey
) -> Response:
    return answer(await work_queues.replays.cancel(caller, scope, replay_id), caller.request_id)
