"""Every subscription of a broadcast queue gets every message, with claims, retries and failures of its own."""

import asyncio
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from relevo.agents.expiry_enforcer import ExpiryEnforcer
from relevo.agents.index_auditor import IndexAuditor
from relevo.agents.message_archiver import MessageArchiver
from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.errors import InvalidInput, NotFound, SlugTaken, WrongConsumerMode
from relevo.work.message.verdict import SettleItem, Verdict
from relevo.work.store.counters import depths_of
from relevo.work.store.outbox import decode
from relevo.work.store.tables import outbox
from tests.pace import limit
from tests.support.desk import SCOPE, Desk


async def news(desk: Desk, *names: str, **settings: object) -> int:
    """A broadcast queue `news` with subscriptions."""
    queue_id = (await desk.queue("news", consumer_mode="broadcast", **settings)).id
    for name in names:
        await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", name)
    return queue_id


async def claimed_ids(desk: Desk, subscription: str, count: int = 10) -> list[str]:
    return [each.id for each in await desk.claim(count, "news", subscription=subscription)]


async def test_every_subscription_sees_every_message_in_order(desk: Desk) -> None:
    await news(desk, "mail", "search")
    ids = await desk.publish(5, "news")
    assert await claimed_ids(desk, "mail") == ids
    assert await claimed_ids(desk, "search") == ids
    assert await claimed_ids(desk, "mail") == []


async def test_competing_workers_of_one_subscription_share_its_messages(desk: Desk) -> None:
    await news(desk, "mail")
    ids = await desk.publish(30, "news")
    shares = await asyncio.gather(*(claimed_ids(desk, "mail", 10) for _ in range(3)))
    assert sorted(each for share in shares for each in share) == ids


async def test_a_message_is_terminal_when_every_subscription_settled_it(desk: Desk) -> None:
    queue_id = await news(desk, "mail", "search")
    (message_id,) = await desk.publish(1, "news")
    for name, state in (("mail", "pending"), ("search", "completed")):
        await desk.settle("complete", await desk.claim(1, "news", subscription=name), result=msgspec.Raw(b"1"))
        assert (await desk.row(message_id))["state"] == state
    assert (await depths_of(desk.work_queues.database, [queue_id]))[queue_id].pending == 0


async def test_a_failed_delivery_is_tried_again_in_its_subscription_only(desk: Desk) -> None:
    await news(desk, "mail", "search", backoff_initial_ms=1000, backoff_jitter_ms=0)
    (message_id,) = await desk.publish(1, "news")
    (settled,) = await desk.settle("fail", await desk.claim(1, "news", subscription="mail"), reason="later")
    assert settled.state == "delayed"
    await desk.settle("complete", await desk.claim(1, "news", subscription="search"))
    desk.clock.turn(s=2)
    assert (await VisibilityTimeoutEnforcer(desk.work_queues).work()).items == 1
    (again,) = await desk.claim(1, "news", subscription="mail")
    assert (again.id, again.attempts) == (message_id, 2)
    assert await claimed_ids(desk, "search") == []


async def test_a_delivery_that_died_is_a_dead_letter_and_its_replay_goes_to_its_subscription(desk: Desk) -> None:
    await news(desk, "mail", "search")
    (message_id,) = await desk.publish(1, "news", labels={"customer": "17"})
    await desk.settle("complete", await desk.claim(1, "news", subscription="search"))
    await desk.settle("fail", await desk.claim(1, "news", subscription="mail"), reason="bad address", dead=True)
    assert (await desk.row(message_id))["state"] == "completed"
    (letter,) = (await desk.work_queues.dead_letters.list(desk.caller, SCOPE)).items
    assert (letter.parent_id, letter.subscription, letter.queue) == (message_id, "mail", "news")
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE)
    await desk.work_queues.replays.advance(desk.caller, replay.id, 10)
    assert await claimed_ids(desk, "search") == []
    (back,) = await desk.claim(1, "news", subscription="mail")
    assert (back.id, back.parent_id, back.body) == (letter.id, message_id, msgspec.Raw(b'{"n":0}'))
    await desk.settle("complete", [back])
    assert (await desk.row(letter.id))["state"] == "completed"


async def test_a_message_that_died_everywhere_has_failed(desk: Desk) -> None:
    await news(desk, "mail")
    (message_id,) = await desk.publish(1, "news")
    await desk.settle("fail", await desk.claim(1, "news", subscription="mail"), dead=True)
    assert (await desk.row(message_id))["state"] == "failed"


