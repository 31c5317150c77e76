"""Every call of the HTTP side, written once for both clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from relevo.client.failures import told
from relevo.client.request import Call, slug
from relevo.contract.agents import Agent
from relevo.contract.audit import AuditEntry, Trace, UsageRow
from relevo.contract.claims import Claimed, Settled
from relevo.contract.dead_letters import DeadLetter, Replay
from relevo.contract.keys import ApiKey, NewKey
from relevo.contract.messages import BatchOutcome, Message, Published, Step
from relevo.contract.pages import Page
from relevo.contract.queues import Queue
from relevo.contract.scopes import Scope
from relevo.contract.subscriptions import Subscription


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _scope(scope: str) -> str:
    return f"/v1/scopes/{slug(scope)}"


def _queue(scope: str, queue: str) -> str:
    return f"{_scope(scope)}/queues/{slug(queue)}"


def _message(scope: str, message_id: str) -> str:
    return f"{_scope(scope)}/messages/{slug(message_id)}"


# --- scopes and queues ----------------------------------------------------------------------------------------------


def scopes(limit: int, cursor: str | None) -> Call[Page[Scope]]:
    return Call("GET", "/v1/scopes", list[Scope], question={"limit": limit, "cursor": cursor}, paged=True)


def scope(name: str) -> Call[Scope]:
    return Call("GET", _scope(name), Scope)


def create_scope(name: str, settings: Mapping[str, Any]) -> Call[Scope]:
    return Call("POST", "/v1/scopes", Scope, {"slug": name, **settings}, safe=False)


def change_scope(name: str, changes: Mapping[str, Any]) -> Call[Scope]:
    return Call("PATCH", _scope(name), Scope, dict(changes))


def delete_scope(name: str) -> Call[None]:
    return Call("DELETE", _scope(name), None, safe=False)


def queues(scope: str, limit: int, cursor: str | None) -> Call[Page[Queue]]:
    question = {"limit": limit, "cursor": cursor}
    return Call("GET", f"{_scope(scope)}/queues", list[Queue], question=question, paged=True)


def queue(scope: str, name: str) -> Call[Queue]:
    return Call("GET", _queue(scope, name), Queue)


def create_queue(scope: str, name: str, settings: Mapping[str, Any]) -> Call[Queue]:
    return Call("POST", f"{_scope(scope)}/queues", Queue, {"slug": name, **settings}, safe=False)


def change_queue(scope: str, name: str, changes: Mapping[str, Any]) -> Call[Queue]:
    return Call("PATCH", _queue(scope, name), Queue, dict(changes))


def delete_queue(scope: str, name: str) -> Call[None]:
    return Call("DELETE", _queue(scope, name), None, safe=False)


# --- messages -------------------------------------------------------------------------------------------------------


def publish(scope: str, queue: str, body: Any, options: Mapping[str, Any]) -> Call[Published]:
    """Always with an idempotency key, so that it can be sent again when the answer was lost."""
    message = {"body": body, **_given(**options)}
    message.setdefault("idempotency_key", uuid.uuid4().hex)
    return Call("POST", f"{_queue(scope, queue)}/messages", Published, message)


def publish_batch(scope: str, queue: str, messages: Iterable[Mapping[str, Any]]) -> Call[list[BatchOutcome]]:
    """Each message is a mapping with `body` and the options of `publish`."""
    keyed = [{"idempotency_key": uuid.uuid4().hex, **message} for message in messages]
    return Call("POST", f"{_queue(scope, queue)}/messages/batch", list[BatchOutcome], {"messages": keyed})


def claim(
    scope: str,
    queue: str,
    batch_size: int,
    wait_s: float,
    consumer: str | None,
    labels: Mapping[str, str] | None,
    subscription: str | None,
) -> Call[list[Claimed]]:
    """Not sent again: a lost answer's messages come back when their claim ends."""
    body = _given(batch_size=batch_size, wait_s=wait_s, consumer=consumer, labels=labels, subscription=subscription)
    return Call("POST", f"{_queue(scope, queue)}/claim", list[Claimed], body, safe=False, waits_s=wait_s)


def settle(scope: str, verdict: str, message_id: str, token: str, options: Mapping[str, Any]) -> Call[Settled]:
    body = {"claim_token": token, **_given(**options)}
    # The same verdict once more is answered as done; a release that was carried out is not ours any more.
    return Call("POST", f"{_message(scope, message_id)}/{verdict}", Settled, body, safe=verdict != "release")


