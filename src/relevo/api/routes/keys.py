"""`/v1/keys`: API keys of the tenant. A key is shown once, when it is made."""

from __future__ import annotations

import msgspec
from fastapi import Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import KeyKey, Paged
from relevo.api.request_body import body_of
from relevo.api.responses import answer, page_answer
from relevo.contract.fields import ms_of
from relevo.contract.keys import ApiKey, KeyIn, NewKey

router = idempotency.router("/v1/keys", tag="keys")

_NEW = msgspec.json.Decoder(KeyIn)


@router.get("", summary="List keys, without their secrets", **describe("list_keys", list[ApiKey], paged=True))
async def list_keys(caller: Authenticated, work_queues: ThisWorkQueues, paging: Paged) -> Response:
    return page_answer(await work_queues.keys.list(caller, **paging), caller.request_id)


@router.post(
    "",
    summary="Make a key; the secret is in this answer and nowhere else",
    **describe("create_key", NewKey, body=KeyIn, status=201),
)
async def create_key(request: Request, caller: Authenticated, work_queues: ThisWorkQueues) -> Response:
    body = await body_of(request, _NEW)
    made = await work_queues.keys.create(
        caller,
        body.name,
        permissions=body.permissions,
        scopes=body.scopes,
        queues=body.queues,
        expires_at=ms_of(body.expires_at),
    )
    return answer(made, caller.request_id, 201)


@router.delete("/{key_id}", summary="Revoke a key", **describe("revoke_key", ApiKey))
async def revoke_key(caller: Authenticated, work_queues: ThisWorkQueues, key_id: KeyKey) -> Response:
    return answer(await work_queues.keys.revoke(caller, key_id), caller.request_id)
