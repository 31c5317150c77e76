"""Bad input: the right problem document, and the message safe."""

import re
from typing import Any

import httpx
import pytest

from relevo.api.settings import ApiSettings
from tests.pace import limit
from tests.support.room import QUEUE, Room, served

MESSAGES = f"{QUEUE}/messages"


# --- what is sent ---------------------------------------------------------------------------------------------------


BAD_BODIES: list[tuple[bytes, str, tuple[int, str]]] = [
    (b'{"body":', "application/json", (400, "MALFORMED_BODY")),
    (b"", "application/json", (400, "MALFORMED_BODY")),
    (b"\xff\xfe", "application/json", (400, "MALFORMED_BODY")),
    (b'{"body":"\xff"}', "application/json", (400, "MALFORMED_BODY")),
    (b'{"body":NaN}', "application/json", (400, "MALFORMED_BODY")),
    (b'{"body":{"a":1}}{"body":2}', "application/json", (400, "MALFORMED_BODY")),
    (b'{"body":1}', "text/plain", (415, "UNSUPPORTED_MEDIA_TYPE")),
    (b'{"body":1}', "application/x-www-form-urlencoded", (415, "UNSUPPORTED_MEDIA_TYPE")),
    (b'{"body":1}', "application/json; charset=latin-1", (415, "UNSUPPORTED_MEDIA_TYPE")),
    (b"[]", "application/json", (422, "INVALID_INPUT")),
    (b"{}", "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"bodi":2}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"priority_tier":"urgent"}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"priority_score":1000}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"priority_score":-1}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"ttl_s":0}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"ttl_s":1e300}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"deadline":"tomorrow"}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"deadline":"2026-11-15T09:00:00"}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"labels":{"a":1}}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"labels":{"a":"\\u0000"}}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"correlation_id":"\\u0000"}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"correlation_id":"' + b"x" * 201 + b'"}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"idempotency_key":""}', "application/json", (422, "INVALID_INPUT")),
    (b'{"body":1,"parent_id":"what"}', "application/json", (422, "INVALID_INPUT")),
]


async def test_a_publish_that_cannot_be_read_is_refused_and_publishes_nothing(room: Room) -> None:
    for body, content_type, refusal in BAD_BODIES:
        said = await room.problem("POST", MESSAGES, content=body, headers={"content-type": content_type})
        assert (body, content_type, said) == (body, content_type, refusal)
    assert (await room.do("GET", QUEUE))["depth_pending"] == 0


async def test_an_error_that_says_nothing_is_refused_and_the_message_stays_claimed(room: Room) -> None:
    message_id = await room.publish()
    token = (await room.claim())[0]["claim_token"]
    one, many = f"/v1/scopes/billing/messages/{message_id}/fail", f"{QUEUE}/fail"
    for error in ({}, {"stack": "at pay"}, {"type": "", "message": None}, {"type": "E", "msg": "m"}, {"type": 7}, "E"):
        wrong = {"claim_token": token, "error": error}
        assert (error, await room.problem("POST", one, json=wrong)) == (error, (422, "INVALID_INPUT"))
        batch = {"items": [{"id": message_id, **wrong}]}
        assert (error, await room.problem("POST", many, json=batch)) == (error, (422, "INVALID_INPUT"))
    assert (await room.do("GET", QUEUE))["depth_claimed"] == 1


async def test_errors_quote_bodies_and_are_shown_only_to_who_may_read_the_message(room: Room) -> None:
    message_id = await room.publish()
    token = (await room.claim())[0]["claim_token"]
    word = "Zyxomma-petiolatum"
    error = {"type": word, "message": word, "stack": word}
    failing = {"claim_token": token, "error": error, "dead": True}
    here = f"/v1/scopes/billing/messages/{message_id}"
    worker = (await room.do("POST", "/v1/keys", {"name": "worker", "permissions": ["consume", "publish"]}))["secret"]
    settled = await room.ask("POST", f"{here}/fail", failing, key=worker)
    assert (settled.status_code, word in settled.text) == (200, False)
    other = {"name": "other", "permissions": ["view"], "queues": ["elsewhere"]}
    stranger = (await room.do("POST", "/v1/keys", other))["secret"]
    trace = f"/v1/trace?correlation_id={message_id}"
    places = (here, f"{here}/history", "/v1/scopes/billing/messages", "/v1/scopes/billing/dead-letters", trace)
    for place in places:
        assert word in (await room.ask("GET", place)).text, place
        assert (place, (await room.ask("GET", place, key=worker)).status_code) == (place, 403)
        assert (place, word in (await room.ask("GET", place, key=stranger)).text) == (place, False)


async def test_deeply_nested_json_is_no_way_to_stop_the_server(room: Room) -> None:
    deep = b'{"body":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    said = await room.ask("POST", MESSAGES, content=deep, headers={"content-type": "application/json"})
    assert said.status_code in (201, 400)
    assert (await room.ask("GET", "/healthz")).status_code == 200


async def test_a_batch_with_one_bad_message_names_its_place(room: Room) -> None:
    said = await room.ask("POST", f"{MESSAGES}/batch", {"items": [{"body": 1}, {"body": 2, "priority_score": -5}]})
    assert said.status_code == 422
    assert "$.items[1].priority_score" in said.json()["detail"]
    assert (await room.do("GET", QUEUE))["depth_pending"] == 0


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_batch_holds_one_to_a_thousand_messages(count: int, room: Room) -> None:
    refusal = await room.problem("POST", f"{MESSAGES}/batch", {"items": [{"body": 1}] * count})
    assert refusal == (422, "INVALID_INPUT")


async def test_bodies_over_the_limit_are_refused(database_url: str) -> None:
    api = ApiSettings(max_message_bytes=1000, max_batch_bytes=5000)
    async with served(database_url, api=api) as room:
        long = "x" * 1000
        assert await room.problem("POST", MESSAGES, {"body": long}) == (413, "BODY_TOO_LARGE")
        assert await room.problem("POST", f"{MESSAGES}/batch", {"items": [{"body": "x" * 5000}]}) == (
            413,
            "BODY_TOO_LARGE",
        )
        assert await room.problem("POST", f"{MESSAGES}/batch", {"items": [{"body": long}]}) == (422, "INVALID_INPUT")
        assert await room.problem("POST", "/v1/scopes", {"slug": "x", "description": "x" * 70_000}) == (
            413,
            "BODY_TOO_LARGE",
        )
        await room.do("POST", MESSAGES, {"body": "x" * 900})


async def test_a_body_over_the_limit_that_does_not_say_so_is_refused(database_url: str) -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b"x" * 1000

    async with served(database_url, api=ApiSettings(max_message_bytes=10_000)) as room:
        headers = {"content-type": "application/json"}
        assert await room.problem("POST", MESSAGES, content=endless(), headers=headers) == (413, "BODY_TOO_LARGE")


# --- what is asked --------------------------------------------------------------------------------------------------


async def test_a_cursor_that_was_not_given_out_is_refused(room: Room) -> None:
    strange = ("x", "%00", "bm9uc2Vuc2U", "é", "A" * 250, "WyJ4IiwxXQ", "W10", "WyJzY29wZXMiLG51bGxd")
    for path in ("/v1/scopes", "/v1/audit", "/v1/keys", "/v1/scopes/billing/messages", "/v1/scopes/billing/queues"):
        for cursor in strange:
            refusal = await room.problem("GET", f"{path}?cursor={cursor}")
            assert refusal in ((400, "BAD_CURSOR"), (422, "INVALID_INPUT")), f"{path} {cursor}"


async def test_the_cursor_of_another_listing_is_refused(room: Room) -> None:
    page = (await room.ask("GET", "/v1/scopes/billing/queues?limit=1")).json()
    cursor = page["meta"]["next_cursor"]
    assert await room.problem("GET", f"/v1/audit?cursor={cursor}") == (400, "BAD_CURSOR")
    assert await room.do("GET", f"/v1/scopes/billing/queues?cursor={cursor}")


async def test_a_question_that_makes_no_sense_is_refused(room: Room) -> None:
    for question in (
        *("limit=0", "limit=501", "limit=x", "state=gone", "label=plain", "since=soon", "queue=A%20b"),
        *("archived=perhaps", "message_type=%00", "label=a%00=b", f"correlation_id={'x' * 201}"),
    ):
        refusal = await room.problem("GET", f"/v1/scopes/billing/messages?{question}")
        assert (question, refusal) == (question, (422, "INVALID_INPUT"))


async def test_what_is_not_there_answers_404(room: Room) -> None:
    for path in (
        *("/v1", "/v2/scopes", "/documents", "/v1/scopes/nope", "/v1/scopes/b%00/queues", "/v1/scopes/%C3%A9"),
        *("/v1/scopes/billing/queues/nope", "/v1/scopes/billing/messages/nope", "/v1/scopes/billing/replays/nope"),
        f"/v1/scopes/billing/messages/{'0' * 26}",
    ):
        assert (path, await room.problem("GET", path)) == (path, (404, "NOT_FOUND"))
    for path in ("/v1/scopes/nope/queues/q/claim", "/v1/scopes/billing/queues/%C3%A9/claim", "/v1/agents/nope/run"):
        assert (path, await room.problem("POST", path, {})) == (path, (404, "NOT_FOUND"))


async def test_a_method_that_is_not_answered_is_named(room: Room) -> None:
    for method in ("PUT", "TRACE", "OPTIONS"):
        assert await room.problem(method, "/v1/scopes") == (405, "METHOD_NOT_ALLOWED")
    assert await room.problem("GET", f"{QUEUE}/claim") == (405, "METHOD_NOT_ALLOWED")


async def test_a_refused_method_comes_with_the_list_of_those_that_are_answered(room: Room) -> None:
    document = (await room.ask("GET", "/openapi.json")).json()
    for path, operations in document["paths"].items():
        if "{" in path and not path.startswith("/v1/"):
            continue
        said = await room.ask("OPTIONS", re.sub(r"\{\w+\}", "x", path))
        assert said.status_code == 405, path
        assert set(said.headers["allow"].split(", ")) >= {method.upper() for method in operations}, path
        assert all(method in said.json()["detail"] for method in said.headers["allow"].split(", ")), path


# --- who asks -------------------------------------------------------------------------------------------------------


async def test_without_a_key_nothing_is_answered(room: Room) -> None:
    wrong = ("", "Bearer", "Basic abc", "Bearer rlv_x", f"Bearer rlv_{'0' * 26}_no", "Bearer é", "Bearer " + "x" * 300)
    async with httpx.AsyncClient(base_url=room.service.url, timeout=limit(30)) as http:
        for each in (None, *wrong):
            headers = [] if each is None else [(b"authorization", each.encode("latin-1"))]
            for method, path in (("GET", "/v1/scopes"), ("POST", f"{QUEUE}/claim"), ("GET", "/v1/audit")):
                said = await http.request(method, path, headers=headers)
                assert (said.status_code, said.json()["code"]) == (401, "UNAUTHENTICATED"), headers
                assert said.headers["www-authenticate"].startswith("Bearer")


async def test_a_key_with_a_wrong_secret_is_refused_also_after_the_right_one(room: Room) -> None:
    await room.publish()
    assert await room.problem("GET", "/v1/scopes", key=room.key[:-1] + "~") == (401, "UNAUTHENTICATED")


async def test_an_expired_key_is_refused_at_its_very_end(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    end = room.work_queues.now_ms() + 60_000
    made = await room.work_queues.keys.create(room.owner, "short", expires_at=end)
    monkeypatch.setattr(room.work_queues.keys, "_now_ms", lambda: end - 1)
    await room.do("GET", "/v1/scopes", key=made.secret)
    monkeypatch.setattr(room.work_queues.keys, "_now_ms", lambda: end)
    assert await room.problem("GET", "/v1/scopes", key=made.secret) == (401, "KEY_EXPIRED")
    assert await room.problem("POST", MESSAGES, {"body": 1}, key=made.secret) == (401, "KEY_EXPIRED")


async def test_a_revoked_key_is_refused_at_once(room: Room) -> None:
    made = await room.do("POST", "/v1/keys", {"name": "worker", "permissions": ["view"]})
    await room.do("GET", "/v1/scopes", key=made["secret"])
    await room.do("DELETE", f"/v1/keys/{made['key']['id']}")
    assert await room.problem("GET", "/v1/scopes", key=made["secret"]) == (401, "KEY_EXPIRED")


# --- queues that are closed or full ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "publish", "claim"),
    [
        ("paused", "QUEUE_PAUSED", "QUEUE_PAUSED"),
        ("draining", "QUEUE_DRAINING", None),
        ("archived", "QUEUE_ARCHIVED", "QUEUE_ARCHIVED"),
    ],
)
async def test_a_closed_queue_refuses_and_keeps_its_messages(
    state: str, publish: str, claim: str | None, room: Room
) -> None:
    kept = await room.publish()
    await room.do("PATCH", QUEUE, {"state": state})
    assert await room.problem("POST", MESSAGES, {"body": 1}) == (409, publish)
    assert await room.problem("POST", f"{MESSAGES}/batch", {"items": [{"body": 1}]}) == (409, publish)
    if claim is not None:
        assert await room.problem("POST", f"{QUEUE}/claim", {}) == (409, claim)
    await room.do("PATCH", QUEUE, {"state": "active"})
    assert [message["id"] for message in await room.claim()] == [kept]


async def test_a_paused_scope_closes_all_its_queues(room: Room) -> None:
    await room.do("PATCH", "/v1/scopes/billing", {"state": "paused"})
    assert await room.problem("POST", MESSAGES, {"body": 1}) == (409, "SCOPE_PAUSED")
    assert await room.problem("POST", f"{QUEUE}/claim", {}) == (409, "SCOPE_PAUSED")


async def test_a_full_queue_refuses_one_more(room: Room) -> None:
    await room.do("PATCH", QUEUE, {"max_depth": 2})
    outcomes = await room.do("POST", f"{MESSAGES}/batch", {"items": [{"body": n} for n in range(3)]})
    assert [outcome["state"] for outcome in outcomes] == ["pending", "pending", None]
    assert outcomes[2]["refusal"]["code"] == "QUEUE_FULL"
    said = await room.ask("POST", MESSAGES, {"body": 1})
    assert (said.status_code, said.json()["code"]) == (429, "QUEUE_FULL")
    assert said.headers["retry-after"] == "1"
    assert (await room.do("GET", QUEUE))["depth_pending"] == 2


# --- settling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["complete", "fail", "release", "extend"])
async def test_a_stale_token_changes_nothing(verdict: str, room: Room) -> None:
    message_id = await room.publish()
    (first,) = await room.claim()
    path = f"/v1/scopes/billing/messages/{message_id}"
    await room.do("POST", f"{path}/release", {"claim_token": first["claim_token"]})
    (second,) = await room.claim()
    refusal = await room.problem("POST", f"{path}/{verdict}", {"claim_token": first["claim_token"]})
    assert refusal == (409, "CLAIM_LOST")
    assert await room.state(message_id) == "claimed"
    await room.do("POST", f"{path}/complete", {"claim_token": second["claim_token"]})


async def test_a_second_complete_is_answered_like_the_first_and_a_fail_after_it_is_refused(room: Room) -> None:
    message_id = await room.publish()
    (claimed,) = await room.claim()
    path, token = f"/v1/scopes/billing/messages/{message_id}", {"claim_token": claimed["claim_token"]}
    for _ in range(2):
        assert (await room.do("POST", f"{path}/complete", {**token, "result": {"n": 1}}))["state"] == "completed"
    assert await room.problem("POST", f"{path}/fail", token) == (409, "CLAIM_LOST")
    assert await room.problem("POST", f"{path}/release", token) == (409, "CLAIM_LOST")
    assert await room.state(message_id) == "completed"


async def test_a_batch_settles_what_it_may_and_names_the_rest(room: Room) -> None:
    ids = [await room.publish() for _ in range(2)]
    claimed = await room.claim(batch_size=2)
    items = [{"id": each["id"], "claim_token": each["claim_token"]} for each in claimed]
    items[1]["claim_token"] = "0" * 26
    outcomes = await room.do("POST", f"{QUEUE}/complete", {"items": [*items, {"id": "0" * 26, "claim_token": "x"}]})
    assert [outcome["state"] for outcome in outcomes] == ["completed", None, None]
    assert outcomes[1]["refusal"]["code"] == "CLAIM_LOST"
    assert outcomes[2]["refusal"]["code"] == "NOT_FOUND"
    assert [await room.state(each) for each in ids] == ["completed", "claimed"]


async def test_the_same_idempotency_key_with_another_body_is_a_conflict(room: Room) -> None:
    first = await room.publish(body={"n": 1}, idempotency_key="order-17")
    again = await room.ask("POST", MESSAGES, {"body": {"n": 1}, "idempotency_key": "order-17"})
    assert (again.status_code, again.json()["data"]) == (200, {"id": first, "state": "pending", "duplicate": True})
    assert await room.problem("POST", MESSAGES, {"body": {"n": 2}, "idempotency_key": "order-17"}) == (
        409,
        "IDEMPOTENCY_CONFLICT",
    )
    assert (await room.do("GET", QUEUE))["depth_pending"] == 1


# --- what may not be done -------------------------------------------------------------------------------------------


async def test_a_slug_is_taken_once(room: Room) -> None:
    assert await room.problem("POST", "/v1/scopes", {"slug": "billing"}) == (409, "SLUG_TAKEN")
    assert await room.problem("POST", "/v1/scopes/billing/queues", {"slug": "invoices"}) == (409, "SLUG_TAKEN")


async def test_system_queues_stay(room: Room) -> None:
    path = "/v1/scopes/billing/queues/_dead_letter"
    assert await room.problem("DELETE", path) == (409, "SYSTEM_QUEUE")
    assert await room.problem("PATCH", path, {"state": "archived"}) == (409, "SYSTEM_QUEUE")


async def test_only_what_is_empty_can_be_deleted(room: Room) -> None:
    message_id = await room.publish()
    assert await room.problem("DELETE", QUEUE) == (409, "NOT_EMPTY")
    assert await room.problem("DELETE", "/v1/scopes/billing") == (409, "NOT_EMPTY")
    assert await room.state(message_id) == "pending"
    await room.do("POST", "/v1/scopes", {"slug": "short-lived"})
    await room.do("POST", "/v1/scopes/short-lived/queues", {"slug": "q"})
    await room.do("DELETE", "/v1/scopes/short-lived/queues/q")
    await room.do("DELETE", "/v1/scopes/short-lived")
    assert await room.problem("GET", "/v1/scopes/short-lived") == (404, "NOT_FOUND")


async def test_a_settled_message_cannot_be_cancelled(room: Room) -> None:
    message_id = await room.publish()
    (claimed,) = await room.claim()
    path = f"/v1/scopes/billing/messages/{message_id}"
    assert await room.problem("POST", f"{path}/cancel") == (409, "WRONG_STATE")
    await room.do("POST", f"{path}/complete", {"claim_token": claimed["claim_token"]})
    assert await room.problem("PATCH", path, {"priority_tier": "high"}) == (409, "WRONG_STATE")
