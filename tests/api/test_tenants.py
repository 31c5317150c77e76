"""Another tenant's things are not there: every endpoint, asked with a foreign key, tells nothing and changes nothing."""

from collections import defaultdict
from typing import Any

from tests.support.room import QUEUE, Room

HOOK = "https://hooks.example.com"

BODIES: dict[str, Any] = {
    "MessageIn": {"body": 1},
    "BatchIn": {"items": [{"body": 1}]},
    "ScopeIn": {"slug": "foreign"},
    "QueueIn": {"slug": "foreign"},
    "SubscriptionIn": {"name": "foreign"},
    "KeyIn": {"name": "foreign", "permissions": ["view"]},
    "CompleteIn": {"claim_token": "token"},
    "FailIn": {"claim_token": "token"},
    "ReleaseIn": {"claim_token": "token"},
    "ExtendIn": {"claim_token": "token"},
    "Rule": {"name": "foreign", "trigger": "message_published", "actions": [{"action": "drop"}]},
    "DryRunIn": {
        "rule": {"name": "foreign", "trigger": "message_published", "actions": [{"action": "drop"}]},
        "queue": "invoices",
        "last": 1,
    },
    "PatternIn": {"name": "foreign", "spec": {"title": "foreign"}},
    "SchemaIn": {"name": "foreign", "definition": {}},
    "BindingIn": {"name": "readers"},
    "DecisionIn": {"answer": {"decision": "approve"}},
    "HandOverIn": {"to": "somebody"},
    "CommentIn": {"text": "hello"},
    "StreamLetterIn": {"stream_queue": "foreign", "entry_id": "1-0"},
    "WatchIn": {"stream_queue": "foreign"},
    "GrantIn": {"key_id": "0" * 26, "permissions": ["view"]},
    "LimitsIn": {"requests_per_s": 5},
    "WebhookIn": {"url": HOOK},
    "WebhookChange": {"state": "disabled"},
    "ChunkIn": {"claim_token": "token", "body": 1},
    "ErasureIn": {"subject": "somebody"},
    "PriorityIn": {"priority_score": 5},
}
"""Bodies that are good enough to be carried out, were it not for the key; every other kind may be `{}` or items."""


QUESTIONS = {"GET /v1/trace": {"correlation_id": "corr-zanzibar"}}
"""What an address must ask."""


async def _furnish(room: Room) -> dict[str, str]:
    """One of everything; the names are to be found nowhere else."""
    first = await room.publish(
        body={"secret": "zanzibar"}, correlation_id="corr-zanzibar", labels={"subject": "zanzibar"}
    )
    second = await room.publish()
    claimed = await room.claim(batch_size=2)
    tokens = {each["id"]: each["claim_token"] for each in claimed}
    dead = {"claim_token": tokens[second], "dead": True}
    await room.do("POST", f"/v1/scopes/billing/messages/{second}/fail", dead)
    await room.do("POST", "/v1/scopes/billing/queues", {"slug": "news", "consumer_mode": "broadcast"})
    await room.do("POST", "/v1/scopes/billing/queues/news/subscriptions", {"name": "readers"})
    key = await room.do("POST", "/v1/keys", {"name": "zanzibar", "permissions": ["view"]})
    replay = await room.do("POST", "/v1/scopes/billing/replays", {"rate_per_s": 1})
    review = await room.do("POST", f"/v1/scopes/billing/dead-letters/{second}/review")
    await room.do("POST", "/v1/scopes/billing/rules", {**BODIES["Rule"], "name": "sorting", "condition": "false"})
    await room.do("POST", "/v1/scopes/billing/schemas", {"name": "readers", "definition": {"title": "zanzibar"}})
    await room.do("POST", "/v1/scopes/billing/review-patterns", {"name": "readers", "spec": {"title": "zanzibar"}})
    hook = await room.do("POST", "/v1/scopes/billing/webhooks", {"url": f"{HOOK}/zanzibar"})
    erasure = await room.do("POST", "/v1/scopes/billing/erasures", {"subject": "nobody"})
    grant = await room.do("POST", "/v1/scopes/billing/grants", {"key_id": key["key"]["id"], "permissions": ["consume"]})
    await room.do("POST", "/v1/scopes", {"slug": "letters"})
    await room.do("PUT", "/v1/scopes/billing/trusts/letters")
    return {
        "scope": "billing",
        "queue": "invoices",
        "message_id": first,
        "token": tokens[first],
        "name": "readers",
        "key_id": key["key"]["id"],
        "key": key["key"]["id"],
        "replay_id": replay["id"],
        "agent": "message_archiver",
        "review_id": review["id"],
        "rule": "sorting",
        "webhook": hook["webhook"]["id"],
        "erasure": erasure["id"],
        "grant": grant["id"],
        "trusted": "letters",
        "stream_queue": "letters",
    }