async def test_a_claim_of_a_delivery_comes_back_and_dies_in_the_end(desk: Desk) -> None:
    await news(desk, "mail", visibility_timeout_s=1, max_reclaims=1)
    (message_id,) = await desk.publish(1, "news")
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)
    zombie = await desk.claim(1, "news", subscription="mail")
    desk.clock.turn(s=2)
    await enforcer.work()
    (settled,) = await desk.settle("complete", zombie)
    assert settled.refusal is not None
    (again,) = await desk.claim(1, "news", subscription="mail")
    assert again.reclaims == 1
    desk.clock.turn(s=2)
    await enforcer.work()
    (letter,) = (await desk.work_queues.dead_letters.list(desk.caller, SCOPE)).items
    assert (letter.parent_id, letter.reason) == (message_id, "worker_lost")


async def test_a_settle_sent_twice_is_answered_twice_and_counted_once(desk: Desk) -> None:
    await news(desk, "mail", "search")
    (message_id,) = await desk.publish(1, "news")
    claimed = await desk.claim(1, "news", subscription="mail")
    for _ in range(2):
        (settled,) = await desk.settle("complete", claimed)
        assert settled.state == "completed"
    assert (await desk.row(message_id))["open_deliveries"] == 1


async def test_release_gives_the_try_back_and_extend_holds_on(desk: Desk) -> None:
    await news(desk, "mail", visibility_timeout_s=10)
    await desk.publish(1, "news")
    await desk.settle("release", await desk.claim(1, "news", subscription="mail"))
    claimed = await desk.claim(1, "news", subscription="mail")
    assert claimed[0].attempts == 1
    await desk.settle("extend", claimed, seconds=100)
    desk.clock.turn(s=50)
    assert (await VisibilityTimeoutEnforcer(desk.work_queues).work()).items == 0


async def test_a_subscription_sees_what_is_published_after_it(desk: Desk) -> None:
    await news(desk)
    await desk.publish(2, "news")
    await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", "late")
    (after,) = await desk.publish(1, "news")
    assert await claimed_ids(desk, "late") == [after]


async def test_a_subscription_may_begin_at_a_chosen_message_also_one_that_is_done(desk: Desk) -> None:
    await news(desk, "mail")
    ids = await desk.publish(3, "news")
    await desk.settle("complete", await desk.claim(3, "news", subscription="mail"))
    await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", "late", after=ids[0])
    assert await claimed_ids(desk, "late") == ids[1:]
    assert await claimed_ids(desk, "mail") == []


async def test_publishes_and_subscriptions_at_once_miss_nothing(desk: Desk) -> None:
    await news(desk)

    async def publishing() -> list[str]:
        return [each for _ in range(15) for each in await desk.publish(2, "news")]

    async def subscribing(n: int) -> None:
        await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", f"s{n}", after=0)

    sent = asyncio.ensure_future(publishing())
    await asyncio.gather(sent, *(subscribing(n) for n in range(4)))
    for n in range(4):
        assert sorted(await claimed_ids(desk, f"s{n}", 100)) == sorted(sent.result())


async def test_a_subscription_that_ends_is_not_waited_for(desk: Desk) -> None:
    await news(desk, "mail", "gone")
    (message_id,) = await desk.publish(1, "news")
    await desk.settle("complete", await desk.claim(1, "news", subscription="mail"))
    await desk.work_queues.subscriptions.delete(desk.caller, SCOPE, "news", "gone")
    assert (await desk.row(message_id))["state"] == "completed"


async def test_a_delayed_broadcast_is_seen_when_its_time_has_come(desk: Desk) -> None:
    await news(desk, "mail")
    (message_id,) = await desk.publish(1, "news", delay_s=60)
    assert await claimed_ids(desk, "mail") == []
    desk.clock.turn(s=61)
    await VisibilityTimeoutEnforcer(desk.work_queues).work()
    assert await claimed_ids(desk, "mail") == [message_id]


async def test_a_cancelled_broadcast_is_not_delivered(desk: Desk) -> None:
    await news(desk, "mail")
    (cancelled, kept) = await desk.publish(2, "news")
    await desk.work_queues.messages.cancel(desk.caller, SCOPE, cancelled)
    assert await claimed_ids(desk, "mail", 1) == [kept]
    assert await claimed_ids(desk, "mail") == []


async def test_a_long_poll_of_a_subscription_wakes_on_publish(desk: Desk) -> None:
    await news(desk, "mail")
    waiting = asyncio.ensure_future(desk.claim(1, "news", subscription="mail", wait_s=30))
    (message_id,) = await desk.publish(1, "news")
    async with asyncio.timeout(limit(15)):
        assert [each.id for each in await waiting] == [message_id]


async def test_labels_choose_among_deliveries(desk: Desk) -> None:
    await news(desk, "mail")
    await desk.publish(1, "news", labels={"kind": "ad"})
    (wanted,) = await desk.publish(1, "news", labels={"kind": "bill"})
    claimed = await desk.claim(5, "news", subscription="mail", labels={"kind": "bill"})
    assert [each.id for each in claimed] == [wanted]


