"""The HTTP API does everything one way. These tests walk the OpenAPI document, so a new operation is held to it too."""

import re
from typing import Any

import pytest

from tests.support.room import QUEUE, Room
from tests.support.walk import operations_of

SETTLES = ("complete", "fail", "release", "extend")


@pytest.fixture
async def operations(room: Room) -> dict[str, Any]:
    return await operations_of(room)


def good_answer(operation: dict[str, Any]) -> dict[str, Any]:
    """The schema of `data` in the answer that says it went well."""
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            content = answer.get("content", {}).get("application/json", {}).get("schema", {})
            return content.get("properties", {}).get("data", {})
    return {}


def parameters_of(operation: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in operation.get("parameters", ()) if each["in"] == where}


async def test_every_listing_has_pages(operations: dict[str, Any]) -> None:
    listings = {
        name: operation
        for name, operation in operations.items()
        if name.startswith("GET ") and good_answer(operation).get("type") == "array"
    }
    assert len(listings) >= 20
    for name, operation in listings.items():
        asked = parameters_of(operation, "query")
        assert {"limit", "cursor"} <= set(asked), name
        assert (asked["limit"]["schema"]["default"], asked["limit"]["schema"]["maximum"]) == (100, 500), name


async def test_a_listing_is_read_page_by_page_and_refuses_the_cursor_of_another(room: Room) -> None:
    for number in range(5):
        await room.do("POST", "/v1/scopes/billing/schemas", {"name": f"s{number}", "definition": {}})
        await room.do("POST", "/v1/scopes/billing/schemas", {"name": f"s{number}", "definition": {"type": "object"}})
        rule = {
            "name": f"r{number}",
            "trigger": "message_dead",
            "actions": [{"action": "drop"}],
            "position": number // 2,
        }
        await room.do("POST", "/v1/scopes/billing/rules", rule)
    assert await _names(room, "/v1/scopes/billing/schemas") == ["s0", "s1", "s2", "s3", "s4"]
    assert await _names(room, "/v1/scopes/billing/rules") == ["r0", "r1", "r2", "r3", "r4"]
    first = (await room.ask("GET", "/v1/scopes/billing/schemas?limit=2")).json()
    assert [each["version"] for each in first["data"]] == [2, 2]
    other = f"/v1/scopes/billing/rules?cursor={first['meta']['next_cursor']}"
    assert await room.problem("GET", other) == (400, "BAD_CURSOR")


async def _names(room: Room, path: str) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = (await room.ask("GET", f"{path}?limit=2{cursor}")).json()
        assert 0 < len(page["data"]) <= 2
        found += [each.get("name") or each["rule"]["name"] for each in page["data"]]
        if "next_cursor" not in page["meta"]:
            return found
        cursor = f"&cursor={page['meta']['next_cursor']}"


WITHOUT_A_KEY = {
    "publish_message": "each message has its own idempotency key",
    "publish_messages": "each message has its own idempotency key",
    "claim_messages": "what a lost answer held comes back when the claim ends",
    **{f"{verdict}_message{s}": "a claim is settled once" for verdict in SETTLES for s in ("", "s")},
    "append_chunk": "a chunk has its number",
    "try_rule": "it changes nothing",
    "preview_review_pattern": "it changes nothing",
}


async def test_every_post_takes_an_idempotency_key(operations: dict[str, Any]) -> None:
    posts = {each["operationId"]: each for name, each in operations.items() if name.startswith("POST ")}
    assert set(WITHOUT_A_KEY) <= set(posts)
    for name, operation in posts.items():
        takes = "Idempotency-Key" in parameters_of(operation, "header")
        assert takes == (name not in WITHOUT_A_KEY), name
        if takes:
            assert "IDEMPOTENCY_KEY_REUSED" in operation["responses"]["422"]["description"], name
            assert "IDEMPOTENCY_KEY_BUSY" in operation["responses"]["409"]["description"], name


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


async def test_every_batch_takes_items_and_answers_an_outcome_for_each(room: Room) -> None:
    document = (await room.ask("GET", "/openapi.json")).json()
    batches: list[str] = []
    for name, operation in (await operations_of(room)).items():
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        fields = resolved(body, document).get("properties", {})
        for field, schema in fields.items():
            if "$ref" in schema.get("items", {}) and field not in NO_BATCH.get(operation["operationId"], ()):
                batches.append(operation["operationId"])
                assert (field, list(fields)) == ("items", ["items"]), name
                assert (schema["minItems"], schema["maxItems"]) == (1, 1000), name
                outcome = resolved(good_answer(operation)["items"], document)["properties"]
                assert {"id", "state", "refusal"} <= set(outcome), name
    assert batches == ["publish_messages", *(f"{verdict}_messages" for verdict in SETTLES)]


