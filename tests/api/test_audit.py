"""The audit over HTTP: page by page, as a file, and one story of it."""

import json

from tests.support.room import QUEUE, Room


async def test_the_audit_is_read_page_by_page(room: Room) -> None:
    for _ in range(5):
        await room.publish()
    seen: list[int] = []
    cursor = None
    while True:
        said = (await room.ask("GET", "/v1/audit", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [entry["id"] for entry in said["data"]]
        cursor = said["meta"].get("next_cursor")
        if cursor is None:
            break
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) >= 5


async def test_the_export_is_one_object_a_line_with_its_hash(room: Room) -> None:
    await room.publish()
    said = await room.ask("GET", "/v1/audit/export")
    assert said.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in said.text.splitlines()]
    assert lines[-1]["action"] == "message.publish"
    assert {len(line["hash"]) for line in lines} == {64}
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)


async def test_an_export_goes_on_after_the_last_line(room: Room) -> None:
    first = (await room.ask("GET", "/v1/audit/export")).text.splitlines()
    message_id = await room.publish()
    after = json.loads(first[-1])["id"]
    (line,) = (await room.ask("GET", "/v1/audit/export", params={"after": after})).text.splitlines()
    assert json.loads(line)["target"] == message_id


async def test_a_key_that_may_not_look_gets_no_export(room: Room) -> None:
    key = (await room.do("POST", "/v1/keys", {"name": "in", "permissions": ["publish"]}))["secret"]
    assert await room.problem("GET", "/v1/audit/export", key=key) == (403, "PERMISSION_DENIED")


async def test_a_key_of_one_scope_exports_that_scope_only(room: Room) -> None:
    await room.do("POST", "/v1/scopes", {"slug": "other"})
    key = (await room.do("POST", "/v1/keys", {"name": "one", "permissions": ["view"], "scopes": ["other"]}))["secret"]
    lines = (await room.ask("GET", "/v1/audit/export", key=key)).text.splitlines()
    assert {json.loads(line)["scope"] for line in lines} == {"other"}


async def test_a_trace_tells_of_messages_reviews_and_the_audit_in_order(room: Room) -> None:
    await room.publish(correlation_id="another")
    message_id = await room.publish(correlation_id="order-17")
    claimed = {each["id"]: each["claim_token"] for each in await room.claim(batch_size=2)}
    dead = {"claim_token": claimed[message_id], "dead": True, "reason": "no such customer"}
    await room.do("POST", f"/v1/scopes/billing/messages/{message_id}/fail", dead)
    review = await room.do("POST", f"/v1/scopes/billing/dead-letters/{message_id}/review")
    await room.do("POST", f"/v1/scopes/billing/reviews/{review['id']}/decide", {"answer": {"decision": "approve"}})
    story = await room.do("GET", "/v1/trace", params={"correlation_id": "order-17"})
    assert (story["messages"], story["reviews"], story["complete"]) == ([message_id], [review["id"]], True)
    told = [step["what"] for step in story["steps"] if step["source"] == "message"]
    assert told[:4] == ["published", "claimed", "dead_lettered", "review_needed"]
    assert {"review.open", "review.decide"} <= {step["what"] for step in story["steps"]}
    assert [step["at"] for step in story["steps"]] == sorted(step["at"] for step in story["steps"])
    assert {step["scope"] for step in story["steps"]} == {"billing"}


async def test_a_trace_shows_a_limited_key_only_its_queues(room: Room) -> None:
    await room.do("POST", "/v1/scopes/billing/queues", {"slug": "refunds"})
    await room.publish(correlation_id="shared")
    own = await room.do(
        "POST", QUEUE.replace("invoices", "refunds") + "/messages", {"body": 1, "correlation_id": "shared"}
    )
    made = await room.do("POST", "/v1/keys", {"name": "one", "permissions": ["view"], "queues": ["refunds"]})
    story = await room.do("GET", "/v1/trace", params={"correlation_id": "shared"}, key=made["secret"])
    assert story["messages"] == [own["id"]]
    assert {step["queue"] for step in story["steps"]} == {"refunds"}


async def test_a_trace_of_a_scope_that_is_not_there_is_refused(room: Room) -> None:
    question = {"correlation_id": "x", "scope": "nowhere"}
    assert await room.problem("GET", "/v1/trace", params=question) == (404, "NOT_FOUND")
