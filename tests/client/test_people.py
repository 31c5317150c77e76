"""The typed clients on rules, reviews, schemas, access, webhooks, parts, erasures and events, against a served room."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from relevo.client import AsyncClient, Client, Event
from relevo.client.event_lines import EventLines
from relevo.errors import (
    BadRule,
    EventsNotKept,
    NotFound,
    PermissionDenied,
    ReviewHeld,
    SchemaIncompatible,
    SchemaInvalid,
)
from tests.pace import limit
from tests.patience import until
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Server
from tests.servers.stores import sqlite_with_tables
from tests.support.room import Room, served
from tests.support.stream_jobs import dead_job

SCOPE = "billing"
DROP = {"name": "late", "trigger": "message_published", "condition": "body.late", "actions": [{"action": "drop"}]}


async def test_a_rule_is_tried_made_changed_and_deleted(client: AsyncClient) -> None:
    (told,) = await client.try_rule(SCOPE, DROP, "invoices", body={"late": True})
    assert (told.matches, told.ending) == (True, "dropped")
    made = await client.create_rule(SCOPE, DROP)
    assert (made.rule.name, made.breaker) == ("late", "closed")
    assert (await client.publish(SCOPE, "invoices", {"late": True})).state == "cancelled"
    assert [each.rule.name for each in (await client.rules(SCOPE)).items] == ["late"]
    assert (await client.change_rule(SCOPE, {**DROP, "enabled": False})).rule.enabled is False
    assert (await client.reset_rule(SCOPE, "late")).breaker == "closed"
    (told,) = await client.try_rule(SCOPE, DROP, "invoices", last=1)
    assert told.body == {"late": True}
    await client.delete_rule(SCOPE, "late")
    with pytest.raises(NotFound):
        await client.rule(SCOPE, "late")
    with pytest.raises(BadRule):
        await client.create_rule(SCOPE, {**DROP, "condition": "body."})


async def test_trust_is_given_and_taken(client: AsyncClient) -> None:
    await client.create_scope("vault")
    assert (await client.trust("vault", SCOPE)).trusted == SCOPE
    assert [each.trusted for each in (await client.trusts("vault")).items] == [SCOPE]
    await client.distrust("vault", SCOPE)
    assert (await client.trusts("vault")).items == []


async def test_a_review_goes_from_hand_to_hand_and_its_result_to_who_waits(room: Room, client: AsyncClient) -> None:
    made = await client.create_key("desk", ["view", "review"])
    await client.limit_key(made.key.id, acts_for_people=True)
    spec = {"title": "Pay {{amount}}?", "may_correct": True}
    assert (await client.add_review_pattern(SCOPE, "pay", spec)).parameters == ["amount"]
    assert (await client.preview_review(SCOPE, "pay", {"amount": 5}))["title"] == "Pay 5?"
    assert [each.version for each in (await client.review_patterns(SCOPE)).items] == [1]
    assert (await client.review_pattern(SCOPE, "pay")).name == "pay"
    use = {"pattern": "pay", "parameters": {"amount": 5}}
    published = await client.publish(SCOPE, "invoices", {"n": 1}, hitl_spec=use)
    assert published.state == "in_review"
    async with AsyncClient(room.service.url, key=made.secret) as desk:
        (review,) = (await desk.reviews(SCOPE)).items
        waiting = asyncio.create_task(client.review_result(SCOPE, review.id, wait_s=30))
        assert (await desk.claim_review(SCOPE, review.id, person="ada")).holder == "ada"
        with pytest.raises(ReviewHeld):
            await desk.claim_review(SCOPE, review.id, person="grace")
        await desk.comment_review(SCOPE, review.id, "looks fine", person="grace")
        await desk.hand_over_review(SCOPE, review.id, "grace", person="ada")
        await desk.release_review(SCOPE, review.id, person="grace")
        await desk.decide_review(SCOPE, review.id, {"decision": "approve"}, corrected_body={"n": 2}, person="ada")
    over = await waiting
    assert (over.state, over.outcome, over.votes[0].person) == ("decided", {"decision": "approve"}, "ada")
    assert [note.did for note in over.notes] == ["claimed", "commented", "handed over", "released", "decided"]
    assert (await client.review(SCOPE, review.id)).votes[0].corrected_body == {"n": 2}


async def test_a_key_s_name_is_the_person(room: Room, client: AsyncClient) -> None:
    await client.publish(SCOPE, "invoices", 1, hitl_spec={"title": "?", "assignees": ["ada"]})
    (review,) = (await client.reviews(SCOPE)).items
    secret = (await client.create_key("ada", ["view", "review"])).secret
    async with AsyncClient(room.service.url, key=secret) as ada:
        assert (await ada.claim_review(SCOPE, review.id)).holder == "ada"
        with pytest.raises(PermissionDenied):
            await ada.claim_review(SCOPE, review.id, person="grace")
    assert (await client.withdraw_review(SCOPE, review.id, "no longer needed")).state == "withdrawn"


async def test_a_dead_letter_is_reviewed_and_comes_back(client: AsyncClient) -> None:
    await client.publish(SCOPE, "invoices", {"n": 1})
    (claimed,) = await client.claim(SCOPE, "invoices")
    await client.fail(SCOPE, claimed, "no", dead=True)
    review = await client.review_dead_letter(SCOPE, claimed.id, {"title": "And now?", "may_correct": True})
    assert (review.title, review.source) == ("And now?", "dead_letter")
    await client.decide_review(SCOPE, review.id, {"decision": "approve"})
    (again,) = await client.claim(SCOPE, "invoices", wait_s=20)
    assert again.id == claimed.id


async def test_bodies_must_fit_and_the_refusal_says_why(client: AsyncClient) -> None:
    await client.publish(SCOPE, "invoices", {"old": 1})
    made = await client.add_schema(SCOPE, "invoice", {"type": "object", "required": ["amount"]})
    assert (made.version, (await client.schema(SCOPE, "invoice")).definition["type"]) == (1, "object")
    assert (await client.compatibility(SCOPE, "invoice", "invoices")).refused == 1
    with pytest.raises(SchemaIncompatible):
        await client.bind_schema(SCOPE, "invoices", "invoice")
    assert (await client.bind_schema(SCOPE, "invoices", "invoice", force=True)).version == 1
    with pytest.raises(SchemaInvalid, match="amount"):
        await client.publish(SCOPE, "invoices", {})
    bound = await client.bound_schema(SCOPE, "invoices")
    assert bound is not None
    await client.unbind_schema(SCOPE, "invoices")
    assert await client.bound_schema(SCOPE, "invoices") is None
    await client.delete_schema(SCOPE, "invoice")
    assert (await client.schemas(SCOPE)).items == []


async def test_parts_are_read_in_order_as_they_come(client: AsyncClient) -> None:
    await client.publish(SCOPE, "invoices", "write")
    (claimed,) = await client.claim(SCOPE, "invoices")
    reading = asyncio.create_task(client.chunks(SCOPE, claimed.id, wait_s=30))
    await client.append_chunk(SCOPE, claimed, "once ", number=1)
    await client.append_chunk(SCOPE, claimed, "once ", number=1)
    first = await reading
    assert [part.body for part in first.chunks] == ["once "]
    await client.append_chunk(SCOPE, claimed, "upon", final=True)
    rest = await client.chunks(SCOPE, claimed.id, after=1, stream=first.stream)
    assert ([part.body for part in rest.chunks], rest.complete) == (["upon"], True)
    await client.complete(SCOPE, claimed)
    assert (await client.message(SCOPE, claimed.id)).result == "once upon"


async def test_what_a_subject_s_messages_say_is_erased(client: AsyncClient) -> None:
    made = await client.publish(SCOPE, "invoices", {"name": "ada"}, labels={"subject": "42"})
    erasure = await client.erase(SCOPE, "42")
    if erasure.state == "running":
        await client.run_agent("erasure_runner")

    async def is_done() -> bool:
        return (await client.erasure(SCOPE, erasure.id)).state == "done"

    await until(is_done)  # the agent may be at it by itself, and whoever runs it then does not wait
    assert [each.messages for each in (await client.erasures(SCOPE)).items] == [1]
    assert (await client.message(SCOPE, made.id)).body is None


async def test_keys_are_granted_limited_and_rotated(room: Room, client: AsyncClient) -> None:
    made = await client.create_key("one", ["view"], scopes=["elsewhere"])
    granted = await client.grant(SCOPE, made.key.id, ["view", "publish"], queue="invoices")
    assert [each.id for each in (await client.grants(SCOPE, key_id=made.key.id)).items] == [granted.id]
    async with AsyncClient(room.service.url, key=made.secret) as one:
        await one.publish(SCOPE, "invoices", 1)
        await client.revoke_grant(SCOPE, granted.id)
        with pytest.raises(PermissionDenied):
            await one.publish(SCOPE, "invoices", 2)
    limits = await client.limit_key(made.key.id, requests_per_s=5, burst=10)
    assert await client.key_limits(made.key.id) == limits
    turned = await client.rotate_key(made.key.id, grace_s=0)
    assert turned.secret != made.secret


async def test_a_webhook_is_made_changed_and_its_log_read(client: AsyncClient) -> None:
    made = await client.create_webhook(SCOPE, "https://example.org/hook", events=["completed"])
    assert made.secret
    hook = await client.webhook(SCOPE, made.webhook.id)
    assert (hook.events, hook.state) == (["completed"], "active")
    assert (await client.rotate_webhook(SCOPE, hook.id)).webhook.secrets == 2
    assert (await client.deliveries(SCOPE, hook.id)).items == []
    with pytest.raises(NotFound):
        await client.redeliver(SCOPE, hook.id, hook.id)
    assert (await client.change_webhook(SCOPE, hook.id, state="disabled")).state == "disabled"
    await client.delete_webhook(SCOPE, hook.id)
    assert (await client.webhooks(SCOPE)).items == []


async def test_without_redis_events_are_refused_with_the_remedy(client: AsyncClient) -> None:
    with pytest.raises(EventsNotKept):
        await anext(client.events(SCOPE))


# --- with Redis ------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def eventful(tmp_path: Path, valkey: Server, key_leaks: KeyLeaks) -> AsyncGenerator[Room]:
    key_leaks.allow("rw:*")
    url = await sqlite_with_tables(tmp_path / "events.db")
    async with served(url, redis_url=valkey.url, agents=True) as room:
        yield room


async def test_dead_letters_of_a_stream_queue_go_to_review_one_by_one_and_all(
    tmp_path: Path, valkey: Server, queue_name: str, key_leaks: KeyLeaks
) -> None:
    key_leaks.allow("rw:*")
    entry = await dead_job(valkey.url, queue_name)
    url = await sqlite_with_tables(tmp_path / "streams.db")
    async with (
        served(url, redis_url=valkey.url, stream_queues=(queue_name,)) as room,
        AsyncClient(room.service.url, key=room.key) as client,
    ):
        review = await client.review_stream_dead_letter(SCOPE, queue_name, entry, {"title": "Again?"})
        assert (review.title, review.source) == ("Again?", "stream_dead_letter")
        made = await client.watch_stream(SCOPE, queue_name, {"title": "Look"})
        assert (made.stream_queue, made.review) == (queue_name, {"title": "Look"})
        assert [each.stream_queue for each in (await client.stream_watches(SCOPE)).items] == [queue_name]
        await client.unwatch_stream(SCOPE, queue_name)
        assert (await client.stream_watches(SCOPE)).items == []


async def test_events_are_followed_and_go_on_after_the_last_one(eventful: Room) -> None:
    async with AsyncClient(eventful.service.url, key=eventful.key) as client:
        first = await client.publish(SCOPE, "invoices", 1)
        seen = await _first(client, None)
        assert (seen.name, seen.data["message_id"]) == ("published", first.id)
        second = await client.publish(SCOPE, "invoices", 2)
        seen = await _first(client, seen.place)
        assert seen.data["message_id"] == second.id


async def test_the_client_without_asyncio_follows_events_too(eventful: Room) -> None:
    published = await eventful.publish()

    def follow() -> Event:
        with Client(eventful.service.url, key=eventful.key) as client:
            return next(client.events(SCOPE, queues=["invoices"], events=["published"], after="0"))

    assert (await asyncio.to_thread(follow)).data["message_id"] == published


async def _first(client: AsyncClient, after: str | None) -> Event:
    following = client.events(SCOPE, queues=["invoices"], events=["published"], after=after or "0")
    try:
        async with asyncio.timeout(limit(40)):
            return await anext(following)
    finally:
        await following.aclose()


def test_an_answer_that_breaks_off_in_the_midst_of_an_event_loses_none() -> None:
    lines = EventLines("1-0")
    for line in ("id: 2-0", "event: completed"):
        assert lines.take(line) is None
    assert lines.place == "1-0", "an event that was not told whole is told again"
    assert lines.take('data: {"n": 2}') is None
    assert lines.take("") == Event(name="completed", data={"n": 2}, place="2-0")
    assert lines.place == "2-0"
