"""The client without asyncio. Made from async_client.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from relevo.client import calls
from relevo.client.async_client import AsyncClient
from relevo.client.consumer import Handler
from relevo.client.failures import why_of
from relevo.client.sync_access import Access
from relevo.client.sync_bodies import Bodies
from relevo.client.sync_reviews import Reviews
from relevo.client.sync_routing import Routing
from relevo.client.sync_sender import Sender
from relevo.client.sync_telling import Telling
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


class Client(Routing, Reviews, Bodies, Access, Telling, Sender):
    """Work queues over HTTP: scopes, queues and messages here; rules, reviews, schemas, keys and webhooks in the files beside.

    How calls are sent, and sent again: see `Sender`. Without `url` and `key`, RELEVO_URL and RELEVO_KEY are used.
    """

    # --- scopes and queues ------------------------------------------------------------------------------------------

    def scopes(self, *, limit: int = 100, cursor: str | None = None) -> Page[Scope]:
        return self.send(calls.scopes(limit, cursor))

    def scope(self, scope: str) -> Scope:
        return self.send(calls.scope(scope))

    def create_scope(self, scope: str, *, exist_ok: bool = False, **settings: Any) -> Scope:
        """Makes a scope; settings: display_name, description, events_to_queue, audit_to_queue. With `exist_ok` one that is
        there already is given back as it is."""
        try:
            return self.send(calls.create_scope(scope, settings))
        except SlugTaken:
            if not exist_ok:
                raise
            return self.scope(scope)

    def change_scope(self, scope: str, **changes: Any) -> Scope:
        """Changes what is named; `state` pauses, drains, archives or reopens it."""
        return self.send(calls.change_scope(scope, changes))

    def delete_scope(self, scope: str) -> None:
        self.send(calls.delete_scope(scope))

    def queues(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Queue]:
        return self.send(calls.queues(scope, limit, cursor))

    def queue(self, scope: str, queue: str) -> Queue:
        return self.send(calls.queue(scope, queue))

    def create_queue(self, scope: str, queue: str, *, exist_ok: bool = False, **settings: Any) -> Queue:
        """Makes a queue; settings are the fields of `Queue`, such as ordering, max_retries, visibility_timeout_s. With
        `exist_ok` one that is there already is given back as it is."""
        try:
            return self.send(calls.create_queue(scope, queue, settings))
        except SlugTaken:
            if not exist_ok:
                raise
            return self.queue(scope, queue)

    def change_queue(self, scope: str, queue: str, **changes: Any) -> Queue:
        """Changes what is named; `state` pauses, drains, archives or reopens it."""
        return self.send(calls.change_queue(scope, queue, changes))

    def delete_queue(self, scope: str, queue: str) -> None:
        self.send(calls.delete_queue(scope, queue))

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
        ttl_seconds: int | None = None,
        deadline: int | datetime | None = None,
        delay_seconds: float | None = None,
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
            "ttl_seconds": ttl_seconds,
            "deadline": deadline,
            "delay_seconds": delay_seconds,
            "visible_at": visible_at,
            "idempotency_key": idempotency_key,
            "correlation_id": correlation_id,
            "causation_id": causation_id,
            "parent_id": parent_id,
            "source_type": source_type,
            "source_id": source_id,
            "hitl_spec": hitl_spec,
        }
        return self.send(calls.publish(scope, queue, body, options))

    def publish_batch(self, scope: str, queue: str, messages: Iterable[Mapping[str, Any]]) -> list[BatchOutcome]:
        """Publishes up to 1000 in one transaction: mappings with `body` and the options of `publish`."""
        return self.send(calls.publish_batch(scope, queue, messages))

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
        return self.send(calls.claim(scope, queue, batch_size, wait_s, consumer, labels, subscription))

    def complete(self, scope: str, message: Claimed, result: Any = None, *, subscription: str | None = None) -> Settled:
        """Finishes a message. `ClaimLost`: it is not yours any more; drop the result."""
        options = {"result": result, "subscription": subscription}
        return self.send(calls.settle(scope, "complete", message.id, message.claim_token, options))

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
        return self.send(calls.settle(scope, "fail", message.id, message.claim_token, options))

    def release(self, scope: str, message: Claimed, *, subscription: str | None = None) -> Settled:
        """Gives a message back untouched; the attempt does not count."""
        options = {"subscription": subscription}
        return self.send(calls.settle(scope, "release", message.id, message.claim_token, options))

    def extend(
        self, scope: str, message: Claimed, seconds: float | None = None, *, subscription: str | None = None
    ) -> Settled:
        """Keeps a message for `seconds` from now; without them for the queue's visibility timeout."""
        options = {"seconds": seconds, "subscription": subscription}
        return self.send(calls.settle(scope, "extend", message.id, message.claim_token, options))

    def settle_batch(
        self,
        scope: str,
        queue: str,
        verdict: Literal["complete", "fail", "release", "extend"],
        items: Iterable[Mapping[str, Any]],
    ) -> list[Settled]:
        """Settles up to 1000: mappings with `id`, `claim_token` and what the verdict takes. Each has its own outcome."""
        return self.send(calls.settle_batch(scope, queue, verdict, items))

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
        return self.send(calls.search(scope, question))

    def message(self, scope: str, message_id: str) -> Message:
        return self.send(calls.message(scope, message_id))

    def history(self, scope: str, message_id: str) -> list[Step]:
        return self.send(calls.history(scope, message_id))

    def cancel(self, scope: str, message_id: str, *, reason: str | None = None) -> Message:
        return self.send(calls.cancel(scope, message_id, reason))

    def reprioritise(
        self, scope: str, message_id: str, *, tier: Tier | None = None, score: int | None = None
    ) -> Message:
        return self.send(calls.reprioritise(scope, message_id, tier, score))

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
        return self.send(calls.dead_letters(scope, question))

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
        return self.send(calls.start_replay(scope, wanted or {}, rate_per_s, max_replays, dry_run=dry_run))

    def replays(self, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Replay]:
        return self.send(calls.replays(scope, limit, cursor))

    def replay(self, scope: str, replay_id: str) -> Replay:
        return self.send(calls.replay(scope, replay_id))

    def cancel_replay(self, scope: str, replay_id: str) -> Replay:
        return self.send(calls.cancel_replay(scope, replay_id))

    def subscriptions(self, scope: str, queue: str) -> list[Subscription]:
        return self.send(calls.subscriptions(scope, queue))

    def subscribe(self, scope: str, queue: str, name: str, *, after: str | int | None = None) -> Subscription:
        """Every message after a message's id, or after a moment in milliseconds; None: from now on."""
        return self.send(calls.subscribe(scope, queue, name, after))

    def unsubscribe(self, scope: str, queue: str, name: str) -> None:
        self.send(calls.unsubscribe(scope, queue, name))

    # --- the installation -------------------------------------------------------------------------------------------

    def usage(self, *, since: str | None = None, until: str | None = None, scope: str | None = None) -> list[UsageRow]:
        """What each queue did on each day; days as in "2026-11-15"."""
        return self.send(calls.usage({"since": since, "until": until, "scope": scope}))

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
        return self.send(calls.audit(question))

    def trace(self, correlation_id: str, *, scope: str | None = None) -> Trace:
        """The story of one correlation id: messages, reviews, webhooks and audit, in order."""
        return self.send(calls.trace(correlation_id, scope))

    def agents(self) -> list[Agent]:
        return self.send(calls.agents())

    def run_agent(self, agent: str) -> Agent:
        return self.send(calls.run_agent(agent))

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