async def _walk(room: Room, there: dict[str, str], key: str) -> dict[str, tuple[int, str]]:
    """Every operation of the document, asked for the things that are there; status and text of each answer."""
    document = (await room.ask("GET", "/openapi.json")).json()
    answers: dict[str, tuple[int, str]] = {}
    for path, operations in document["paths"].items():
        if not path.startswith("/v1/"):
            continue
        for method, operation in operations.items():
            body = None
            if "requestBody" in operation:
                name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                item = {"id": there["message_id"], "claim_token": there["token"]}
                body = {"items": [item]} if name.endswith("Batch") else BODIES.get(name, {})
                if "{rule}" in path:
                    body = {**body, "name": there["rule"]}
                if "claim_token" in body:
                    body = {**body, "claim_token": there["token"]}
            operation_name = f"{method.upper()} {path}"
            address = path.format_map(defaultdict(lambda: "0" * 26, there))
            said = await room.ask(method.upper(), address, body, key=key, params=QUESTIONS.get(operation_name))
            answers[operation_name] = (said.status_code, said.text)
    return answers


def _of_the_tenant_alone(operation: str) -> bool:
    """Operations that name nothing of somebody else: they answer about, or change, the caller's own tenant."""
    return operation in {
        "GET /v1/scopes",
        "POST /v1/scopes",
        "GET /v1/usage",
        "GET /v1/audit",
        "GET /v1/keys",
        "POST /v1/keys",
        "GET /v1/audit/export",
        "GET /v1/trace",
    }


_OF_THE_INSTALLATION = {"GET /v1/agents", "POST /v1/agents/{agent}/run"}
"""What all tenants share: open to the operator's key, and to no tenant's."""


async def test_the_walk_asks_for_what_is_there_and_what_can_be_done(room: Room) -> None:
    """Else a stranger's 404 would tell of a slip in the walk. What was deleted on the way is gone, and here is no Redis."""
    answers = await _walk(room, await _furnish(room), room.key)
    deleted = {operation.partition(" ")[2] for operation in answers if operation.startswith("DELETE ")}
    for operation, (status, text) in answers.items():
        below_deleted = any(operation.partition(" ")[2].startswith(path) for path in deleted)
        assert status < 300 or status in (403, 409) or (status == 404 and below_deleted), (
            f"{operation}: {status} {text}"
        )


async def test_a_foreign_key_sees_nothing_at_any_endpoint(room: Room) -> None:
    there = await _furnish(room)
    before = await _picture(room, there)
    answers = await _walk(room, there, await room.tenant("other"))
    assert len(answers) > 35
    for operation, (status, text) in answers.items():
        if _of_the_tenant_alone(operation):
            assert status in (200, 201), f"{operation}: {status} {text}"
        elif operation in _OF_THE_INSTALLATION:
            assert status == 403, f"{operation}: {status} {text}"
        else:
            assert status == 404, f"{operation}: {status} {text}"
        for told in ("zanzibar", "acme", "invoices", there["token"]):
            assert told not in text.replace("queue 'invoices'", ""), f"{operation} tells of {told}"
    assert await _picture(room, there) == before


async def test_a_key_limited_to_another_scope_sees_nothing_of_this_one(room: Room) -> None:
    there = await _furnish(room)
    await room.do("POST", "/v1/scopes", {"slug": "elsewhere"})
    all_permissions = ["view", "publish", "consume", "review", "manage"]
    made = await room.do("POST", "/v1/keys", {"name": "one", "permissions": all_permissions, "scopes": ["elsewhere"]})
    for operation, (status, text) in (await _walk(room, there, made["secret"])).items():
        if _of_the_tenant_alone(operation):
            assert status in (200, 201, 403, 404), f"{operation}: {status} {text}"
        elif operation in _OF_THE_INSTALLATION:
            assert status == 403, f"{operation}: {status} {text}"
        elif "/keys/" in operation:
            assert status in (403, 404), f"{operation}: {status} {text}"
        else:
            assert status == 404, f"{operation}: {status} {text}"
        assert "zanzibar" not in text, operation


