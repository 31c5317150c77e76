"""A walk over the OpenAPI document: one good request for each operation, and what was answered."""

from __future__ import annotations

from typing import Any

from tests.support.room import Room
from tests.support.seeds import HOOK, RULE, Seeds

ONLY_WITH_REDIS = {
    "GET /v1/scopes/{scope}/events",
    "POST /v1/scopes/{scope}/stream-dead-letters",
    "POST /v1/scopes/{scope}/stream-watches",
    "DELETE /v1/scopes/{scope}/stream-watches/{stream_queue}",
}

BODIES: dict[str, Any] = {
    "MessageIn": {"body": 1},
    "BatchIn": {"items": [{"body": 1}]},
    "ScopeIn": {"slug": "walked"},
    "QueueIn": {"slug": "walked"},
    "SubscriptionIn": {"name": "walked"},
    "KeyIn": {"name": "walked", "permissions": ["view"]},
    "Rule": {"name": "walked", **RULE},
    "DryRunIn": {"rule": {"name": "walked", **RULE}, "queue": "replaced", "last": 1},
    "PatternIn": {"name": "walked", "spec": {"title": "look"}},
    "SchemaIn": {"name": "walked", "definition": {}},
    "BindingIn": {"name": "replaced"},
    "DecisionIn": {"answer": {}},
    "HandOverIn": {"to": "somebody"},
    "CommentIn": {"text": "hello"},
    "GrantIn": {"key_id": "replaced", "permissions": ["view"]},
    "LimitsIn": {"requests_per_s": 500},
    "WebhookIn": {"url": HOOK},
    "ErasureIn": {"subject": "somebody"},
    "PriorityIn": {"priority_score": 5},
    "ChunkIn": {"claim_token": "replaced", "body": 1},
    **{name: {"claim_token": "replaced"} for name in ("CompleteIn", "FailIn", "ReleaseIn", "ExtendIn")},
    **{name: {"items": [{}]} for name in ("CompleteBatch", "FailBatch", "ReleaseBatch", "ExtendBatch")},
}
"""One good body for each kind; every other kind may be `{}`. Ids and tokens are those of things made just before."""


async def operations_of(room: Room) -> dict[str, Any]:
    """Every operation of the document by method and path: `"GET /v1/scopes"`."""
    document = (await room.ask("GET", "/openapi.json")).json()
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def walked(room: Room, operations: dict[str, Any]) -> dict[str, Any]:
    """The `data` of a good answer to each operation below /v1 that needs no Redis; lists are listed when all is made."""
    answers: dict[str, Any] = {}
    addresses: dict[str, str] = {}
    seeds = Seeds(room.service.url, room.key, "walk")
    for name, operation in operations.items():
        method, _, path = name.partition(" ")
        if name not in ONLY_WITH_REDIS and path.startswith("/v1/"):
            kind = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            found = seeds.path_of(method, path)
            body = BODIES.get(kind.get("$ref", "").rpartition("/")[2], {}) if kind else None
            address = path.format_map(found) + _question(seeds, path)
            answers[name] = seeds.do(method, address, seeds.body_for(path, body, found))
            if answers[name] == [] and method == "GET":
                addresses[name] = address
    for name, address in addresses.items():
        answers[name] = seeds.do("GET", address)
    seeds.close()
    return answers


def _question(seeds: Seeds, path: str) -> str:
    return f"?correlation_id={seeds.message(seeds.queue())}" if path == "/v1/trace" else ""
