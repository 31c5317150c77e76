"""Being told, for asyncio: webhooks, and events as they happen. sync_telling.py is made from this file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import httpx

from relevo.client.async_sender import AsyncSender
from relevo.client.event_lines import EventLines
from relevo.client.request import Call, at, pause_s, problem_in, unreachable
from relevo.contract.events import Event
from relevo.contract.pages import Page
from relevo.contract.webhooks import Delivery, NewSecret, Webhook

_SILENCE_S = 50.0
"""The server gives a sign of life every 15 s: after three that did not come the line is dead."""
_TRIES = 8
"""In a row, without an event in between: some 20 s."""


class AsyncTelling(AsyncSender):
    """Webhooks of a scope, their log, and the scope's events."""

    async def webhooks(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Webhook]:
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "webhooks"), Page[Webhook], question=question))

    async def webhook(self, scope: str, webhook_id: str) -> Webhook:
        return await self.send(Call("GET", at("scopes", scope, "webhooks", webhook_id), Webhook))

    async def create_webhook(self, scope: str, url: str, *, events: Iterable[str] = ()) -> NewSecret:
        """The secret is in this answer and nowhere else; no `events` means all."""
        return await self.send(
            Call("POST", at("scopes", scope, "webhooks"), NewSecret, {"url": url, "events": list(events)}, safe=False)
        )

    async def change_webhook(self, scope: str, webhook_id: str, **changes: Any) -> Webhook:
        """Changes what is named: url, events, state (`active` or `disabled`)."""
        return await self.send(Call("PATCH", at("scopes", scope, "webhooks", webhook_id), Webhook, dict(changes)))

    async def delete_webhook(self, scope: str, webhook_id: str) -> None:
        await self.send(Call[None]("DELETE", at("scopes", scope, "webhooks", webhook_id), None, safe=False))

    async def rotate_webhook(self, scope: str, webhook_id: str, *, overlap_s: int = 86_400) -> NewSecret:
        """A new secret; the old one signs beside it for `overlap_s`."""
        return await self.send(
            Call(
                "POST",
                at("scopes", scope, "webhooks", webhook_id, "rotate"),
                NewSecret,
                {"overlap_s": overlap_s},
                safe=False,
            )
        )

    async def deliveries(
        self,
        scope: str,
        webhook_id: str,
        *,
        state: str | None = None,
        event: str | None = None,
        message_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """The log of a webhook, newest first."""
        question = {"state": state, "event": event, "message_id": message_id, "limit": limit, "cursor": cursor}
        path = at("scopes", scope, "webhooks", webhook_id, "deliveries")
        return await self.send(Call("GET", path, Page[Delivery], question=question))

    async def redeliver(self, scope: str, webhook_id: str, delivery_id: str) -> Delivery:
        path = at("scopes", scope, "webhooks", webhook_id, "deliveries", delivery_id, "redeliver")
        return await self.send(Call("POST", path, Delivery, safe=False))

    async def events(
        self,
        scope: str,
        *,
        queues: Iterable[str] = (),
        events: Iterable[str] = (),
        after: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Events of a scope as they happen, until you stop asking: a broken connection is made again, and goes on after the
        last event. `after` is the `place` of an event you had. An event named `gap` says that some are lost to this stream."""
        question = {"queue": list(queues), "event": list(events)}
        lines, attempt = EventLines(after), 0
        while True:
            headers = {"accept": "text/event-stream", **({} if lines.place is None else {"last-event-id": lines.place})}
            call = Call[None]("GET", at("scopes", scope, "events"), None, question=question, headers=headers)
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
                        raise problem_in(response)
                    async for line in response.aiter_lines():
                        told = lines.take(line)
                        if told is not None and told.name != "error":
                            attempt = 0
                            yield told
            except httpx.TransportError as broken:
                if attempt >= _TRIES:
                    raise unreachable(self.url, broken) from broken
            lines = EventLines(lines.place)
            await asyncio.sleep(pause_s(attempt))
            attempt += 1
