"""Webhooks, parts and erasures through the API, with agents at work, beside a Redis and without one."""

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from relevo.work.webhooks.signature import verify
from tests.pace import limit
from tests.patience import turn, until
from tests.people.conftest import ALLOWED
from tests.people.receiver import Receiver
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.servers.stores import sqlite_with_tables
from tests.support.room import QUEUE, Room, served

HOOKS = "/v1/scopes/billing/webhooks"


@pytest.fixture(params=["redis", "alone"])
async def telling(request: pytest.FixtureRequest, tmp_path: Path, key_leaks: KeyLeaks) -> AsyncGenerator[Room]:
    redis: Server | None = request.getfixturevalue("valkey") if request.param == "redis" else None
    key_leaks.allow("rw:*")
    url = await sqlite_with_tables(tmp_path / "served.db")
    redis_url = None if redis is None else redis.url
    async with served(url, redis_url=redis_url, agents=True, webhook_allow=ALLOWED) as room:
        yield room


async def test_an_event_of_a_message_reaches_the_receiver(telling: Room, receiver: Receiver) -> None:
    made = await telling.do("POST", HOOKS, {"url": receiver.url(), "events": ["published"]})
    hearing = asyncio.ensure_future(receiver.heard.wait_for(timeout=limit(40)))
    await turn()
    await telling.publish()
    got = await hearing
    verify(got.headers["relevo-signature"], got.body, made["secret"], int(time.time()))
    assert made["secret"] not in str(await telling.do("GET", HOOKS))


async def test_a_delivery_is_sent_again_by_hand(telling: Room, receiver: Receiver) -> None:
    made = await telling.do("POST", HOOKS, {"url": receiver.url(), "events": ["published"]})
    attempted = telling.work_queues.webhook_deliveries.attempted
    first = asyncio.ensure_future(attempted.wait_for(timeout=limit(40)))
    await turn()
    await telling.publish()
    await first
    log = f"{HOOKS}/{made['webhook']['id']}/deliveries"
    (line,) = await telling.do("GET", log, params={"state": "delivered"})
    second = asyncio.ensure_future(attempted.wait_for(timeout=limit(40)))
    await turn()
    await telling.do("POST", f"{log}/{line['id']}/redeliver")
    await second
    assert [got.headers["relevo-delivery"] for got in receiver.got] == [line["id"]] * 2


async def test_a_receiver_that_does_not_answer_holds_up_no_other(telling: Room, receiver: Receiver) -> None:
    receiver.silent.add("/silent")
    for path in ("/silent", "/quick"):
        await telling.do("POST", HOOKS, {"url": receiver.url(path), "events": ["published"]})

    def got(path: str) -> int:
        return sum(each.path == path for each in receiver.got)

    for number in range(1, 13):
        await telling.publish()
        await until(lambda number=number: got("/quick") == number)
    assert 1 <= got("/silent") <= 4
    receiver.lets_go.set()
    await until(lambda: got("/silent") == 12)


async def test_a_webhook_is_changed_rotated_and_deleted(room: Room) -> None:
    made = await room.do("POST", HOOKS, {"url": "https://example.org/hook"})
    one = f"{HOOKS}/{made['webhook']['id']}"
    assert (await room.do("PATCH", one, {"state": "disabled"}))["state"] == "disabled"
    assert (await room.do("POST", f"{one}/rotate"))["secret"] != made["secret"]
    assert (await room.do("GET", one))["secrets"] == 2
    await room.do("DELETE", one)
    assert await room.problem("GET", one) == (404, "NOT_FOUND")
    assert await room.problem("POST", HOOKS, {"url": "http://example.org/"}) == (422, "BAD_WEBHOOK_URL")
    assert await room.problem("POST", HOOKS, {"url": "https://example.org/", "events": ["x"]}) == (422, "INVALID_INPUT")


async def test_a_foreign_key_sees_nothing_of_all_this(room: Room) -> None:
    foreign = await room.tenant("other")
    made = await room.do("POST", HOOKS, {"url": "https://example.org/hook"})
    message_id = await room.publish()
    one = f"{HOOKS}/{made['webhook']['id']}"
    for method, path, body in (
        ("GET", HOOKS, None),
        ("POST", HOOKS, {"url": "https://example.org/"}),
        ("GET", one, None),
        ("PATCH", one, {}),
        ("DELETE", one, None),
        ("POST", f"{one}/rotate", {}),
        ("GET", f"{one}/deliveries", None),
        ("GET", "/v1/scopes/billing/grants", None),
        ("GET", "/v1/scopes/billing/erasures", None),
        ("POST", "/v1/scopes/billing/erasures", {"subject": "ada"}),
        ("GET", f"/v1/scopes/billing/messages/{message_id}/chunks", None),
        ("POST", f"/v1/scopes/billing/messages/{message_id}/chunks", {"claim_token": "x", "body": 1}),
    ):
        assert await room.problem(method, path, body, key=foreign) == (404, "NOT_FOUND"), (method, path)


async def test_parts_are_sent_and_read_over_http(room: Room) -> None:
    await room.publish()
    (claimed,) = await room.claim()
    path = f"/v1/scopes/billing/messages/{claimed['id']}/chunks"
    token = {"claim_token": claimed["claim_token"]}
    assert (await room.do("POST", path, {**token, "body": "Hel"}))["number"] == 1
    begins = asyncio.ensure_future(room.work_queues.long_poll.begun.wait_for(timeout=limit(30)))
    waiting = asyncio.ensure_future(room.do("GET", path, params={"after": 1, "wait_s": 30}))
    await begins
    await room.do("POST", path, {**token, "body": "lo", "final": True})
    found = await waiting
    assert [part["body"] for part in found["chunks"]] == ["lo"]
    assert found["complete"]
    assert await room.problem("POST", path, {**token, "body": "!"}) == (409, "CHUNK_CONFLICT")
    await room.do("POST", f"/v1/scopes/billing/messages/{claimed['id']}/complete", token)
    assert (await room.do("GET", f"/v1/scopes/billing/messages/{claimed['id']}"))["result"] == "Hello"


async def test_a_subject_is_erased_over_http(room: Room) -> None:
    message_id = await room.publish(body={"name": "Ada"}, labels={"subject": "ada"})
    done = await room.do("POST", "/v1/scopes/billing/erasures", {"subject": "ada"})
    assert (done["state"], done["messages"]) == ("done", 1)
    found = await room.do("GET", f"/v1/scopes/billing/messages/{message_id}")
    assert (found["body"], found["state"], found["labels"]) == (None, "cancelled", {})
    assert await room.do("GET", f"/v1/scopes/billing/erasures/{done['id']}") == done
    assert await room.problem("POST", f"{QUEUE}/claim", {"batch_size": 0}) == (422, "INVALID_INPUT")
