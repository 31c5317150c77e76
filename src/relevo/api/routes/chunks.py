"""`/v1/scopes/{scope}/messages/{id}/chunks`: parts of a result, sent and read while the message is worked on."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from relevo.api import idempotency
from relevo.api.auth import Authenticated, ThisWorkQueues
from relevo.api.openapi import describe
from relevo.api.params import MessageKey, ScopeSlug
from relevo.api.request_body import ClientGone, body_of
from relevo.api.responses import answer
from relevo.api.serving import serving_of
from relevo.contract.chunks import MOST_PARTS, Chunk, ChunkIn, Chunks
from relevo.errors import BodyTooLarge, ChunkConflict, ClaimLost, WrongConsumerMode
from relevo.work.consume.chunks import MOST_IN_A_PAGE
from relevo.work.consume.long_poll import CancelToken

router = idempotency.router("/v1/scopes/{scope}/messages/{message_id}/chunks", tag="chunks")


_NEW = msgspec.json.Decoder(ChunkIn)


@router.post(
    "",
    summary="Append a part, by whoever holds the claim",
    **describe(
        "append_chunk",
        Chunk,
        body=ChunkIn,
        status=201,
        problems=[ClaimLost, ChunkConflict, WrongConsumerMode, BodyTooLarge],
    ),
)
async def append_chunk(
    request: Request, caller: Authenticated, work_queues: ThisWorkQueues, scope: ScopeSlug, message_id: MessageKey
) -> Response:
    body = await body_of(request, _NEW)
    added = await work_queues.chunk_streams.append(
        caller, scope, message_id, body.claim_token, body.body, number=body.number, final=body.final
    )
    return answer(added, caller.request_id, 201)


@router.get("", summary="Read parts in order, as they arrive", **describe("read_chunks", Chunks))
async def read_chunks(
    request: Request,
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    message_id: MessageKey,
    after: Annotated[int, Query(ge=0, le=MOST_PARTS, description="the last number you have")] = 0,
    stream: Annotated[
        str | None, Query(pattern=r"^[0-9a-f]{16}$", description="`stream` of the answer that had it")
    ] = None,
    wait_s: Annotated[float, Query(ge=0, le=60, description="how long to wait for the next part")] = 0.0,
    limit: Annotated[int, Query(ge=1, le=MOST_IN_A_PAGE)] = MOST_IN_A_PAGE,
) -> Response:
    patience = CancelToken()
    stopping = asyncio.ensure_future(serving_of(request).stopping.wait())
    stopping.add_done_callback(lambda done: None if done.cancelled() else patience.end())
    gone = asyncio.ensure_future(_hung_up(request))
    gone.add_done_callback(lambda done: None if done.cancelled() else patience.end())
    try:
        found = await work_queues.chunk_streams.read(
            caller,
            scope,
            message_id,
            after=after,
            stream=stream,
            wait_s=wait_s,
            limit=limit,
            patience=patience,
        )
        if gone.done():
            raise ClientGone
        return answer(found, caller.request_id)
    finally:
        stopping.cancel()
        gone.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
