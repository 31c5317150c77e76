"""The calls about rules, reviews, schemas, access, webhooks, parts and erasures, written once for both clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from relevo.client.request import Call, slug
from relevo.contract.chunks import Chunk, Chunks
from relevo.contract.erasures import Erasure
from relevo.contract.grants import Grant
from relevo.contract.keys import KeyLimits, NewKey
from relevo.contract.pages import Page
from relevo.contract.reviews import Pattern, Review, StreamWatch
from relevo.contract.rules import StoredRule, Tried
from relevo.contract.schemas import Binding, Compatibility, Schema
from relevo.contract.scopes import Trust
from relevo.contract.webhooks import Delivery, NewSecret, Webhook


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _in(scope: str, *parts: str) -> str:
    return "/".join(["/v1/scopes", slug(scope), *map(slug, parts)])


# --- routing ----------------------------------------------------------------------------------------------------------


def rules(scope: str) -> Call[list[StoredRule]]:
    return Call("GET", _in(scope, "rules"), list[StoredRule])


def rule(scope: str, name: str) -> Call[StoredRule]:
    return Call("GET", _in(scope, "rules", name), StoredRule)


def create_rule(scope: str, wanted: Mapping[str, Any]) -> Call[StoredRule]:
    return Call("POST", _in(scope, "rules"), StoredRule, dict(wanted), safe=False)


def change_rule(scope: str, name: str, wanted: Mapping[str, Any]) -> Call[StoredRule]:
    return Call("PUT", _in(scope, "rules", name), StoredRule, {"name": name, **wanted})


def reset_rule(scope: str, name: str) -> Call[StoredRule]:
    return Call("POST", _in(scope, "rules", name, "reset"), StoredRule)


def delete_rule(scope: str, name: str) -> Call[None]:
    return Call("DELETE", _in(scope, "rules", name), None, safe=False)


def try_rule(scope: str, wanted: Mapping[str, Any], queue: str, options: Mapping[str, Any]) -> Call[list[Tried]]:
    body = {"rule": dict(wanted), "queue": queue, **options}
    return Call("POST", _in(scope, "rules", "dry-run"), list[Tried], body)


def trusts(scope: str) -> Call[list[Trust]]:
    return Call("GET", _in(scope, "trusts"), list[Trust])


def trust(scope: str, trusted: str) -> Call[Trust]:
    return Call("PUT", _in(scope, "trusts", trusted), Trust)


def distrust(scope: str, trusted: str) -> Call[None]:
    return Call("DELETE", _in(scope, "trusts", trusted), None, safe=False)


# --- reviews ----------------------------------------------------------------------------------------------------------


def reviews(scope: str, question: Mapping[str, Any]) -> Call[Page[Review]]:
    return Call("GET", _in(scope, "reviews"), list[Review], question=question, paged=True)


def review(scope: str, review_id: str) -> Call[Review]:
    return Call("GET", _in(scope, "reviews", review_id), Review)


def review_result(scope: str, review_id: str, wait_s: float) -> Call[Review]:
    return Call("GET", _in(scope, "reviews", review_id, "result"), Review, question={"wait_s": wait_s}, waits_s=wait_s)


def act_on_review(
    scope: str, review_id: str, verb: str, body: Mapping[str, Any] | None, person: str | None
) -> Call[Review]:
    """Claiming twice is holding longer; everything else is done once."""
    headers = {} if person is None else {"relevo-person": person}
    path = _in(scope, "reviews", review_id, verb)
    return Call("POST", path, Review, None if body is None else dict(body), safe=verb == "claim", headers=headers)


def review_dead_letter(scope: str, message_id: str, asked: Mapping[str, Any] | None) -> Call[Review]:
    body = {} if asked is None else {"review": dict(asked)}
    return Call("POST", _in(scope, "dead-letters", message_id, "review"), Review, body, safe=False)


def review_stream_dead_letter(
    scope: str, stream_queue: str, entry_id: str, asked: Mapping[str, Any] | None
) -> Call[Review]:
    body = {"stream_queue": stream_queue, "entry_id": entry_id, **({} if asked is None else {"review": dict(asked)})}
    return Call("POST", _in(scope, "stream-dead-letters"), Review, body)


def stream_watches(scope: str) -> Call[list[StreamWatch]]:
    return Call("GET", _in(scope, "stream-watches"), list[StreamWatch])


def watch_stream(scope: str, stream_queue: str, asked: Mapping[str, Any] | None) -> Call[StreamWatch]:
    body = {"stream_queue": stream_queue, **({} if asked is None else {"review": dict(asked)})}
    return Call("POST", _in(scope, "stream-watches"), StreamWatch, body)


def unwatch_stream(scope: str, stream_queue: str) -> Call[None]:
    return Call("DELETE", _in(scope, "stream-watches", stream_queue), None, safe=False)


def patterns(scope: str) -> Call[list[Pattern]]:
    return Call("GET", _in(scope, "review-patterns"), list[Pattern])


def pattern(scope: str, name: str, version: int | None) -> Call[Pattern]:
    return Call("GET", _in(scope, "review-patterns", name), Pattern, question={"version": version})


def add_pattern(scope: str, name: str, wanted: Mapping[str, Any]) -> Call[Pattern]:
    return Call("POST", _in(scope, "review-patterns"), Pattern, {"name": name, "spec": dict(wanted)}, safe=False)


def preview_pattern(
    scope: str, name: str, version: int | None, parameters: Mapping[str, Any], options: Mapping[str, Any]
) -> Call[dict[str, Any]]:
    body = {"parameters": dict(parameters), **_given(version=version), **options}
    return Call("POST", _in(scope, "review-patterns", name, "preview"), dict[str, Any], body)


# --- bodies: schemas, parts, erasures ---------------------------------------------------------------------------------


def schemas(scope: str) -> Call[list[Schema]]:
    return Call("GET", _in(scope, "schemas"), list[Schema])


def schema(scope: str, name: str, version: int | None) -> Call[Schema]:
    return Call("GET", _in(scope, "schemas", name), Schema, question={"version": version})


def add_schema(scope: str, name: str, wanted: Any) -> Call[Schema]:
    return Call("POST", _in(scope, "schemas"), Schema, {"name": name, "definition": wanted}, safe=False)


def delete_schema(scope: str, name: str) -> Call[None]:
    return Call("DELETE", _in(scope, "schemas", name), None, safe=False)


def bound_schema(scope: str, queue: str) -> Call[Binding | None]:
    return Call("GET", _in(scope, "queues", queue, "schema"), Binding | None)


def bind_schema(scope: str, queue: str, name: str, version: int | None, *, force: bool) -> Call[Binding]:
    body = {"name": name, "force": force, **_given(version=version)}
    return Call("PUT", _in(scope, "queues", queue, "schema"), Binding, body)


def unbind_schema(scope: str, queue: str) -> Call[None]:
    return Call("DELETE", _in(scope, "queues", queue, "schema"), None, safe=False)


def compatibility(scope: str, name: str, queue: str, version: int | None) -> Call[Compatibility]:
    path = _in(scope, "schemas", name, "compatibility", queue)
    return Call("GET", path, Compatibility, question={"version": version})


def append_chunk(scope: str, message_id: str, token: str, body: Any, number: int | None, *, final: bool) -> Call[Chunk]:
    """With a number it is the same part however often it is sent."""
    sent = {"claim_token": token, "body": body, "final": final, **_given(number=number)}
    return Call("POST", _in(scope, "messages", message_id, "chunks"), Chunk, sent, safe=number is not None)


def chunks(scope: str, message_id: str, after: int, stream: str | None, wait_s: float, limit: int) -> Call[Chunks]:
    question = {"after": after, "stream": stream, "wait_s": wait_s, "limit": limit}
    return Call("GET", _in(scope, "messages", message_id, "chunks"), Chunks, question=question, waits_s=wait_s)


def erase(scope: str, subject: str) -> Call[Erasure]:
    """Sent twice it finds nothing left the second time."""
    return Call("POST", _in(scope, "erasures"), Erasure, {"subject": subject})


def erasures(scope: str, limit: int, cursor: str | None) -> Call[Page[Erasure]]:
    question = {"limit": limit, "cursor": cursor}
    return Call("GET", _in(scope, "erasures"), list[Erasure], question=question, paged=True)


def erasure(scope: str, erasure_id: str) -> Call[Erasure]:
    return Call("GET", _in(scope, "erasures", erasure_id), Erasure)


# --- access -----------------------------------------------------------------------------------------------------------


def grants(scope: str, key_id: str | None) -> Call[list[Grant]]:
    return Call("GET", _in(scope, "grants"), list[Grant], question={"key_id": key_id})


def grant(scope: str, key_id: str, permissions: Iterable[str], queue: str | None) -> Call[Grant]:
    body = {"key_id": key_id, "permissions": list(permissions), **_given(queue=queue)}
    return Call("POST", _in(scope, "grants"), Grant, body, safe=False)


def revoke_grant(scope: str, grant_id: str) -> Call[None]:
    return Call("DELETE", _in(scope, "grants", grant_id), None, safe=False)


def rotate_key(key_id: str, grace_s: int) -> Call[NewKey]:
    return Call("POST", f"/v1/keys/{slug(key_id)}/rotate", NewKey, {"grace_s": grace_s}, safe=False)


def key_limits(key_id: str) -> Call[KeyLimits]:
    return Call("GET", f"/v1/keys/{slug(key_id)}/limits", KeyLimits)


def limit_key(key_id: str, wanted: Mapping[str, Any]) -> Call[KeyLimits]:
    return Call("PUT", f"/v1/keys/{slug(key_id)}/limits", KeyLimits, _given(**wanted))


# --- telling ----------------------------------------------------------------------------------------------------------


def webhooks(scope: str, limit: int, cursor: str | None) -> Call[Page[Webhook]]:
    question = {"limit": limit, "cursor": cursor}
    return Call("GET", _in(scope, "webhooks"), list[Webhook], question=question, paged=True)


def webhook(scope: str, webhook_id: str) -> Call[Webhook]:
    return Call("GET", _in(scope, "webhooks", webhook_id), Webhook)


def create_webhook(scope: str, url: str, events: Iterable[str]) -> Call[NewSecret]:
    return Call("POST", _in(scope, "webhooks"), NewSecret, {"url": url, "events": list(events)}, safe=False)


def change_webhook(scope: str, webhook_id: str, changes: Mapping[str, Any]) -> Call[Webhook]:
    return Call("PATCH", _in(scope, "webhooks", webhook_id), Webhook, dict(changes))


def delete_webhook(scope: str, webhook_id: str) -> Call[None]:
    return Call("DELETE", _in(scope, "webhooks", webhook_id), None, safe=False)


def rotate_webhook(scope: str, webhook_id: str, overlap_s: int) -> Call[NewSecret]:
    return Call("POST", _in(scope, "webhooks", webhook_id, "rotate"), NewSecret, {"overlap_s": overlap_s}, safe=False)


def deliveries(scope: str, webhook_id: str, question: Mapping[str, Any]) -> Call[Page[Delivery]]:
    path = _in(scope, "webhooks", webhook_id, "deliveries")
    return Call("GET", path, list[Delivery], question=question, paged=True)


def redeliver(scope: str, webhook_id: str, delivery_id: str) -> Call[Delivery]:
    path = _in(scope, "webhooks", webhook_id, "deliveries", delivery_id, "redeliver")
    return Call("POST", path, Delivery, safe=False)


def events(scope: str, question: Mapping[str, Any], after: str | None) -> Call[None]:
    """Not answered once, but for as long as somebody listens: see `events` of the clients."""
    headers = {"accept": "text/event-stream", **({} if after is None else {"last-event-id": after})}
    return Call("GET", _in(scope, "events"), None, question=question, headers=headers)
