"""`Idempotency-Key`: what carries one is done once, and answered alike each time."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from relevo.agents.expiry_enforcer import ExpiryEnforcer
from relevo.errors import IdempotentAnswerLost
from relevo.work.faults import arm
from relevo.work.store.kept_answers import KEPT_S, LOST_AFTER_S, Answer, KeptAnswers
from relevo.work.store.tables import kept_answers
from tests.pace import limit
from tests.support.room import QUEUE, Room
from tests.support.seeds import Seeds
from tests.support.walk import BODIES, ONLY_WITH_REDIS, operations_of

SCHEMAS = "/v1/scopes/billing/schemas"
SCHEMA = {"name": "invoice", "definition": {"type": "object"}}


def keyed(key: str) -> dict[str, Any]:
    return {"headers": {"idempotency-key": key}}


async def versions(room: Room) -> int:
    """How often the schema was added: each time makes a version."""
    return (await room.do("GET", f"{SCHEMAS}/invoice"))["version"]


def on_disk(folder: Path) -> bytes:
    """Every byte of the database and its log."""
    return b"".join(each.read_bytes() for each in folder.glob("work.db*"))


def same(first: httpx.Response, again: httpx.Response) -> bool:
    return (first.status_code, first.content) == (again.status_code, again.content)


@pytest.mark.timeout(120)
async def test_every_operation_that_takes_a_key_is_done_once_with_it(room: Room) -> None:
    keyed_posts = {
        name.removeprefix("POST "): operation
        for name, operation in (await operations_of(room)).items()
        if any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", ()))
        if name not in ONLY_WITH_REDIS
    }
    assert len(keyed_posts) >= 20

    def walk() -> list[str]:
        wrong: list[str] = []
        headers = {"authorization": f"Bearer {room.key}"}
        with (
            contextlib.closing(Seeds(room.service.url, room.key, "once")) as seeds,
            httpx.Client(base_url=room.service.url, headers=headers, timeout=limit(60)) as http,
        ):
            for path, operation in keyed_posts.items():
                kind = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
                found = seeds.path_of("POST", path)
                body = BODIES.get(kind.get("$ref", "").rpartition("/")[2], {}) if kind else None
                body = seeds.body_for(path, body, found)
                options: dict[str, Any] = {"json": body, **keyed(f"walk-{operation['operationId']}")}
                first = http.post(path.format_map(found), **options)
                again = http.post(path.format_map(found), **options)
                if not first.is_success or first.headers.get("idempotent-replayed"):
                    wrong.append(f"{path}: {first.status_code} {first.text}")
                replayed = again.headers.get("idempotent-replayed") == "true"
                if not replayed or again.json().keys() != first.json().keys() or again.status_code != first.status_code:
                    wrong.append(f"{path}, again: {again.status_code} {again.text}")
        return wrong

    assert await asyncio.to_thread(walk) == []


async def test_the_same_request_is_answered_alike_and_done_once(room: Room) -> None:
    first = await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))
    again = await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))
    assert (first.status_code, same(first, again)) == (201, True)
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")
    assert await versions(room) == 1
    await room.ask("POST", SCHEMAS, SCHEMA, **keyed("b"))
    assert await versions(room) == 2


async def test_a_key_is_for_one_request(room: Room) -> None:
    await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))
    other = {**SCHEMA, "definition": {}}
    assert await room.problem("POST", SCHEMAS, other, **keyed("a")) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert await room.problem("POST", "/v1/scopes", {"slug": "x"}, **keyed("a")) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert await versions(room) == 1


@pytest.mark.parametrize("key", ["", "two words", "é", "x" * 256])
async def test_a_key_that_cannot_be_one_is_refused(room: Room, key: str) -> None:
    headers = {b"idempotency-key": key.encode()}
    assert await room.problem("POST", SCHEMAS, SCHEMA, headers=headers) == (422, "INVALID_INPUT")


async def test_what_was_refused_is_not_kept(room: Room) -> None:
    await room.do("POST", "/v1/scopes", {"slug": "taken"})
    assert await room.problem("POST", "/v1/scopes", {"slug": "taken"}, **keyed("a")) == (409, "SLUG_TAKEN")
    await room.do("DELETE", "/v1/scopes/taken")
    assert (await room.ask("POST", "/v1/scopes", {"slug": "taken"}, **keyed("a"))).status_code == 201


async def test_nobody_is_given_the_answer_of_another_key_or_tenant(room: Room) -> None:
    await room.do("POST", "/v1/scopes", {"slug": "ours"}, **keyed("a"))
    stranger = await room.tenant("globex")
    theirs = await room.ask("POST", "/v1/scopes", {"slug": "ours"}, key=stranger, **keyed("a"))
    assert (theirs.status_code, "idempotent-replayed" in theirs.headers) == (201, False)
    colleague = (await room.do("POST", "/v1/keys", {"name": "b", "permissions": ["manage", "view"]}))["secret"]
    assert await room.problem("POST", "/v1/scopes", {"slug": "ours"}, key=colleague, **keyed("a")) == (
        409,
        "SLUG_TAKEN",
    )


async def test_of_many_at_once_one_is_done_and_all_are_answered(room: Room) -> None:
    asked = [room.ask("POST", SCHEMAS, SCHEMA, **keyed("a")) for _ in range(8)]
    answers = await asyncio.gather(*asked)
    assert {each.status_code for each in answers} == {201}
    assert len({each.content for each in answers}) == 1
    assert sum("idempotent-replayed" not in each.headers for each in answers) == 1
    assert await versions(room) == 1


async def test_a_secret_is_shown_once_and_kept_nowhere(room: Room, tmp_path: Path) -> None:
    webhook = {"url": "https://hooks.example.com/events"}
    for path, body in (
        ("/v1/keys", {"name": "once", "permissions": ["view"]}),
        ("/v1/scopes/billing/webhooks", webhook),
    ):
        first = (await room.ask("POST", path, body, **keyed(path))).json()["data"]
        again = (await room.ask("POST", path, body, **keyed(path))).json()["data"]
        assert first["secret"]
        assert again == {**first, "secret": ""}
        if path == "/v1/keys":  # what signs events has to be kept in clear, in the webhook's own row
            assert first["secret"].encode() not in on_disk(tmp_path)
            assert first["key"]["id"].encode() in on_disk(tmp_path)
    keys = await room.do("GET", "/v1/keys")
    assert [each["name"] for each in keys].count("once") == 1


async def test_a_rotation_that_is_sent_twice_leaves_the_old_secret_its_time(room: Room) -> None:
    made = await room.do("POST", "/v1/keys", {"name": "k", "permissions": ["view"]})
    for _ in range(2):
        await room.do("POST", f"/v1/keys/{made['key']['id']}/rotate", {}, **keyed("a"))
    assert (await room.ask("GET", "/v1/scopes", key=made["secret"])).status_code == 200


async def test_after_a_crash_between_work_and_answer_nothing_is_done_twice(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relevo.work.store.kept_answers.PATIENCE_S", 0.0)  # nobody is about to answer

    def crash() -> None:
        raise RuntimeError("the process dies here")

    disarm = arm("request.done", crash)
    try:
        assert (await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))).status_code == 500
    finally:
        disarm()
    refused = await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))
    assert (refused.status_code, refused.json()["code"]) == (409, "IDEMPOTENCY_KEY_BUSY")
    assert (refused.headers["retry-after"], refused.json()["retry_after_s"]) == ("1", 1)
    assert await versions(room) == 1
    later = KeptAnswers(room.work_queues.database, lambda: room.work_queues.now_ms() + LOST_AFTER_S * 1000 + 1)

    async def act() -> Answer:
        raise AssertionError("it was done")

    fingerprint = await _fingerprint(room)
    key = (await room.do("GET", "/v1/keys"))[0]["id"]
    owner = await room.work_queues.keys.recognise(room.key.encode(), "r")
    assert owner.actor == f"key:{key}"
    with pytest.raises(IdempotentAnswerLost):
        await later.once(owner, "a", fingerprint, act)


async def _fingerprint(room: Room) -> str:
    async with room.work_queues.database.connect() as connection:
        return (await connection.execute(select(kept_answers.c.fingerprint))).scalar_one()


async def test_after_a_day_a_key_is_new_and_an_agent_has_forgotten_it(room: Room) -> None:
    await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))
    now = room.work_queues.now_ms()
    kept = KeptAnswers(room.work_queues.database, lambda: now + KEPT_S * 1000 - 60_000)
    assert await kept.forget_old() == 0
    await _age(room, KEPT_S)
    assert (await ExpiryEnforcer(room.work_queues).work()).items == 1
    await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))
    assert await versions(room) == 2
    await _age(room, KEPT_S)  # no agent has come by yet: it is new all the same
    await room.ask("POST", SCHEMAS, SCHEMA, **keyed("a"))
    assert await versions(room) == 3


async def _age(room: Room, seconds: int) -> None:
    async with room.work_queues.database.begin() as connection:
        older = kept_answers.c.begun_at - seconds * 1000
        await connection.execute(update(kept_answers).values(begun_at=older))


async def test_an_erasure_forgets_what_was_answered_about_a_person(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relevo.work.store.kept_answers.PATIENCE_S", 0.0)  # nobody is about to answer
    secret = f"diagnosis-{os.getpid()}"
    message = await room.publish(body={"told": secret}, labels={"subject": "p1"})
    (claimed,) = await room.claim()
    failed = {"claim_token": claimed["claim_token"], "reason": "bad", "dead": True}
    await room.do("POST", f"/v1/scopes/billing/messages/{message}/fail", failed)
    path = f"/v1/scopes/billing/dead-letters/{message}/review"
    assert secret in (await room.ask("POST", path, **keyed("a"))).text
    review = (await room.ask("POST", path, **keyed("a"))).json()["data"]["id"]
    await room.do("POST", f"/v1/scopes/billing/reviews/{review}/withdraw", {})
    erased = await room.do("POST", "/v1/scopes/billing/erasures", {"subject": "p1"}, **keyed("b"))
    assert erased["state"] == "done"
    assert (await room.ask("POST", path, **keyed("a"))).status_code == 409
    assert secret.encode() not in on_disk(tmp_path)


async def test_publishing_keeps_its_own_key(room: Room) -> None:
    first = await room.ask("POST", f"{QUEUE}/messages", {"body": 1, "idempotency_key": "a"}, **keyed("b"))
    other = await room.ask("POST", f"{QUEUE}/messages", {"body": 2}, **keyed("b"))
    assert (first.status_code, other.status_code) == (201, 201)
