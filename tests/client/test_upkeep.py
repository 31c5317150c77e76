"""The typed client on scopes, queues, priorities, replays, subscriptions, keys and reports, against a served room."""

import pytest

from relevo.client import AsyncClient
from relevo.errors import KeyExpired, NotFound
from tests.support.room import Room

SCOPE = "billing"


async def test_scopes_and_queues_are_listed_changed_and_deleted(client: AsyncClient) -> None:
    await client.create_scope("vault", display_name="Vault")
    changed = await client.change_scope("vault", state="paused", events_to_queue=["completed"])
    assert (changed.state, changed.display_name, changed.events_to_queue) == ("paused", "Vault", ["completed"])
    await client.create_queue("vault", "coins", ordering="priority")
    queues = (await client.queues("vault")).items
    assert [each.slug for each in queues if not each.system] == ["coins"]
    assert (await client.change_queue("vault", "coins", max_retries=1)).max_retries == 1
    await client.delete_queue("vault", "coins")
    with pytest.raises(NotFound):
        await client.queue("vault", "coins")
    await client.delete_scope("vault")
    assert [each.slug for each in (await client.scopes()).items] == [SCOPE]


async def test_a_message_that_waits_is_made_urgent_or_cancelled(client: AsyncClient) -> None:
    published = await client.publish(SCOPE, "invoices", 1)
    message = await client.reprioritise(SCOPE, published.id, tier="critical", score=7)
    assert (message.priority_tier, message.priority_score) == ("critical", 7)
    assert (await client.cancel(SCOPE, published.id, reason="not needed")).state == "cancelled"


async def test_a_message_tells_what_people_are_asked(client: AsyncClient) -> None:
    published = await client.publish(SCOPE, "invoices", 1, hitl_spec={"title": "Pay?"})
    assert (await client.message(SCOPE, published.id)).hitl_spec["title"] == "Pay?"


async def test_a_replay_is_listed_and_cancelled(client: AsyncClient) -> None:
    for n in range(3):
        await client.publish(SCOPE, "invoices", n)
    for claimed in await client.claim(SCOPE, "invoices", batch_size=3):
        await client.fail(SCOPE, claimed, "no", dead=True)
    replay = await client.start_replay(SCOPE, {"queue": "invoices"}, rate_per_s=1)
    assert [each.id for each in (await client.replays(SCOPE)).items] == [replay.id]
    assert (await client.cancel_replay(SCOPE, replay.id)).state == "cancelled"


async def test_a_subscription_gets_every_message_until_it_ends(client: AsyncClient) -> None:
    await client.create_queue(SCOPE, "news", consumer_mode="broadcast")
    assert (await client.subscribe(SCOPE, "news", "mail")).name == "mail"
    published = await client.publish(SCOPE, "news", "hello")
    (claimed,) = await client.claim(SCOPE, "news", subscription="mail")
    assert claimed.id == published.id
    (listed,) = (await client.subscriptions(SCOPE, "news")).items
    assert (listed.name, listed.claimed) == ("mail", 1)
    await client.unsubscribe(SCOPE, "news", "mail")
    assert (await client.subscriptions(SCOPE, "news")).items == []


async def test_a_key_is_listed_and_revoked(room: Room, client: AsyncClient) -> None:
    made = await client.create_key("robot", ["view"])
    assert {each.name for each in (await client.keys()).items} == {"first", "robot"}
    assert (await client.revoke_key(made.key.id)).revoked_at is not None
    async with AsyncClient(room.service.url, key=made.secret) as one:
        with pytest.raises(KeyExpired):
            await one.scopes()


async def test_what_was_done_is_counted_and_told(client: AsyncClient) -> None:
    published = await client.publish(SCOPE, "invoices", 1, correlation_id="order-17")
    (claimed,) = await client.claim(SCOPE, "invoices")
    await client.complete(SCOPE, claimed)
    story = await client.trace("order-17")
    assert (story.messages, story.reviews, story.complete) == ([published.id], [], True)
    assert [step.what for step in story.steps if step.source == "message"] == ["published", "claimed", "completed"]
    (row,) = (await client.usage(scope=SCOPE)).items
    assert (row.queue, row.published, row.completed) == ("invoices", 1, 1)
    entries = (await client.audit(scope=SCOPE, action="queue.create")).items
    assert [entry.target for entry in entries] == ["invoices"]
    assert "message_archiver" in {each.agent for each in (await client.agents()).items}