NO_BATCH: dict[str, tuple[str, ...]] = {"create_rule": ("actions",), "replace_rule": ("actions",)}
"""Lists of objects that are one thing's parts."""


async def test_a_batch_says_for_each_item_what_became_of_it(room: Room) -> None:
    items = [{"body": 1, "idempotency_key": "a"}, {"body": 2, "idempotency_key": "a"}]
    done, refused = await room.do("POST", f"{QUEUE}/messages/batch", {"items": items})
    assert (done["state"], done.get("refusal")) == ("pending", None)
    assert (refused["id"], refused["state"], refused["refusal"]["code"]) == (None, None, "IDEMPOTENCY_CONFLICT")
    unknown = {"id": done["id"], "claim_token": "nobody"}
    (settled,) = await room.do("POST", f"{QUEUE}/complete", {"items": [unknown]})
    assert (settled["id"], settled["state"], settled["refusal"]["code"]) == (done["id"], None, "CLAIM_LOST")


_OTHER_UNIT = re.compile(r"(^|_)(ms|us|ns|millis\w*|secs?|seconds?|mins?|minutes?|hours?|days)$")
_SPOKEN_UNIT = re.compile(r"seconds|minutes|hours|days", re.IGNORECASE)


async def test_every_length_of_time_is_in_seconds_and_says_so(room: Room) -> None:
    document = (await room.ask("GET", "/openapi.json")).json()
    fields = [
        (f"{name}.{field}", field, schema)
        for name, owner in document["components"]["schemas"].items()
        for field, schema in owner.get("properties", {}).items()
    ]
    for name, operation in (await operations_of(room)).items():
        fields += [(f"{name} {each}", each, asked) for each, asked in parameters_of(operation, "query").items()]
    assert len(fields) > 400
    assert [where for where, name, _ in fields if _OTHER_UNIT.search(name)] == []
    unnamed = [
        where
        for where, name, schema in fields
        if _SPOKEN_UNIT.search(schema.get("description", "")) and not name.endswith(("_s", "_at"))
        if "since 1970" not in schema["description"]
    ]
    assert unnamed == []


async def test_an_id_in_an_address_is_spelled_one_way(operations: dict[str, Any]) -> None:
    spellings: dict[str, set[str]] = {}
    shapes: dict[str, set[str]] = {}
    for name, operation in operations.items():
        for segment, parameter in re.findall(r"/([\w-]+)/\{(\w+)\}", name):
            spellings.setdefault(segment, set()).add(parameter)
        for parameter, asked in parameters_of(operation, "path").items():
            kind = "an id" if parameter.endswith("_id") else parameter
            shapes.setdefault(kind, set()).add(str({**asked["schema"], "title": "", "description": ""}))
            assert asked["description"], f"{name} {parameter}"
    assert {segment: found for segment, found in spellings.items() if len(found) > 1} == {}
    assert {kind: found for kind, found in shapes.items() if len(found) > 1} == {}
    for segment, (parameter,) in spellings.items():
        noun = segment.removesuffix("ies") + "y" if segment.endswith("ies") else segment.removesuffix("s")
        noun = noun.rpartition("-")[2]
        assert parameter in (noun, f"{noun}_id") or (segment, parameter) in OTHER_NOUNS, f"{segment}/{{{parameter}}}"


OTHER_NOUNS = {
    ("dead-letters", "message_id"),  # a dead letter is a message
    ("stream-watches", "stream_queue"),  # a watch has the name of what it watches
    ("trusts", "trusted"),
    ("compatibility", "queue"),
}
"""What is named after another thing than the folder it is in."""


async def test_no_address_can_be_taken_for_another(operations: dict[str, Any]) -> None:
    """A rule that is called as an operation would hide behind it, and `Allow` would name what the document does not."""
    paths = sorted({name.partition(" ")[2] for name in operations})
    assert [(path, other) for path in paths for other in paths if path != other and _covers(path, other)] == []


def _covers(template: str, path: str) -> bool:
    parts, others = template.split("/"), path.split("/")
    if len(parts) != len(others):
        return False
    return all(part == other or part.startswith("{") for part, other in zip(parts, others, strict=True))
