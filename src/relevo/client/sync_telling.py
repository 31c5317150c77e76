"""The client without asyncio. Made from async_telling.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from typing import Any

import httpx

from relevo.client import people_calls
from relevo.client.event_lines import EventLines
from relevo.client.request import pause_s, problem_in, unreachable
from relevo.client.sync_sender import Sender
from relevo.contract.events import Event
from relevo.contract.pages import Page
from relevo.contract.webhooks import Delivery, NewSecret, Webhook

_SILENCE_S = 50.0
"""The server gives a sign of life every 15 s: after three that did not come the line is dead."""
_TRIES = 8
"""In a row, without an event in between: some 20 s."""


class Telling(Sender):
    """Webhooks of a scope, their log, and the scope's events."""

    def webhooks(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Webhook]:
        return self.send(people_calls.webhooks(scope, limit, cursor))

    def webhook(self, scope: str, webhook_id: str) -> Webhook:
        return self.send(people_calls.webhook(scope, webhook_id))

    def create_webhook(self, scope: str, url: str, *, events: Iterable[str] = ()) -> NewSecret:
        """The secret is in this answer and nowhere else; no `events` means all."""
        return self.send(people_calls.create_webhook(scope, url, events))

    def change_webhook(self, scope: str, webhook_id: str, **changes: Any) -> Webhook:
        """Changes what is named: url, events, state (`active` or `disabled`)."""
        return self.send(people_calls.change_webhook(scope, webhook_id, changes))

    def delete_webhook(self, scope: str, webhook_id: str) -> None:
        self.send(people_calls.delete_webhook(scope, webhook_id))

    def rotate_webhook(self, scope: str, webhook_id: str, *, overlap_s: int = 86_400) -> NewSecret:
        """A new secret; the old one signs beside it for `overlap_s`."""
        return self.send(people_calls.rotate_webhook(scope, webhook_id, overlap_s))

    def deliveries(
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
        return self.send(people_calls.deliveries(scope, webhook_id, question))

    def redeliver(self, scope: str, webhook_id: str, delivery_id: str) -> Delivery:
        return self.send(people_calls.redeliver(scope, webhook_id, delivery_id))

    def events(
        self,
        scope: str,
        *,
        queues: Iterable[str] = (),
        events: Iterable[str] = (),
        after: str | None = None,
    ) -> Generator[Event, None, None]:
        """Events of a scope as they happen, until you stop asking: a broken connection is made again, and goes on after the
        last event. `after` is the `place` of an event you had. An event named `gap` says that some are lost to this stream."""
        question = {"queue": list(queues), "event": list(events)}
        lines, attempt = EventLines(after), 0
        while True:
            call = people_calls.events(scope, question, lines.place)
            try:
                with self._http.stream(
                    call.method,
                    call.path,
                    params=call.params(),
                    headers=call.headers,
                    timeout=httpx.Timeout(self._timeout_s, read=_SILENCE_S),
                ) as response:
                    if not response.is_success:
                        response.read()
                        raise problem_in(response)
                    for line in response.iter_lines():
                        told = lines.take(line)
                        if told is not None and told.name != "error":
                            attempt = 0
                            yield told
            except httpx.TransportError as broken:
                if attempt >= _TRIES:
                    raise unreachable(self.url, broken) from broken
            lines = EventLines(lines.place)
            time.sleep(pause_s(attempt))
            attempt += 1