def settle_batch(scope: str, queue: str, verdict: str, items: Iterable[Mapping[str, Any]]) -> Call[list[Settled]]:
    """An item that fails may bring the exception itself as `error`."""
    body = {
        "items": [
            {**item, "error": told(error)} if (error := item.get("error")) is not None else item for item in items
        ]
    }
    return Call("POST", f"{_queue(scope, queue)}/{verdict}", list[Settled], body, safe=verdict != "release")


def search(scope: str, question: Mapping[str, Any]) -> Call[Page[Message]]:
    return Call("GET", f"{_scope(scope)}/messages", list[Message], question=question, paged=True)


def message(scope: str, message_id: str) -> Call[Message]:
    return Call("GET", _message(scope, message_id), Message)


def history(scope: str, message_id: str) -> Call[list[Step]]:
    return Call("GET", f"{_message(scope, message_id)}/history", list[Step])


def cancel(scope: str, message_id: str, reason: str | None) -> Call[Message]:
    return Call("POST", f"{_message(scope, message_id)}/cancel", Message, _given(reason=reason))


def reprioritise(scope: str, message_id: str, tier: str | None, score: int | None) -> Call[Message]:
    return Call("PATCH", _message(scope, message_id), Message, _given(priority_tier=tier, priority_score=score))


# --- dead letters, subscriptions ------------------------------------------------------------------------------------


def dead_letters(scope: str, question: Mapping[str, Any]) -> Call[Page[DeadLetter]]:
    return Call("GET", f"{_scope(scope)}/dead-letters", list[DeadLetter], question=question, paged=True)


def start_replay(
    scope: str, wanted: Mapping[str, Any], rate_per_s: int | None, max_replays: int | None, *, dry_run: bool
) -> Call[Replay]:
    body = {"filter": dict(wanted), "dry_run": dry_run, **_given(rate_per_s=rate_per_s, max_replays=max_replays)}
    return Call("POST", f"{_scope(scope)}/replays", Replay, body, safe=dry_run)


def replays(scope: str, limit: int, cursor: str | None) -> Call[Page[Replay]]:
    question = {"limit": limit, "cursor": cursor}
    return Call("GET", f"{_scope(scope)}/replays", list[Replay], question=question, paged=True)


def replay(scope: str, replay_id: str) -> Call[Replay]:
    return Call("GET", f"{_scope(scope)}/replays/{slug(replay_id)}", Replay)


def cancel_replay(scope: str, replay_id: str) -> Call[Replay]:
    return Call("POST", f"{_scope(scope)}/replays/{slug(replay_id)}/cancel", Replay, safe=False)


def subscriptions(scope: str, queue: str) -> Call[list[Subscription]]:
    return Call("GET", f"{_queue(scope, queue)}/subscriptions", list[Subscription])


def subscribe(scope: str, queue: str, name: str, after: str | int | None) -> Call[Subscription]:
    body = {"name": name, **_given(after=after)}
    return Call("POST", f"{_queue(scope, queue)}/subscriptions", Subscription, body, safe=False)


def unsubscribe(scope: str, queue: str, name: str) -> Call[None]:
    return Call("DELETE", f"{_queue(scope, queue)}/subscriptions/{slug(name)}", None, safe=False)


# --- the installation -----------------------------------------------------------------------------------------------


def keys(limit: int, cursor: str | None) -> Call[Page[ApiKey]]:
    return Call("GET", "/v1/keys", list[ApiKey], question={"limit": limit, "cursor": cursor}, paged=True)


def create_key(
    name: str,
    permissions: Iterable[str],
    scopes: Iterable[str] | None,
    queues: Iterable[str] | None,
    expires_at: int | datetime | None,
) -> Call[NewKey]:
    limits = _given(
        scopes=None if scopes is None else list(scopes),
        queues=None if queues is None else list(queues),
        expires_at=expires_at,
    )
    return Call("POST", "/v1/keys", NewKey, {"name": name, "permissions": list(permissions), **limits}, safe=False)


def revoke_key(key_id: str) -> Call[ApiKey]:
    return Call("DELETE", f"/v1/keys/{slug(key_id)}", ApiKey)


def usage(question: Mapping[str, Any]) -> Call[list[UsageRow]]:
    return Call("GET", "/v1/usage", list[UsageRow], question=question)


def audit(question: Mapping[str, Any]) -> Call[Page[AuditEntry]]:
    return Call("GET", "/v1/audit", list[AuditEntry], question=question, paged=True)


def trace(correlation_id: str, scope: str | None) -> Call[Trace]:
    return Call("GET", "/v1/trace", Trace, question={"correlation_id": correlation_id, "scope": scope})


def agents() -> Call[list[Agent]]:
    return Call("GET", "/v1/agents", list[Agent])


def run_agent(name: str) -> Call[Agent]:
    return Call("POST", f"/v1/agents/{slug(name)}/run", Agent, waits_s=60)
