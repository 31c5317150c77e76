"""The HTTP API does everything one way. These tests walk the OpenAPI document, so a new operation is held to it too."""

from typing import Any

import pytest

from tests.api.room import Room
from tests.api.walk import operations_of


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
