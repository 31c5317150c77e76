"""Problem documents: what they tell programs beside the code."""

from __future__ import annotations

from relevo.api.problems import packed_problem, problem_of
from relevo.errors import StoreUnavailable, TooManyRequests
from relevo.wire.ids import IdMint
from tests.api.room import Room


def test_who_has_to_wait_is_told_how_long() -> None:
    found = problem_of(TooManyRequests(key="k", rate=1, wait_ms=3_200), "r")
    _, body, headers = packed_problem(found)
    assert dict(headers)[b"retry-after"] == b"4", "whole seconds, and never too early"
    assert b'"retry_after_ms":3200' in body


def test_where_nobody_knows_how_long_a_second_is_the_advice() -> None:
    _, body, headers = packed_problem(problem_of(StoreUnavailable(reason="gone"), "r"))
    assert dict(headers)[b"retry-after"] == b"1"
    assert b"retry_after_ms" not in body


async def test_a_key_that_asks_too_often_is_told_the_true_wait(room: Room) -> None:
    made = await room.do("POST", "/v1/keys", {"name": "eager", "permissions": ["view"]})
    await room.do("PUT", f"/v1/keys/{made['key']['id']}/limits", {"requests_per_s": 1, "burst": 1})
    said = await room.ask("GET", "/v1/scopes", key=made["secret"])
    while said.status_code == 200:
        said = await room.ask("GET", "/v1/scopes", key=made["secret"])
    told = said.json()
    assert (told["code"], said.headers["retry-after"]) == ("RATE_LIMITED", "1")
    assert 0 < told["retry_after_ms"] <= 1000
    assert f"wait {told['retry_after_ms']} ms" in told["detail"]


async def test_a_review_that_is_not_there_is_named(room: Room) -> None:
    review_id = IdMint()()
    for verb, body in (("claim", None), ("comment", {"text": "?"}), ("withdraw", None)):
        said = await room.ask("POST", f"/v1/scopes/billing/reviews/{review_id}/{verb}", body)
        assert (said.status_code, review_id in said.json()["detail"]) == (404, True), said.text


async def test_the_document_tells_of_the_person_that_a_request_may_name(room: Room) -> None:
    document = (await room.ask("GET", "/openapi.json")).json()
    for verb in ("claim", "release", "hand-over", "comment", "decide", "withdraw"):
        operation = document["paths"][f"/v1/scopes/{{scope}}/reviews/{{review_id}}/{verb}"]["post"]
        (header,) = [each for each in operation["parameters"] if each["in"] == "header"]
        assert (header["name"], header["required"]) == ("Relevo-Person", False)
        assert header["description"]
