"""The client without asyncio. Made from async_client.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from relevo.client.async_client import AsyncClient
from relevo.client.consumer import Handler
from relevo.client.failures import told, why_of
from relevo.client.request import Call, at, given
from relevo.client.settling import settle_call
from relevo.client.sync_access import Access
from relevo.client.sync_chunks import ChunkStream
from relevo.client.sync_erasures import Erasures
from relevo.client.sync_events import Events
from relevo.client.sync_reviews import Reviews
from relevo.client.sync_routing import Routing
from relevo.client.sync_schemas import Schemas
from relevo.client.sync_sender import Sender
from relevo.client.sync_webhooks import Webhooks
from relevo.contract.agents import Agent
from relevo.contract.audit import AuditEntry, Trace, UsageRow
from relevo.contract.claims import Claimed, Settled
from relevo.contract.dead_letters import DeadLetter, Replay
from relevo.contract.messages import BatchOutcome, Message, Published, Step, Tier
from relevo.contract.pages import Page
from relevo.contract.queues import Queue
from relevo.contract.scopes import Scope
from relevo.contract.subscriptions import Subscription
from relevo.errors import SlugTaken


class Client(
    Routing,
    Reviews,
    Schemas,
    ChunkStream,
    Erasures,
    Access,
    Webhooks,
    Events,
    Sender,
):
    """Work queues over HTTP: scopes, queues and messages here; rules, reviews, schemas, keys and webhooks in the files beside.

    How calls are sent, and sent again: see `Sender`. Without `url` and `key`, RELEVO_URL and RELEVO_KEY are used.
    """

    # --- scopes and queues ------------------------------------------------------------------------------------------

    def scopes(self, *, limit: int = 100, cursor: str | None = None) -> Page[Scope]:
        return self.send(Call("GET", at("scopes"), Page[Scope], question={"limit": limit, "cursor": cursor}))

    def scope(self, scope: str) -> Scope:
        return self.send(Call("GET", at("scopes", scope), Scope))

    def create_scope(self, scope: str, *, exist_ok: bool = False, **settings: Any) -> Scope:
        """Makes a scope; settings: display_name, description, events_to_queue, audit_to_queue. With `exist_ok` one that is
        there already is given back as it is."""
        try:
            return self.send(Call("POST", at("scopes"), Scope, {"slug": scope, **settings}, once=True))
        except SlugTaken:
            if not exist_ok:
                raise
            return self.scope(scope)

    def change_scope(self, scope: str, **changes: Any) -> Scope:
        """Changes what is named; `state` pauses, drains, archives or reopens it."""
        return self.send(Call("PATCH", at("scopes", scope), Scope, dict(changes)))

    def delete_scope(self, scope: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope), None, safe=False))

    def queues(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Queue]:
        question = {"limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "queues"), Page[Queue], question=question))

    def queue(self, scope: str, queue: str) -> Queue:
        return self.send(Call("GET", at("scopes", scope, "queues", queue), Queue))

    def create_queue(self, scope: str, queue: str, *, exist_ok: bool = False, **settings: Any) -> Queue:
        """Makes a queue; settings are the fields of `Queue`, such as ordering, max_retries, visibility_timeout_s. With
        `exist_ok` one that is there already is given back as it is."""
        try:
            return self.send(Call("POST", at("scopes", scope, "queues"), Queue, {"slug": queue, **settings}, once=True))
        except SlugTaken:
            if not exist_ok:
                raise
            return self.queue(scope, queue)

    def change_queue(self, scope: str, queue: str, **changes: Any) -> Queue:
        """Changes what is named; `state` pauses, drains, archives or reopens it."""
        return self.send(Call("PATCH", at("scopes", scope, "queues", queue), Queue, dict(changes)))

    def delete_queue(self, scope: str, queue: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope, "queues", queue), None, safe=False))

    # --- publish, claim, settle -------------------------------------------------------------------------------------

    def publish(
        self,
        scope: str,
        queue: str,
        body: Any,
        *,
        message_type: str | None = None,
        priority_tier: Tier | None = None,
        priority_score: int | None = None,
        labels: Mapping[str, str] | None = None,
        ttl_s: int | None = None,
        deadline: int | datetime | None = None,
        delay_s: float | None = None,
        visible_at: int | datetime | None = None,
        idempotency_key: str | None = None,
        correlation_id: str | None = None,
        causation_id: str | None = None,
        parent_id: str | None = None,
        source_type: str | None = None,
        source_id: str | None = None,
        hitl_spec: Mapping[str, Any] | None = None,
    ) -> Published:
        """Publishes; when this returns, the message is on disk. The same `idempotency_key` publishes once. With a `hitl_spec`
        it waits for a person's decision."""
        options = {
            "message_type": message_type,
            "priority_tier": priority_tier,
            "priority_score": priority_score,
            "labels": labels,
            "ttl_s": ttl_s,
            "deadline": deadline,
            "delay_s": delay_s,
            "visible_at": visible_at,
            "idempotency_key": idempotency_key,
            "correlation_id": correlation_id,
            "causation_id": causation_id,
            "parent_id": parent_id,
            "source_type": source_type,
            "source_id": source_id,
            "hitl_spec": hitl_spec,
        }
        # Always with an idempotency key, so that it can be sent again when the answer was lost.
        message = {"body": body, **given(**options)}
        message.setdefault("idempotency_key", uuid.uuid4().hex)
        return self.send(Call("POST", at("scopes", scope, "queues", queue, "messages"), Published, message))

    def publish_batch(self, scope: str, queue: str, messages: Iterable[Mapping[str, Any]]) -> list[BatchOutcome]:
        """Publishes up to 1000 in one transaction: mappings with `body` and the options of `publish`."""
        keyed = [{"idempotency_key": uuid.uuid4().hex, **message} for message in messages]
        return self.send(
            Call(
                "POST",
                at("scopes", scope, "queues", queue, "messages", "batch"),
                list[BatchOutcome],
                {"items": keyed},
            )
        )

    def claim(
        self,
        scope: str,
        queue: str,
        *,
        batch_size: int = 1,
        wait_s: float = 0.0,
        consumer: str | None = None,
        labels: Mapping[str, str] | None = None,
        subscription: str | None = None,
    ) -> list[Claimed]:
        """The next messages in the queue's order, yours until their claim ends."""
        # Not sent again when its answer was lost: those messages come back when their claim ends.
        body = given(batch_size=batch_size, wait_s=wait_s, consumer=consumer, labels=labels, subscription=subscription)
        address = at("scopes", scope, "queues", queue, "claim")
        return self.send(Call("POST", address, list[Claimed], body, safe=False, yields=True, waits_s=wait_s))

    def complete(self, scope: str, message: Claimed, result: Any = None, *, subscription: str | None = None) -> Settled:
        """Finishes a message. `ClaimLost`: it is not yours any more; drop the result."""
        options = {"result": result, "subscription": subscription}
        return self.send(settle_call(scope, message, "complete", options))

    def fail(
        self,
        scope: str,
        message: Claimed,
        reason: str | None = None,
        *,
        error: BaseException | Mapping[str, Any] | None = None,
        dead: bool = False,
        subscription: str | None = None,
    ) -> Settled:
        """Gives a message back as failed: it comes again after a pause, or is dead after its last retry or with `dead`.

        `error` says why: an exception, or a mapping with `type`, `message` and `stack`. `reason` says it in your own words.
        """
        options = {**why_of(reason, error), "dead": dead, "subscription": subscription}
        return self.send(settle_call(scope, message, "fail", options))

    def release(self, scope: str, message: Claimed, *, subscription: str | None = None) -> Settled:
        """Gives a message back untouched; the attempt does not count."""
        options = {"subscription": subscription}
        return self.send(settle_call(scope, message, "release", options))

    def extend(
        self, scope: str, message: Claimed, extend_s: float | None = None, *, subscription: str | None = None
    ) -> Settled:
        """Keeps a message for `extend_s` seconds from now; without it for the queue's visibility timeout."""
        options = {"extend_s": extend_s, "subscription": subscription}
        return self.send(settle_call(scope, message, "extend", options))

    def settle_batch(
        self,
        scope: str,
        queue: str,
        verdict: Literal["complete", "fail", "release", "extend"],
        items: Iterable[Mapping[str, Any]],
    ) -> list[Settled]:
        """Settles up to 1000: mappings with `id`, `claim_token` and what the verdict takes; an item that fails may bring the
        exception itself as `error`. Each has its own outcome."""
        body = {
            "items": [
                {**item, "error": told(error)} if (error := item.get("error")) is not None else item for item in items
            ]
        }
        return self.send(
            Call("POST", at("scopes", scope, "queues", queue, verdict), list[Settled], body, safe=verdict != "release")
        )

    # --- messages ---------------------------------------------------------------------------------------------------

    def search(
        self,
        scope: str,
        *,
        queue: str | None = None,
        state: str | None = None,
        message_type: str | None = None,
        correlation_id: str | None = None,
        parent_id: str | None = None,
        source_id: str | None = None,
        idempotency_key: str | None = None,
        labels: Mapping[str, str] | None = None,
        since: str | int | None = None,
        until: str | int | None = None,
        archived: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Messages of a scope, newest first, those in the archive too."""
        question = {
            "queue": queue,
            "state": state,
            "message_type": message_type,
            "correlation_id": correlation_id,
            "parent_id": parent_id,
            "source_id": source_id,
            "idempotency_key": idempotency_key,
            "label": labels,
            "since": since,
            "until": until,
            "archived": archived,
            "limit": limit,
            "cursor": cursor,
        }
        return self.send(Call("GET", at("scopes", scope, "messages"), Page[Message], question=question))

    def message(self, scope: str, message_id: str) -> Message:
        return self.send(Call("GET", at("scopes", scope, "messages", message_id), Message))

    def history(self, scope: str, message_id: str, *, limit: int = 100, cursor: str | None = None) -> Page[Step]:
        """What happened to a message, oldest first."""
        path = at("scopes", scope, "messages", message_id, "history")
        return self.send(Call("GET", path, Page[Step], question={"limit": limit, "cursor": cursor}))

    def cancel(self, scope: str, message_id: str, *, reason: str | None = None) -> Message:
        return self.send(
            Call(
                "POST", at("scopes", scope, "messages", message_id, "cancel"), Message, given(reason=reason), once=True
            )
        )

    def reprioritise(
        self, scope: str, message_id: str, *, tier: Tier | None = None, score: int | None = None
    ) -> Message:
        return self.send(
            Call(
                "PATCH",
                at("scopes", scope, "messages", message_id),
                Message,
                given(priority_tier=tier, priority_score=score),
            )
        )

    # --- dead letters, subscriptions --------------------------------------------------------------------------------

    def dead_letters(
        self,
        scope: str,
        *,
        queue: str | None = None,
        reason: str | None = None,
        message_type: str | None = None,
        labels: Mapping[str, str] | None = None,
        since: str | int | None = None,
        until: str | int | None = None,
        text: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[DeadLetter]:
        question = {
            "queue": queue,
            "reason": reason,
            "message_type": message_type,
            "label": labels,
            "since": since,
            "until": until,
            "text": text,
            "limit": limit,
            "cursor": cursor,
        }
        return self.send(Call("GET", at("scopes", scope, "dead-letters"), Page[DeadLetter], question=question))

    def start_replay(
        self,
        scope: str,
        wanted: Mapping[str, Any] | None = None,
        *,
        rate_per_s: int | None = None,
        max_replays: int | None = None,
        dry_run: bool = False,
    ) -> Replay:
        """Sends dead letters back. `wanted`: queue, reason, message_type, correlation_id, labels, since, until, text, ids."""
        body = {
            "filter": dict(wanted or {}),
            "dry_run": dry_run,
            **given(rate_per_s=rate_per_s, max_replays=max_replays),
        }
        return self.send(Call("POST", at("scopes", scope, "replays"), Replay, body, once=True))

    def replays(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Replay]:
        question = {"limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "replays"), Page[Replay], question=question))

    def replay(self, scope: str, replay_id: str) -> Replay:
        return self.send(Call("GET", at("scopes", scope, "replays", replay_id), Replay))

    def cancel_replay(self, scope: str, replay_id: str) -> Replay:
        return self.send(Call("POST", at("scopes", scope, "replays", replay_id, "cancel"), Replay, once=True))

    def subscriptions(
        self, scope: str, queue: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Subscription]:
        path = at("scopes", scope, "queues", queue, "subscriptions")
        return self.send(Call("GET", path, Page[Subscription], question={"limit": limit, "cursor": cursor}))

    def subscribe(self, scope: str, queue: str, name: str, *, after: str | int | None = None) -> Subscription:
        """Every message after a message's id, or after a moment in milliseconds; None: from now on."""
        body = {"name": name, **given(after=after)}
        return self.send(
            Call("POST", at("scopes", scope, "queues", queue, "subscriptions"), Subscription, body, once=True)
        )

    def unsubscribe(self, scope: str, queue: str, name: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope, "queues", queue, "subscriptions", name), None, safe=False))

    # --- the installation -------------------------------------------------------------------------------------------

    def usage(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        scope: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[UsageRow]:
        """What each queue did on each day; days as in "2026-11-15"."""
        question = {"since": since, "until": until, "scope": scope, "limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("usage"), Page[UsageRow], question=question))

    def audit(
        self,
        *,
        scope: str | None = None,
        queue: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        correlation_id: str | None = None,
        since: str | int | None = None,
        until: str | int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[AuditEntry]:
        question = {
            "scope": scope,
            "queue": queue,
            "actor": actor,
            "action": action,
            "target": target,
            "correlation_id": correlation_id,
            "since": since,
            "until": until,
            "limit": limit,
            "cursor": cursor,
        }
        return self.send(Call("GET", at("audit"), Page[AuditEntry], question=question))

    def trace(self, correlation_id: str, *, scope: str | None = None) -> Trace:
        """The story of one correlation id: messages, reviews, webhooks and audit, in order."""
        return self.send(Call("GET", at("trace"), Trace, question={"correlation_id": correlation_id, "scope": scope}))

    def agents(self, *, limit: int = 100, cursor: str | None = None) -> Page[Agent]:
        return self.send(Call("GET", at("agents"), Page[Agent], question={"limit": limit, "cursor": cursor}))

    def run_agent(self, agent: str) -> Agent:
        return self.send(Call("POST", at("agents", agent, "run"), Agent, once=True, waits_s=60))

    # --- consuming --------------------------------------------------------------------------------------------------

    def consume(
        self,
        scope: str,
        queue: str,
        handler: Handler,
        *,
        concurrency: int = 10,
        wait_s: float = 20.0,
        labels: Mapping[str, str] | None = None,
        subscription: str | None = None,
        consumer: str | None = None,
        drain_s: float = 30.0,
    ) -> None:
        """Runs `handler` for every message until SIGTERM or Ctrl-C, in a loop of its own; see `Consumer`."""

        async def work() -> None:
            async with AsyncClient(self.url, key=self._key, timeout_s=self._timeout_s, retry_s=self._retry_s) as client:
                await client.consume(
                    scope,
                    queue,
                    handler,
                    concurrency=concurrency,
                    wait_s=wait_s,
                    labels=labels,
                    subscription=subscription,
                    consumer=consumer,
                    drain_s=drain_s,
                )

        asyncio.run(work())
