"""`GET /v1/scopes/{scope}/events`: the scope's events as they happen, as server-sent events (text/event-stream)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import StreamingResponse

from relevo.api.auth import Authenticated, ThisWorkQueues, caller_of, header
from relevo.api.openapi import describe
from relevo.api.params import ScopeSlug
from relevo.api.serving import serving_of
from relevo.contract.events import EventName
from relevo.contract.fields import ANY_QUEUE
from relevo.errors import EventsNotKept, EventsUnavailable, RelevoError, TooManyRequests, WorkError
from relevo.work.reading.event_feed import EventFeed

router = APIRouter(prefix="/v1/scopes/{scope}/events", tags=["events"])

BEAT_S = 15.0
"""A sign of life when nothing happens: proxies close what is silent, and clients notice a line that is dead."""
MOST_READERS = 200
"""Of one process: each has a connection to Redis of its own."""

_about: dict[str, Any] = describe("follow_events", None, problems=[EventsNotKept, EventsUnavailable, TooManyRequests])
_about["responses"][200] = {"description": "events, until one side ends it", "content": {"text/event-stream": {}}}


@router.get("", summary="Follow the events of a scope (server-sent events)", **_about)
async def follow_events(
    request: Request,
    caller: Authenticated,
    work_queues: ThisWorkQueues,
    scope: ScopeSlug,
    queue: Annotated[
        list[Annotated[str, Query(pattern=ANY_QUEUE, max_length=63)]] | None,
        Query(max_length=100, description="only of these; may be repeated"),
    ] = None,
    event: Annotated[list[EventName] | None, Query(max_length=50, description="only these; may be repeated")] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=2_000, description="the `id` of the last event: goes on after it")
    ] = None,
) -> Response:
    readers = serving_of(request).feeds
    if len(readers) >= MOST_READERS:
        raise EventsUnavailable(reason=f"{MOST_READERS} readers follow them here already")
    feed = EventFeed(
        work_queues.queues,
        work_queues.settings.redis_url,
        caller,
        scope,
        queues=queue or (),
        events=event or (),
        after=last_event_id,
    )
    await feed.open()
    readers.add(feed)
    return _Following(request, feed)


class _Following(StreamingResponse):
    """An answer that ends its feed however it ends itself: who hangs up leaves the generator wherever it was, perhaps before
    its beginning, so it cannot be the one to tidy up."""

    def __init__(self, request: Request, feed: EventFeed) -> None:
        self._feed = feed
        self._readers = serving_of(request).feeds
        self._events = _told(request, feed)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(self._events, media_type="text/event-stream", headers=headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._readers.discard(self._feed)
            await self._events.aclose()
            await self._feed.close()


async def _told(request: Request, feed: EventFeed) -> AsyncGenerator[bytes]:
    ended = asyncio.ensure_future(serving_of(request).stopping.wait())
    reading: asyncio.Future[Any] | None = None
    try:
        yield b"retry: 2000\n\n"
        with contextlib.suppress(RelevoError, OSError):
            for gap in await feed.gaps():
                yield _frame("gap", {"queue": gap.queue}, None)
        checked = beaten = asyncio.get_running_loop().time()
        while not ended.done():
            reading = reading or asyncio.ensure_future(feed.read())
            await asyncio.wait({reading, ended}, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
            now = asyncio.get_running_loop().time()
            if reading.done():
                told, reading = reading.result(), None
                for event in told:
                    beaten = now
                    yield _frame(event.name, event.data, event.place)
            if now - beaten >= BEAT_S:
                beaten = now
                yield b": still here\n\n"
            if now - checked >= BEAT_S:
                checked = now
                await _still_welcome(request)
                await feed.refresh()
    except (WorkError, RelevoError, OSError) as error:
        # The answer has begun: what went wrong can only be said in it. Clients come again by themselves.
        yield _frame("error", {"detail": " ".join(str(error).split())[:300]}, None)
    finally:
        for task in (reading, ended):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task


async def _still_welcome(request: Request) -> None:
    """A key that ended, or a grant that was taken back, ends the reading too."""
    authorization = header(request.scope["headers"], b"authorization")
    parts = request.scope["path"].split("/")
    caller = await caller_of(serving_of(request).work_queues, authorization, request.state.request_id, "GET", parts)
    caller.require("view")
    caller.require_sight(parts[3])


def _frame(name: str, data: dict[str, Any], place: str | None) -> bytes:
    numbered = b"" if place is None else b"id: %b\n" % place.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (numbered, name.encode(), msgspec.json.encode(data))
