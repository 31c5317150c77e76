"""Rules, reviews, patterns, schemas and trusts over HTTP: the real server, and what it answers."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.support.room import QUEUE, Room, served

SCOPE = "/v1/scopes/billing"
DROP = {"name": "late", "trigger": "message_published", "condition": "body.late", "actions": [{"action": "drop"}]}


@pytest.fixture
async def room(tmp_path: Path) -> AsyncGenerator[Room]:
    async with served(f"sqlite:///{tmp_path}/work.db") as room:
        yield room


async def test_a_rule_lives_and_works_over_http(room: Room) -> None:
    made = await room.do("POST", f"{SCOPE}/rules", DROP)
    assert (made["rule"]["name"], made["breaker"]) == ("late", "closed")
    dropped = await room.do("POST", f"{QUEUE}/messages", {"body": {"late": True}})
    assert dropped["state"] == "cancelled"
    (listed,) = await room.do("GET", f"{SCOPE}/rules")
    assert listed["matched"] == 1
    changed = await room.do("PUT", f"{SCOPE}/rules/late", DROP | {"enabled": False})
    assert changed["rule"]["enabled"] is False
    await room.do("POST", f"{SCOPE}/rules/late/reset")
    await room.do("DELETE", f"{SCOPE}/rules/late")
    assert await room.problem("GET", f"{SCOPE}/rules/late") == (404, "NOT_FOUND")


async def test_a_rule_that_cannot_work_is_a_problem(room: Room) -> None:
    assert await room.problem("POST", f"{SCOPE}/rules", DROP | {"condition": "body."}) == (422, "BAD_RULE")


async def test_a_dry_run_over_http(room: Room) -> None:
    await room.publish(body={"late": True})
    asked: dict[str, Any] = {"rule": DROP, "queue": "invoices"}
    (told,) = await room.do("POST", f"{SCOPE}/rule-dry-runs", asked | {"body": {"late": True}})
    assert (told["matches"], told["ending"]) == (True, "dropped")
    (told,) = await room.do("POST", f"{SCOPE}/rule-dry-runs", asked | {"last": 10})
    assert told["matches"] is True
    assert await room.problem("POST", f"{SCOPE}/rule-dry-runs", asked) == (422, "INVALID_INPUT")


async def test_a_review_over_http(room: Room) -> None:
    pattern = {"name": "refund", "spec": {"title": "Refund {{amount}}?"}}
    assert (await room.do("POST", f"{SCOPE}/review-patterns", pattern))["version"] == 1
    seen = await room.do("POST", f"{SCOPE}/review-patterns/refund/preview", {"parameters": {"amount": 5}})
    assert seen["title"] == "Refund 5?"
    spec = {"pattern": "refund", "parameters": {"amount": 5}}
    published = await room.do("POST", f"{QUEUE}/messages", {"body": {}, "hitl_spec": spec})
    assert published["state"] == "in_review"
    (review,) = await room.do("GET", f"{SCOPE}/reviews")
    place = f"{SCOPE}/reviews/{review['id']}"
    await room.do("POST", f"{place}/claim")
    await room.do("POST", f"{place}/comment", {"text": "looks fine"})
    decided = await room.do("POST", f"{place}/decide", {"answer": {"decision": "approve"}})
    assert decided["state"] == "decided"
    assert (await room.do("GET", f"{place}/result"))["outcome"] == {"decision": "approve"}
    assert await room.state(published["id"]) == "completed"
    assert await room.problem("POST", f"{place}/claim") == (409, "REVIEW_OVER")


async def test_a_key_that_does_not_act_for_people_names_none(room: Room) -> None:
    await room.do("POST", f"{QUEUE}/messages", {"body": {}, "hitl_spec": {"title": "?"}})
    (review,) = await room.do("GET", f"{SCOPE}/reviews")
    place = f"{SCOPE}/reviews/{review['id']}/claim"
    assert await room.problem("POST", place, headers={"relevo-person": "ada"}) == (403, "PERMISSION_DENIED")


async def test_a_key_that_acts_for_people_names_the_one_who_acts(room: Room) -> None:
    await room.do("POST", f"{QUEUE}/messages", {"body": {}, "hitl_spec": {"title": "?"}})
    (review,) = await room.do("GET", f"{SCOPE}/reviews")
    place = f"{SCOPE}/reviews/{review['id']}"
    made = await room.do("POST", "/v1/keys", {"name": "front desk", "permissions": ["view", "review"]})
    await room.do("PUT", f"/v1/keys/{made['key']['id']}/limits", {"acts_for_people": True})
    ada, eve = ({"relevo-person": name} for name in ("ada", "eve"))
    assert (await room.do("POST", f"{place}/claim", key=made["secret"], headers=ada))["holder"] == "ada"
    assert await room.problem("POST", f"{place}/claim", key=made["secret"], headers=eve) == (409, "REVIEW_HELD")
    assert await room.problem("POST", f"{place}/claim", key=made["secret"], headers={"relevo-person": "a" * 201}) == (
        422,
        "INVALID_INPUT",
    )
    (entry,) = await room.do("GET", "/v1/audit", params={"action": "review.claim"})
    assert (entry["actor"], entry["after"]["person"]) == (f"key:{made['key']['id']}", "ada")


async def test_a_specification_that_cannot_be_is_refused(room: Room) -> None:
    asked = {"body": {}, "hitl_spec": {"quorum": 0}}
    assert await room.problem("POST", f"{QUEUE}/messages", asked) == (422, "BAD_REVIEW_SPEC")


async def test_a_dead_letter_is_reviewed_corrected_and_sent_back(room: Room) -> None:
    message_id = await room.publish(body={"n": 1})
    (claimed,) = await room.claim()
    token = {"claim_token": claimed["claim_token"], "reason": "no", "dead": True}
    await room.do("POST", f"{SCOPE}/messages/{message_id}/fail", token)
    review = await room.do("POST", f"{SCOPE}/dead-letters/{message_id}/review")
    answer = {"answer": {"decision": "approve"}, "corrected_body": {"n": 2}}
    await room.do("POST", f"{SCOPE}/reviews/{review['id']}/decide", answer)
    (claimed,) = await room.claim()
    assert (claimed["id"], claimed["body"]) == (message_id, {"n": 2})


async def test_bodies_must_fit_the_schema_of_their_queue(room: Room) -> None:
    definition = {"type": "object", "required": ["amount"]}
    await room.do("POST", f"{SCOPE}/schemas", {"name": "invoice", "definition": definition})
    await room.publish(body={"old": 1})
    bind = {"name": "invoice"}
    assert await room.problem("PUT", f"{QUEUE}/schema", bind) == (409, "SCHEMA_INCOMPATIBLE")
    assert (await room.do("GET", f"{SCOPE}/schemas/invoice/compatibility/invoices"))["refused"] == 1
    await room.do("PUT", f"{QUEUE}/schema", bind | {"force": True})
    assert await room.problem("POST", f"{QUEUE}/messages", {"body": {}}) == (422, "SCHEMA_INVALID")
    await room.publish(body={"amount": 3})
    assert await room.problem("DELETE", f"{SCOPE}/schemas/invoice") == (409, "SCHEMA_IN_USE")
    await room.do("DELETE", f"{QUEUE}/schema")
    assert await room.do("GET", f"{QUEUE}/schema") is None


async def test_a_correction_must_fit_the_schema_too(room: Room) -> None:
    message_id = await room.publish(body={"amount": "three"})
    (claimed,) = await room.claim()
    await room.do("POST", f"{SCOPE}/messages/{message_id}/fail", {"claim_token": claimed["claim_token"], "dead": True})
    definition = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    await room.do("POST", f"{SCOPE}/schemas", {"name": "invoice", "definition": definition})
    await room.do("PUT", f"{QUEUE}/schema", {"name": "invoice"})
    review = await room.do("POST", f"{SCOPE}/dead-letters/{message_id}/review")
    place, approve = f"{SCOPE}/reviews/{review['id']}", {"answer": {"decision": "approve"}}
    wrong = approve | {"corrected_body": {"amount": "four"}}
    assert await room.problem("POST", f"{place}/decide", wrong) == (422, "SCHEMA_INVALID")
    assert (await room.do("GET", place))["state"] == "waiting"
    await room.do("POST", f"{place}/decide", approve | {"corrected_body": {"amount": 4}})
    assert await room.state(message_id) == "pending"


async def test_trust_is_given_and_taken(room: Room) -> None:
    await room.do("POST", "/v1/scopes", {"slug": "vault"})
    await room.do("PUT", "/v1/scopes/vault/trusts/billing")
    assert [each["trusted"] for each in await room.do("GET", "/v1/scopes/vault/trusts")] == ["billing"]
    await room.do("DELETE", "/v1/scopes/vault/trusts/billing")
    assert await room.problem("DELETE", "/v1/scopes/vault/trusts/billing") == (404, "NOT_FOUND")


async def test_a_stream_queue_that_is_not_open_is_a_problem(room: Room) -> None:
    asked = {"stream_queue": "emails", "entry_id": "1-0"}
    assert await room.problem("POST", f"{SCOPE}/stream-dead-letters", asked) == (409, "STREAM_QUEUE_CLOSED")


@pytest.mark.parametrize("path", ["rules", "reviews", "review-patterns", "schemas", "trusts", "stream-watches"])
async def test_another_tenant_sees_nothing(room: Room, path: str) -> None:
    foreign = await room.tenant("other")
    assert await room.problem("GET", f"{SCOPE}/{path}", key=foreign) == (404, "NOT_FOUND")
