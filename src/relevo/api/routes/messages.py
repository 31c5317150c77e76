"""`/v1/scopes/{scope}/messages`: look for messages, read one and its history, cancel it, change its priority."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import (
    LabelFilter,
    MessageKey,
    Paged,
    QueueFilter,
    ScopeSlug,
    TextFilter,
    Within,
    labels_in,
)
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.messages import CancelIn, Message, PriorityIn, State, Step
from relevo.errors import WrongState
from relevo.work.reading.message_filter import MessageFilter
from relevo.work.work_queues import WorkQueues

router = idempotency.router("/v1/scopes/{scope}/messages", tag="messages")

_CANCEL = msgspec.json.Decoder(CancelIn)
_PRIORITY = msgspec.json.Decoder(PriorityIn)


@router.get(
    "",
    summary="Look for messages, also archived ones; newest first",
    **describe("search_messages", list[Message], paged=True),
)
async def search_messages(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    paging: Paged,
    period: Within,
    queue: QueueFilter = None,
    state: State | None = None,
    message_type: TextFilter = None,
    correlation_id: TextFilter = None,
    parent_id: TextFilter = None,
    source_id: TextFilter = None,
    idempotency_key: TextFilter = None,
    label: LabelFilter = None,
    archived: Annotated[bool | None, Query(description="only the archive, or only what is not in it")] = None,
) -> Response:
    wanted = MessageFilter(
        queue=queue,
        state=state,
        message_type=message_type,
        correlation_id=correlation_id,
        parent_id=parent_id,
        source_id=source_id,
        idempotency_key=idempotency_key,
        labels=labels_in(label),
        **period,
        archived=archived,
    )
    page = await work_queues.search.list(caller, scope, wanted, **paging)
    return page_answer(page, caller.request_id)


@router.get("/{message_id}", summary="Read a message", **describe("get_message", Message))
async def get_message(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, message_id: MessageKey
) -> Response:
    return answer(await work_queues.search.get(caller, scope, message_id), caller.request_id)


@router.get(
    "/{message_id}/history",
    summary="What happened to a message",
    **describe("get_message_history", list[Step], paged=True),
)
async def get_history(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, message_id: MessageKey, paging: Paged
) -> Response:
    page = await work_queues.search.history(caller, scope, message_id, **paging)
    return page_answer(page, caller.request_id)


@router.post(
    "/{message_id}/cancel",
    summary="Cancel a message that nobody works on",
    **describe("cancel_message", Message, body=CancelIn, body_optional=True, problems=[WrongState]),
)
async def cancel_message(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, message_id: MessageKey
) -> Response:
    body = await body_of(request, _CANCEL, optional=True)
    await work_queues.messages.cancel(caller, scope, message_id, reason=body.reason)
    return answer(await _after(work_queues, caller, scope, message_id), caller.request_id)


@router.patch(
    "/{message_id}",
    summary="Change the priority of a message that waits",
    **describe("reprioritise_message", Message, body=PriorityIn, problems=[WrongState]),
)
async def reprioritise_message(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, message_id: MessageKey
) -> Response:
    body = await body_of(request, _PRIORITY)
    await work_queues.messages.reprioritise(
        caller, scope, message_id, tier=body.priority_tier, score=body.priority_score
    )
    return answer(await _after(work_queues, caller, scope, message_id), caller.request_id)


async def _after(work_queues: WorkQueues, caller: Authenticated, scope: str, message_id: str) -> Message:
    """The message as the change left it; who may change it may see that much of it."""
    seeing = msgspec.structs.replace(caller, permissions=caller.permissions | {"view"})
    return await work_queues.search.get(seeing, scope, message_id)