async def test_two_subscriptions_that_settle_the_same_messages_at_once_end_them_all(desk: Desk) -> None:
    await news(desk, "a", "b", "c")
    ids = await desk.publish(40, "news")
    claims = [await desk.claim(40, "news", subscription=name) for name in ("a", "b", "c")]
    claims[1].reverse()
    await asyncio.gather(*(desk.settle("complete", each) for each in claims))
    assert {(await desk.row(each))["state"] for each in ids} == {"completed"}


async def test_deliveries_go_with_their_message_into_the_archive(desk: Desk) -> None:
    desk.clock.pass_midnight()
    await news(desk, "mail")
    await desk.publish(1, "news")
    await desk.settle("complete", await desk.claim(1, "news", subscription="mail"))
    desk.clock.turn(minutes=61)
    assert (await MessageArchiver(desk.work_queues).work()).items == 1


async def test_wrong_questions_are_refused(desk: Desk) -> None:
    await news(desk, "mail")
    await desk.queue("jobs")
    create = desk.work_queues.subscriptions.create
    with pytest.raises(SlugTaken):
        await create(desk.caller, SCOPE, "news", "mail")
    with pytest.raises(WrongConsumerMode):
        await create(desk.caller, SCOPE, "jobs", "mail")
    with pytest.raises(InvalidInput):
        await create(desk.caller, SCOPE, "news", "late", after="no id")
    with pytest.raises(NotFound):
        await desk.claim(1, "news", subscription="nobody")
    with pytest.raises(NotFound):
        await desk.work_queues.subscriptions.delete(desk.caller, SCOPE, "news", "nobody")


async def test_a_broadcast_that_expired_whole_is_replayed_to_all_that_have_not_settled_it(desk: Desk) -> None:
    await news(desk, "mail", "search", dead_letter_expired=True)
    (message_id,) = await desk.publish(1, "news", ttl_s=60)
    await desk.settle("complete", await desk.claim(1, "news", subscription="search"))
    desk.clock.turn(s=61)
    await ExpiryEnforcer(desk.work_queues).work()
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE)
    await desk.work_queues.replays.advance(desk.caller, replay.id, 10)
    assert await claimed_ids(desk, "search") == []
    claimed = await desk.claim(1, "news", subscription="mail")
    assert [each.id for each in claimed] == [message_id]
    await desk.settle("complete", claimed)
    assert (await desk.row(message_id))["state"] == "completed"


async def test_a_copy_whose_subscription_is_gone_stays_a_dead_letter(desk: Desk) -> None:
    await news(desk, "mail")
    await desk.publish(1, "news")
    await desk.settle("fail", await desk.claim(1, "news", subscription="mail"), dead=True)
    await desk.work_queues.subscriptions.delete(desk.caller, SCOPE, "news", "mail")
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE)
    await desk.work_queues.replays.advance(desk.caller, replay.id, 10)
    ended = await desk.work_queues.replays.get(desk.caller, SCOPE, replay.id)
    assert (ended.state, ended.done, ended.skipped) == ("done", 0, 1)


async def test_depths_and_rows_agree_after_everything_that_happens_to_broadcasts(desk: Desk) -> None:
    await news(desk, "mail", "search", backoff_initial_ms=0, backoff_jitter_ms=0, max_retries=2)
    await desk.publish(12, "news")

    async def worker(subscription: str) -> None:
        while claimed := await desk.claim(3, "news", subscription=subscription):
            for at, each in enumerate(claimed):
                await desk.settle(("complete", "fail", "fail")[at], [each])

    async def subscriber() -> None:
        for n in range(3):
            await desk.work_queues.subscriptions.create(desk.caller, SCOPE, "news", f"late-{n}", after=0)
            await worker(f"late-{n}")
            await desk.work_queues.subscriptions.delete(desk.caller, SCOPE, "news", f"late-{n}")

    await asyncio.gather(worker("mail"), worker("search"), worker("mail"), subscriber())
    for name in ("mail", "search"):
        desk.clock.turn(s=1)
        await VisibilityTimeoutEnforcer(desk.work_queues).work()
        await worker(name)
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "news")
    for each in (queue, await desk.work_queues.queues.lookup(desk.caller, SCOPE, "_dead_letter")):
        drift = await IndexAuditor(desk.work_queues)._drift(each)  # pyright: ignore[reportPrivateUsage]
        assert set(drift.values()) == {0}
    assert (await depths_of(desk.work_queues.database, [queue.id]))[queue.id].pending == 0


async def events_of(desk: Desk, message_id: str) -> list[str]:
    """What the outbox tells of a message, in order."""
    async with desk.work_queues.database.connect() as connection:
        rows = (await connection.execute(select(outbox.c.events).order_by(outbox.c.id))).scalars().all()
    return [event.event for row in rows for event in decode(row) if event.id == message_id]


