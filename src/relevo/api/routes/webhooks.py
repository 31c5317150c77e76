"""`/v1/scopes/{scope}/webhooks`: where a scope's events are told, and the log of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response
from msgspec import UNSET

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import DeliveryKey, Paged, ScopeSlug, WebhookKey
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.events import EventName
from relevo.contract.fields import ID
from relevo.contract.webhooks import (
    Delivery,
    DeliveryState,
    NewSecret,
    RotationIn,
    Webhook,
    WebhookChange,
    WebhookIn,
)
from relevo.errors import BadWebhookUrl, WrongState

router = idempotency.router("/v1/scopes/{scope}/webhooks", tag="webhooks")


_NEW = msgspec.json.Decoder(WebhookIn)
_CHANGE = msgspec.json.Decoder(WebhookChange)
_ROTATION = msgspec.json.Decoder(RotationIn)


@router.get("", summary="List webhooks, without their secrets", **describe("list_webhooks", list[Webhook], paged=True))
async def list_webhooks(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, paging: Paged
) -> Response:
    return page_answer(await work_queues.webhooks.list(caller, scope, **paging), caller.request_id)


@router.post(
    "",
    summary="Make a webhook; its secret is in this answer and nowhere else",
    **describe("create_webhook", NewSecret, body=WebhookIn, status=201, problems=[BadWebhookUrl]),
)
async def create_webhook(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug
) -> Response:
    body = await body_of(request, _NEW)
    return answer(await work_queues.webhooks.create(caller, scope, body.url, body.events), caller.request_id, 201)


@router.get("/{webhook_id}", summary="Read a webhook", **describe("get_webhook", Webhook))
async def get_webhook(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, webhook_id: WebhookKey
) -> Response:
    return answer(await work_queues.webhooks.get(caller, scope, webhook_id), caller.request_id)


@router.patch(
    "/{webhook_id}",
    summary="Change a webhook, or switch it off and on",
    **describe("change_webhook", Webhook, body=WebhookChange, problems=[BadWebhookUrl]),
)
async def change_webhook(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, webhook_id: WebhookKey
) -> Response:
    body = await body_of(request, _CHANGE)
    changed = await work_queues.webhooks.change(
        caller,
        scope,
        webhook_id,
        url=None if body.url is UNSET else body.url,
        events=None if body.events is UNSET else body.events,
        state=None if body.state is UNSET else body.state,
    )
    return answer(changed, caller.request_id)


@router.delete("/{webhook_id}", summary="Delete a webhook and its log", **describe("delete_webhook", None, status=204))
async def delete_webhook(
    caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, webhook_id: WebhookKey
) -> Response:
    await work_queues.webhooks.delete(caller, scope, webhook_id)
    return Response(status_code=204)


@router.post(
    "/{webhook_id}/rotate",
    summary="A new secret, beside the old one for a while",
    **describe("rotate_webhook", NewSecret, body=RotationIn, body_optional=True),
)
async def rotate_webhook(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, webhook_id: WebhookKey
) -> Response:
    body = await body_of(request, _ROTATION, optional=True)
    turned = await work_queues.webhooks.rotate(caller, scope, webhook_id, overlap_s=body.overlap_s)
    return answer(turned, caller.request_id)


@router.get(
    "/{webhook_id}/deliveries",
    summary="What was told, and how it went",
    **describe("list_webhook_deliveries", list[Delivery], paged=True),
)
async def list_deliveries(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    webhook_id: WebhookKey,
    paging: Paged,
    state: Annotated[DeliveryState | None, Query()] = None,
    event: Annotated[EventName | None, Query()] = None,
    message_id: Annotated[str | None, Query(pattern=ID)] = None,
) -> Response:
    page = await work_queues.webhook_deliveries.list(
        caller, scope, webhook_id, state=state, event=event, message_id=message_id, **paging
    )
    return page_answer(page, caller.request_id)


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/redeliver",
    summary="Send an event once more",
    **describe("redeliver_webhook_event", Delivery, status=202, problems=[WrongState]),
)
async def redeliver(
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    webhook_id: WebhookKey,
    delivery_id: DeliveryKey,
) -> Response:
    again = await work_queues.webhook_deliveries.redeliver(caller, scope, webhook_id, delivery_id)
    return answer(again, caller.request_id, 202)
