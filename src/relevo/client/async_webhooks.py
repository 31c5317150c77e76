"""Webhooks for asyncio: events sent to an address. sync_webhooks.py is made from this file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from relevo.client.async_sender import AsyncSender
from relevo.client.request import Call, at
from relevo.contract.pages import Page
from relevo.contract.webhooks import Delivery, NewSecret, Webhook


class AsyncWebhooks(AsyncSender):
    """Webhooks of a scope, and their log."""

    async def webhooks(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Webhook]:
        question = {"limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "webhooks"), Page[Webhook], question=question))

    async def webhook(self, scope: str, webhook_id: str) -> Webhook:
        return await self.send(Call("GET", at("scopes", scope, "webhooks", webhook_id), Webhook))

    async def create_webhook(self, scope: str, url: str, *, events: Iterable[str] = ()) -> NewSecret:
        """No `events` means all. The secret is in this answer and nowhere else. It is empty if the first answer was lost on its
        way and this is the second: then `rotate_webhook` gives the webhook another."""
        return await self.send(
            Call("POST", at("scopes", scope, "webhooks"), NewSecret, {"url": url, "events": list(events)}, once=True)
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
                once=True,
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
        return await self.send(Call("POST", path, Delivery, once=True))
