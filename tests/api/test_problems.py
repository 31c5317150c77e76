"""Problem documents: what they tell programs beside the code."""

from __future__ import annotations

import pytest

from relevo.api.problems import packed_problem, problem_of
from relevo.client import AsyncClient
from relevo.errors import InvalidInput, StoreUnavailable, TooManyRequests
from relevo.wire.ids import IdMint
from tests.support.room import QUEUE, Room


def test_who_has_to_wait_is_told_how_long() -> None:
    found = problem_of(TooManyRequests(key="k", rate=1, wait_s=3.2), "r")
    _, body, headers = packed_problem(found)
    assert dict(headers)[b"retry-after"] == b"4", "whole seconds, and never too early"
    assert b'"retry_after_s":3.2' in body


def test_where_nobody_knows_how_long_a_second_is_the_advice() -> None:
    _, body, headers = packed_problem(problem_of(StoreUnavailable(reason="gone"), "r"))
    assert dict(headers)[b"retry-after"] == b"1"
    assert b"retry_after_s" not in body


async def test_a_key_that_asks_too_often_is_told_the_true_wait(room: Room) -> None:
    made = await room.do("POST", "/v1/keys", {"name": "eager", "permissions": ["view"]})
    await room.do("PUT", f"/v1/keys/{made['key']['id']}/limits", {"requests_per_s": 1, "burst": 1})
    said = await room.ask("GET", "/v1/scopes", key=made["secret"])
    while said.status_code == 200:
        said = await room.ask("GET", "/v1/scopes", key=made["secret"])
    told = said.json()
    assert (told["code"], said.headers["retry-after"]) == ("RATE_LIMITED", "1")
    assert 0 < told["retry_after_s"] <= 1
    assert f"wait {told['retry_after_s']} s" in told["detail"]


async def test_a_review_that_is_not_there_is_named(room: Room) -> None:
    review_id = IdMint()()
    for verb, body in (("claim", None), ("comment", {"text": "?"}), ("withdraw", None)):
        said = await room.ask("POST", f"/v1/scopes/billing/reviews/{review_id}/{verb}", body)
        assert (said.status_code, review_id in said.json()["detail"]) == (404, True), said.text


async def test_the_document_tells_of_the_person_that_a_request_may_name(room: Room) -> None:
    document = (await room.ask("GET", "/openapi.json")).json()
    for verb in ("claim", "release", "hand-over", "comment", "decide", "withdraw"):
        operation = document["paths"][f"/v1/scopes/{{scope}}/reviews/{{review_id}}/{verb}"]["post"]
        (header,) = [each for each in operation["parameters"] if each["name"] == "Relevo-Person"]
        assert (header["in"], header["required"]) == ("header", False)
        assert header["description"]


async def test_all_faults_of_a_body_are_told_at_once(room: Room) -> None:
    body = {"slug": "No Slug", "descripton": "x", "max_retries": -1, "ordering": "lifo", "max_depth": "many"}
    said = await room.ask("POST", "/v1/scopes/billing/queues", body)
    told = said.json()
    assert (said.status_code, told["code"]) == (422, "INVALID_INPUT")
    assert {(each["pointer"], each["code"]) for each in told["errors"]} == {
        ("#/descripton", "UNKNOWN_FIELD"),
        ("#/slug", "BAD_FORMAT"),
        ("#/max_retries", "OUT_OF_RANGE"),
        ("#/ordering", "NOT_ONE_OF"),
        ("#/max_depth", "WRONG_TYPE"),
    }
    assert "5 faults in all" in told["detail"]


async def test_a_fault_deep_in_a_batch_is_pointed_at(room: Room) -> None:
    messages = [{"body": 1}, {"boddy": 2}, {"body": 3, "labels": {"a": 5}}, {"body": 4, "priority_tier": "urgent"}]
    told = (await room.ask("POST", f"{QUEUE}/messages/batch", {"items": messages})).json()
    assert [(each["pointer"], each["code"]) for each in told["errors"]] == [
        ("#/items/1/boddy", "UNKNOWN_FIELD"),
        ("#/items/1/body", "MISSING_FIELD"),
        ("#/items/2/labels/a", "WRONG_TYPE"),
        ("#/items/3/priority_tier", "NOT_ONE_OF"),
    ]


@pytest.mark.parametrize(
    ("path", "body", "meant"),
    [
        (f"{QUEUE}/messages", {"body": 1, "priority_teir": "high"}, "priority_tier"),
        (f"{QUEUE}/claim", {"batchsize": 1}, "batch_size"),
        ("/v1/scopes/billing/rules", {"name": "r", "trigger": "message_published", "action": []}, "actions"),
    ],
)
async def test_an_unknown_field_is_met_with_what_was_perhaps_meant(
    room: Room, path: str, body: dict[str, object], meant: str
) -> None:
    told = (await room.ask("POST", path, body)).json()
    assert f"did you mean `{meant}`?" in told["detail"]
    assert any(f"did you mean `{meant}`?" in each["detail"] for each in told["errors"])


async def test_a_word_that_is_none_of_the_choices_is_met_with_the_choices(room: Room) -> None:
    told = (await room.ask("POST", "/v1/scopes/billing/queues", {"slug": "letters", "ordering": "sideways"})).json()
    choices = "expected 'fifo' or 'priority' or 'deadline', got 'sideways'"
    assert told["detail"] == f"$.ordering: {choices}."
    assert [each["detail"] for each in told["errors"]] == [choices]


async def test_limits_of_lists_and_objects_are_told_too(room: Room) -> None:
    told = (await room.ask("POST", f"{QUEUE}/messages/batch", {"items": [{"body": 1}] * 1001})).json()
    assert [(each["pointer"], each["code"]) for each in told["errors"]] == [("#/items", "BAD_LENGTH")]
    message = {"body": 1, "labels": {"a" * 101: "x", **{f"n{n}": "" for n in range(50)}}}
    told = (await room.ask("POST", f"{QUEUE}/messages", message)).json()
    assert {each["code"] for each in told["errors"]} == {"BAD_LENGTH"}


async def test_a_fault_in_an_action_of_a_rule_is_pointed_at(room: Room) -> None:
    rule = {"name": "r", "trigger": "message_published", "actions": [{"action": "drop", "why": "x"}, {"action": "fly"}]}
    told = (await room.ask("POST", "/v1/scopes/billing/rules", rule)).json()
    assert [each["pointer"] for each in told["errors"]] == ["#/actions/0/why", "#/actions/1/action"]


async def test_faults_of_parameters_are_told_at_once(room: Room) -> None:
    told = (await room.ask("GET", "/v1/scopes?limit=0&cursor=" + "x" * 1_001)).json()
    assert [(each["pointer"], each["code"]) for each in told["errors"]] == [
        ("query/limit", "OUT_OF_RANGE"),
        ("query/cursor", "BAD_LENGTH"),
    ]


async def test_the_client_s_error_has_the_faults(room: Room) -> None:
    async with AsyncClient(room.service.url, key=room.key) as client:
        with pytest.raises(InvalidInput) as refused:
            await client.create_queue("billing", "letters", max_retires=3)
    (fault,) = refused.value.errors
    assert (fault.pointer, fault.code) == ("#/max_retires", "UNKNOWN_FIELD")
