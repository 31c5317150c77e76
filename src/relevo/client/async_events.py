"""Events for asyncio, as they happen. sync_events.py is made from this file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

import httpx

from relevo.client.async_sender import AsyncSender
from relevo.client.event_lines import EventLines
from relevo.client.request import Call, at, may_retry, pause_s, problem_in, unreachable
from relevo.contract.events import Event

_SILENCE_S = 50.0
"""The server gives a sign of life every 15 s: after three that did not come the line is dead."""
_TRIES = 8
"""In a row, without an event in between: some 20 s."""


class AsyncEvents(AsyncSender):
    """The events of a scope."""

    async def events(
        self,
        scope: str,
        *,
        queues: Iterable[str] = (),
        events: Iterable[str] = (),
        after: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Events of a scope as they happen, until you stop asking: a broken connection, or one that a server without its
        database refused, is made again, and goes on after the last event. `after` is the `place` of an event you had. An event
        named `gap` says that some are lost to this stream."""
        question = {"queue": list(queues), "event": list(events)}
        lines, attempt = EventLines(after), 0
        while True:
            headers = {"accept": "text/event-stream", **({} if lines.place is None else {"last-event-id": lines.place})}
            call = Call[None]("GET", at("scopes", scope, "events"), None, question=question, headers=headers)
            refusal: httpx.Response | None = None
            try:
                async with self._http.stream(
                    call.method,
                    call.path,
                    params=call.params(),
                    headers=call.headers,
                    timeout=httpx.Timeout(self._timeout_s, read=_SILENCE_S),
                ) as response:
                    if not response.is_success:
                        await response.aread()
                        if attempt >= _TRIES or not may_retry(call, None, response):
                            raise problem_in(response)
                        refusal = response
                    async for line in response.aiter_lines():  # of a refusal: no line of it is an event's
                        told = lines.take(line)
                        if told is not None and told.name != "error":
                            attempt = 0
                            yield told
            except httpx.TransportError as broken:
                if attempt >= _TRIES:
                    raise unreachable(self.url, broken) from broken
            lines = EventLines(lines.place)
            await asyncio.sleep(pause_s(attempt, refusal))
            attempt += 1
