"""`/v1/scopes/{scope}/queues/{queue}/subscriptions`: who gets every message of a broadcast queue."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Path, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import Paged, QueueSlug, ScopeSlug
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.subscriptions import Subscription, SubscriptionIn
from relevo.errors import SlugTaken, WrongConsumerMode

router = idempotency.router("/v1/scopes/{scope}/queues/{queue}/subscriptions", tag="subscriptions")

_NEW = msgspec.json.Decoder(SubscriptionIn)


@router.get(
    "",
    summary="List subscriptions",
    **describe("list_subscriptions", list[Subscription], paged=True, problems=[WrongConsumerMode]),
)
async def list_subscriptions(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug, paging: Paged
) -> Response:
    page = await work_queues.subscriptions.list(caller, scope, queue, **paging)
    return page_answer(page, caller.request_id)


@router.post(
    "",
    summary="Subscribe to a broadcast queue",
    **describe(
        "create_subscription", Subscription, body=SubscriptionIn, status=201, problems=[SlugTaken, WrongConsumerMode]
    ),
)
async def create_subscription(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, queue: QueueSlug
) -> Response:
    body = await body_of(request, _NEW)
    made = await work_queues.subscriptions.create(caller, scope, queue, body.name, after=body.after)
    return answer(made, caller.request_id, 201)


@router.delete(
    "/{subscription}",
    summary="Unsubscribe: what is not settled counts as settled",
    **describe("delete_subscription", None, status=204, problems=[WrongConsumerMode]),
)
async def delete_subscription(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    queue: QueueSlug,
    subscription: Annotated[str, Path(max_length=63, description="name of the subscription")],
) -> Response:
    await work_queues.subscriptions.delete(caller, scope, queue, subscription)
    return Response(status_code=204)