async def test_a_key_limited_to_a_queue_sees_the_others_neither_in_lists_nor_by_name(room: Room) -> None:
    await room.do("POST", "/v1/scopes/billing/queues", {"slug": "refunds"})
    kept = await room.publish(body="theirs")
    own = (await room.do("POST", "/v1/scopes/billing/queues/refunds/messages", {"body": "own"}))["id"]
    permissions = ["view", "publish", "consume", "manage"]
    made = await room.do("POST", "/v1/keys", {"name": "one", "permissions": permissions, "queues": ["refunds"]})
    key = made["secret"]
    assert [queue["slug"] for queue in await room.do("GET", "/v1/scopes/billing/queues", key=key)] == ["refunds"]
    assert [each["id"] for each in await room.do("GET", "/v1/scopes/billing/messages", key=key)] == [own]
    assert await room.problem("GET", f"/v1/scopes/billing/messages/{kept}", key=key) == (404, "NOT_FOUND")
    assert await room.problem("POST", f"{QUEUE}/claim", {}, key=key) == (404, "NOT_FOUND")
    assert await room.problem("POST", f"/v1/scopes/billing/messages/{kept}/cancel", key=key) == (404, "NOT_FOUND")
    assert {row["queue"] for row in await room.do("GET", "/v1/usage", key=key)} == {"refunds"}
    assert {entry["queue"] for entry in await room.do("GET", "/v1/audit", key=key)} == {"refunds"}


async def test_a_key_cannot_make_a_key_with_more_rights_than_its_own(room: Room) -> None:
    limited = {"name": "a", "permissions": ["view", "manage"], "scopes": ["billing"]}
    key = (await room.do("POST", "/v1/keys", limited))["secret"]
    wider = (
        {**limited, "scopes": None},
        {**limited, "scopes": ["billing", "x"]},
        {**limited, "permissions": ["publish"]},
    )
    for body in wider:
        assert await room.problem("POST", "/v1/keys", body, key=key) == (403, "PERMISSION_DENIED")
    await room.do("POST", "/v1/keys", {**limited, "permissions": ["view"]}, key=key)


async def test_each_permission_opens_its_own_doors_only(room: Room) -> None:
    keys = {
        permission: (await room.do("POST", "/v1/keys", {"name": permission, "permissions": [permission]}))["secret"]
        for permission in ("view", "publish", "consume", "manage")
    }
    doors: dict[str, tuple[str, str, Any, int]] = {
        "view": ("GET", QUEUE, None, 200),
        "publish": ("POST", f"{QUEUE}/messages", {"body": 1}, 201),
        "consume": ("POST", f"{QUEUE}/claim", {}, 200),
        "manage": ("PATCH", QUEUE, {"max_retries": 7}, 200),
    }
    for permission, (method, path, body, good) in doors.items():
        for holder, key in keys.items():
            said = await room.ask(method, path, body, key=key)
            assert said.status_code == (good if holder == permission else 403), f"{holder} at {method} {path}"


async def test_agents_are_seen_and_run_by_the_operator_only(room: Room) -> None:
    manager = await room.tenant("other")
    for method, path in (("GET", "/v1/agents"), ("POST", "/v1/agents/message_archiver/run")):
        assert await room.problem(method, path, key=manager) == (403, "PERMISSION_DENIED")
        await room.do(method, path)
    listed = await room.do("GET", "/v1/audit?action=agent.run")
    assert [entry["target"] for entry in listed] == ["message_archiver"]


async def test_only_an_operator_makes_an_operator(room: Room) -> None:
    wanted = {"name": "night shift", "permissions": ["operate"]}
    assert await room.problem("POST", "/v1/keys", wanted, key=await room.tenant("other")) == (403, "PERMISSION_DENIED")
    made = await room.do("POST", "/v1/keys", wanted)
    await room.do("GET", "/v1/agents", key=made["secret"])
    limited = await room.do("POST", "/v1/keys", {**wanted, "scopes": ["billing"]})
    assert await room.problem("GET", "/v1/agents", key=limited["secret"]) == (403, "PERMISSION_DENIED")
    grant = {"key_id": made["key"]["id"], "permissions": ["operate"]}
    assert await room.problem("POST", "/v1/scopes/billing/grants", grant) == (422, "INVALID_INPUT")


async def _picture(room: Room, there: dict[str, str]) -> Any:
    """What a stranger must not be able to change."""
    message = await room.do("GET", f"/v1/scopes/billing/messages/{there['message_id']}")
    keys = [{**key, "last_used_at": None} for key in await room.do("GET", "/v1/keys")]
    return (
        message,
        keys,
        await room.do("GET", "/v1/scopes"),
        await room.do("GET", "/v1/scopes/billing/queues"),
        await room.do("GET", "/v1/scopes/billing/replays"),
        await room.do("GET", "/v1/scopes/billing/queues/news/subscriptions"),
        len(await room.do("GET", "/v1/audit")),
    )
