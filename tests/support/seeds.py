"""Things for requests to be about: for each operation of the document something made just now, so that it can succeed.

A module of its own without pytest, because schemathesis loads it too (see schemathesis_hooks.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import httpx

from tests.pace import limit

HOOK = "https://hooks.example.com/events"
RULE = {"trigger": "message_published", "condition": "false", "actions": [{"action": "drop"}]}


class Seeds:
    """Makes what an operation needs, over HTTP, with a key that may do everything. `name` keeps two of them apart."""

    def __init__(self, url: str, key: str, name: str) -> None:
        self._http = httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=limit(60))
        self._numbers = count(1)
        self._name = name
        self.scope = f"seeds-{name}"
        self.do("POST", "/v1/scopes", {"slug": self.scope})
        self.token = ""
        """Of the message that the last call of `path_of` was about, if it is claimed."""

    def do(self, method: str, path: str, body: Any = None) -> Any:
        said = self._http.request(method, path, json=body)
        assert said.is_success, f"{method} {path}: {said.status_code} {said.text}"
        return said.json()["data"] if said.headers.get("content-type") == "application/json" else None

    def close(self) -> None:
        self._http.close()

    # --- one of each ---------------------------------------------------------------------------------------------------

    def fresh(self) -> str:
        return f"{self._name}-{next(self._numbers)}"

    def at(self, place: str) -> str:
        return f"/v1/scopes/{self.scope}/{place}"

    def queue(self, **settings: Any) -> str:
        return self.do("POST", self.at("queues"), {"slug": self.fresh(), **settings})["slug"]

    def message(self, queue: str) -> str:
        return self.do("POST", self.at(f"queues/{queue}/messages"), {"body": {"n": 1}})["id"]

    def claimed(self, queue: str) -> str:
        self.message(queue)
        (claimed,) = self.do("POST", self.at(f"queues/{queue}/claim"), {})
        self.token = claimed["claim_token"]
        return claimed["id"]

    def dead(self, queue: str) -> str:
        message_id = self.claimed(queue)
        self.do("POST", self.at(f"messages/{message_id}/fail"), {"claim_token": self.token, "dead": True})
        return message_id

    def review(self, queue: str) -> str:
        return self.do("POST", self.at(f"dead-letters/{self.dead(queue)}/review"))["id"]

    def held_review(self, queue: str) -> str:
        review = self.review(queue)
        self.do("POST", self.at(f"reviews/{review}/claim"))
        return review

    def key(self) -> str:
        return self.do("POST", "/v1/keys", {"name": self.fresh(), "permissions": ["view"]})["key"]["id"]

    def grant(self) -> str:
        return self.do("POST", self.at("grants"), {"key_id": self.key(), "permissions": ["view"]})["id"]

    def webhook(self) -> str:
        return self.do("POST", self.at("webhooks"), {"url": HOOK})["webhook"]["id"]

    def delivery(self, webhook: str, queue: str) -> str:
        self.message(queue)
        for _ in range(50):  # the relay takes the events of everybody else first
            self.do("POST", "/v1/agents/outbox_relay/run")
            if made := self.do("GET", self.at(f"webhooks/{webhook}/deliveries")):
                return made[0]["id"]
        raise AssertionError("no event reached the webhook")

    def replay(self, queue: str) -> str:
        self.dead(queue)
        return self.do("POST", self.at("replays"), {"filter": {"queue": queue}, "rate_per_s": 1})["id"]

    def subscription(self, queue: str) -> str:
        return self.do("POST", self.at(f"queues/{queue}/subscriptions"), {"name": self.fresh()})["name"]

    def schema(self) -> str:
        name = self.fresh()
        self.do("POST", self.at("schemas"), {"name": name, "definition": {}})
        return name

    def named(self, place: str) -> str:
        """A review pattern or a rule."""
        body = {"spec": {"title": "look"}} if place == "review-patterns" else RULE
        name = self.fresh()
        self.do("POST", self.at(place), {"name": name, **body})
        return name

    def trusted(self, *, is_trusted: bool) -> str:
        slug = self.do("POST", "/v1/scopes", {"slug": self.fresh()})["slug"]
        if is_trusted:
            self.do("PUT", self.at(f"trusts/{slug}"))
        return slug

    # --- what an operation is about ----------------------------------------------------------------------------------

    def path_of(self, method: str, path: str) -> dict[str, str]:
        """Values for the names in an operation's address."""
        self.token = ""
        changes = method in ("DELETE", "PATCH")
        if path == "/v1/scopes/{scope}":
            return {"scope": self.do("POST", "/v1/scopes", {"slug": self.fresh()})["slug"] if changes else self.scope}
        broadcast = {"consumer_mode": "broadcast"} if "/subscriptions" in path else {}
        queue = self.queue(**broadcast) if "{" in path and "/v1/scopes" in path else ""
        found = {"scope": self.scope, "queue": queue, "agent": "message_archiver", "stream_queue": "letters"}
        makers: dict[str, Callable[[], str]] = {
            "{message_id}": lambda: self._message_for(path, method, queue),
            "{review_id}": lambda: self.held_review(queue) if path.endswith(_HELD) else self.review(queue),
            "{key_id}": self.key,
            "{grant_id}": self.grant,
            "{webhook_id}": self.webhook,
            "{replay_id}": lambda: self.replay(queue),
            "{rule}": lambda: self.named("rules"),
            "{erasure_id}": lambda: self.do("POST", self.at("erasures"), {"subject": self.fresh()})["id"],
            "{trusted}": lambda: self.trusted(is_trusted=method == "DELETE"),
            "{subscription}": lambda: self.subscription(queue),
            "{schema}": self.schema,
            "{pattern}": lambda: self.named("review-patterns"),
        }
        for place, make in makers.items():
            if place in path:
                found[place.strip("{}")] = make()
        if "{delivery_id}" in path:
            found["delivery_id"] = self.delivery(found["webhook_id"], queue)
        if path.endswith("/deliveries"):
            self.delivery(found["webhook_id"], queue)
        if path.endswith("/queues/{queue}/claim"):
            self.message(queue)
        if path.endswith("/subscriptions") and method == "GET":
            self.subscription(queue)
        if path.endswith("/schema") and method != "PUT":
            self.do("PUT", self.at(f"queues/{queue}/schema"), {"name": self.schema()})
        if path.endswith(("/complete", "/fail", "/release", "/extend")) and "{queue}" in path:
            found["message_id"] = self.claimed(queue)
        return found

    def _message_for(self, path: str, method: str, queue: str) -> str:
        if path.endswith(("/complete", "/fail", "/release", "/extend")) or (method, path[-7:]) == ("POST", "/chunks"):
            return self.claimed(queue)
        return self.dead(queue) if "/dead-letters/" in path else self.message(queue)

    def body_for(self, path: str, body: Any, found: dict[str, str]) -> Any:
        """A body about what `path_of` has made: tokens and ids in it are the real ones, all else stays as it is."""
        if not isinstance(body, dict):
            return body
        made: dict[str, Any] = dict(body)  # pyright: ignore[reportUnknownArgumentType]
        if self.token and isinstance(made.get("claim_token"), str):
            made["claim_token"] = self.token
        items = made.get("items")
        if self.token and isinstance(items, list) and items and isinstance(items[0], dict):
            made["items"] = [{**items[0], "id": found["message_id"], "claim_token": self.token}, *items[1:]]
        if path.endswith("/rule-dry-runs") and isinstance(made.get("queue"), str):
            made["queue"] = self.queue()
            self.message(made["queue"])
        if path.endswith("/grants") and isinstance(made.get("key_id"), str):
            made["key_id"] = self.key()
        if path.endswith(("/rules", "/rules/{rule}")) and made.get("enabled", True) is True:
            made["enabled"] = False  # a rule made by chance would take the messages of all that follows
        if path.endswith("/rules/{rule}") and isinstance(made.get("name"), str):
            made["name"] = found["rule"]
        if path.endswith("/queues/{queue}/schema") and isinstance(made.get("name"), str):
            made["name"] = self.schema()
        if path.endswith("/decide") and isinstance(made.get("answer"), dict):
            made["answer"] = {"decision": "approve"}
        return made


_HELD = ("/release", "/hand-over", "/decide")
"""What only the one who holds a review may do."""
