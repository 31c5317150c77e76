"""What nobody took before its ttl or deadline expires."""

from typing import Any

import pytest

from relevo.agents.expiry_enforcer import ExpiryEnforcer
from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.work.store.counters import depths_of
from tests.support.desk import SCOPE, Desk


@pytest.mark.parametrize("by", ["ttl", "deadline"])
async def test_a_message_past_its_time_expires(desk: Desk, by: str) -> None:
    queue_id = (await desk.queue()).id
    times: Any = {"ttl_s": 60} if by == "ttl" else {"deadline": desk.clock() + 60_000}
    (message_id,) = await desk.publish(**times)
    agent = ExpiryEnforcer(desk.work_queues)
    assert (await agent.work()).items == 0
    desk.clock.turn(s=61)
    assert (await agent.work()).items == 1
    row = await desk.row(message_id)
    assert (row["state"], row["failure_reason"]) == ("expired", f"expired: {by}")
    error = (await desk.work_queues.search.get(desk.caller, SCOPE, message_id)).error
    assert error is not None
    assert (error.type, by in (error.message or "")) == ("Expired", True)
    assert await desk.claim() == []
    assert (await depths_of(desk.work_queues.database, [queue_id]))[queue_id].pending == 0


async def test_a_delayed_message_expires_without_ever_being_visible(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await desk.publish(ttl_s=10, delay_s=3600)
    desk.clock.turn(s=11)
    assert (await ExpiryEnforcer(desk.work_queues).work()).items == 1
    assert (await desk.row(message_id))["state"] == "expired"


async def test_work_that_has_begun_is_finished(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=3600)
    await desk.publish(ttl_s=10)
    claimed = await desk.claim()
    desk.clock.turn(s=11)
    assert (await ExpiryEnforcer(desk.work_queues).work()).items == 0
    (settled,) = await desk.settle("complete", claimed)
    assert settled.state == "completed"


async def test_work_that_comes_back_after_its_time_expires(desk: Desk) -> None:
    """What was due while somebody worked on it is looked at again."""
    await desk.queue(visibility_timeout_s=3600)
    (message_id,) = await desk.publish(ttl_s=10)
    claimed = await desk.claim()
    agent = ExpiryEnforcer(desk.work_queues)
    for _ in range(3):
        desk.clock.turn(s=61)
        assert (await agent.work()).items == 0
    await desk.settle("release", claimed)
    desk.clock.turn(s=61)
    assert (await agent.work()).items == 1
    assert (await desk.row(message_id))["state"] == "expired"


async def test_a_queue_may_send_what_expired_to_its_dead_letters(desk: Desk) -> None:
    await desk.queue(dead_letter_expired=True)
    (message_id,) = await desk.publish(ttl_s=10)
    desk.clock.turn(s=11)
    await ExpiryEnforcer(desk.work_queues).work()
    (letter,) = (await desk.work_queues.dead_letters.list(desk.caller, SCOPE)).items
    assert (letter.id, letter.queue, letter.reason) == (message_id, "jobs", "expired: ttl")
    assert letter.error is not None
    assert letter.error.text == "Expired: nobody claimed it before its ttl was over"


async def test_a_message_whose_claim_outlived_its_ttl_expires_when_it_comes_back(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=7200)
    (message_id,) = await desk.publish(ttl_s=10)
    agent = ExpiryEnforcer(desk.work_queues)
    await desk.claim()
    for _ in range(40):  # many looks while it is claimed: its ttl is long past what a look begins with
        desk.clock.turn(minutes=2)
        await agent.work()
    desk.clock.turn(minutes=60)
    await VisibilityTimeoutEnforcer(desk.work_queues).work()
    assert (await desk.row(message_id))["state"] == "pending"
    desk.clock.turn(minutes=11)
    await agent.work()
    assert (await desk.row(message_id))["state"] == "expired"


async def test_of_a_broadcast_message_the_deliveries_expire_too(desk: Desk) -> None:
    await desk.queue("news", consumer_mode="broadcast")
    await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", "mail")
    await desk.publish(1, "news", ttl_s=10)
    desk.clock.turn(s=11)
    await ExpiryEnforcer(desk.work_queues).work()
    assert await desk.claim(1, "news", subscription="mail") == []
    (subscription,) = (await desk.work_queues.subscriptions.list(desk.caller, SCOPE, "news")).items
    assert subscription.pending == 0