async def test_an_extended_delivery_is_told_of_and_stands_in_the_history(desk: Desk) -> None:
    await news(desk, "mail")
    (message_id,) = await desk.publish(1, "news")
    await desk.settle("extend", await desk.claim(1, "news", subscription="mail"), seconds=60.0)
    assert await events_of(desk, message_id) == ["published", "claimed", "extended"]
    assert await desk.history(message_id) == ["published", "extended"]


async def test_a_delivery_that_failed_without_backoff_can_be_claimed_at_once(desk: Desk) -> None:
    await news(desk, "mail", backoff_initial_ms=0, backoff_jitter_ms=0)
    await desk.publish(1, "news")
    claimed = await desk.claim(1, "news", subscription="mail")
    (settled,) = await desk.settle("fail", claimed, reason="again")
    assert (settled.state, settled.visible_at) == ("pending", None)
    (same,) = await desk.settle("fail", claimed, reason="again")  # the answer was lost
    assert (same.state, same.refusal) == ("pending", None)
    (lost,) = await desk.settle("release", claimed)
    assert lost.refusal is not None
    assert lost.refusal.code == "CLAIM_LOST"
    assert len(await claimed_ids(desk, "mail")) == 1


@pytest.mark.parametrize(
    ("verdict", "wrong"),
    [("extend", {"seconds": -1.0}), ("extend", {"seconds": 1e6}), ("fail", {"reason": "x" * 10_001})],
)
async def test_what_a_worker_says_of_a_delivery_is_checked(desk: Desk, verdict: Verdict, wrong: dict[str, Any]) -> None:
    await news(desk, "mail")
    await desk.publish(1, "news")
    (claimed,) = await desk.claim(1, "news", subscription="mail")
    item = SettleItem(id=claimed.id, claim_token=claimed.claim_token, **wrong)
    (settled,) = await desk.work_queues.settlements.settle(desk.caller, SCOPE, verdict, [item], queue="news")
    assert settled.refusal is not None
    assert settled.refusal.code == "INVALID_INPUT"


async def test_the_results_of_subscriptions_are_the_result_of_the_message(desk: Desk) -> None:
    await news(desk, "mail", "search", "silent")
    (message_id,) = await desk.publish(1, "news")
    for name, result in (("search", b'{"hits":3}'), ("mail", b'"sent"'), ("silent", b"")):
        claimed = await desk.claim(1, "news", subscription=name)
        await desk.settle("complete", claimed, result=msgspec.Raw(result))
    shown = {"mail": "sent", "search": {"hits": 3}}
    assert msgspec.json.decode((await desk.row(message_id))["result"]) == shown
    desk.clock.turn(s=3700)
    assert (await MessageArchiver(desk.work_queues).work()).items >= 1
    archived = await desk.work_queues.search.get(desk.caller, SCOPE, message_id)
    assert msgspec.json.decode(msgspec.json.encode(archived.result)) == shown


async def test_a_broadcast_that_nobody_subscribed_to_tells_of_its_end(desk: Desk) -> None:
    await news(desk)
    (message_id,) = await desk.publish(1, "news")
    desk.clock.turn(s=3700)
    await MessageArchiver(desk.work_queues).work()
    assert (await desk.row(message_id))["state"] == "completed"
    assert await events_of(desk, message_id) == ["published", "completed"]


@pytest.mark.parametrize("verdict", ["complete", "fail", "release", "extend"])
async def test_a_settle_for_another_subscription_is_refused(desk: Desk, verdict: Verdict) -> None:
    """The name of a subscription in the request was not looked at."""
    await news(desk, "mail", "search")
    await desk.publish(1, "news")
    claimed = await desk.claim(1, "news", subscription="mail")
    (settled,) = await desk.settle(verdict, claimed, subscription="search")
    assert settled.refusal is not None
    assert settled.refusal.code == "CLAIM_LOST"
    (settled,) = await desk.settle(verdict, claimed, subscription="mail")
    assert settled.refusal is None


@pytest.mark.parametrize("verdict", ["complete", "fail", "release", "extend"])
async def test_a_settle_with_a_subscription_in_a_queue_that_has_none_is_refused(desk: Desk, verdict: Verdict) -> None:
    await desk.queue()
    await desk.publish()
    claimed = await desk.claim()
    (settled,) = await desk.settle(verdict, claimed, subscription="mail")
    assert settled.refusal is not None
    assert settled.refusal.code == "WRONG_CONSUMER_MODE"
    (settled,) = await desk.settle(verdict, claimed)
    assert settled.refusal is None


async def test_a_delivery_of_a_message_that_outlived_its_ttl_is_not_claimed(desk: Desk) -> None:
    await news(desk, "mail")
    await desk.publish(1, "news", ttl_s=60)
    kept = await desk.publish(1, "news")
    desk.clock.turn(s=61)
    assert await claimed_ids(desk, "mail") == kept
