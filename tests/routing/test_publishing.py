"""What rules do with messages as they are published: each action, decided before anybody can claim the message."""

import msgspec
import pytest

from relevo.contract.messages import Published, Refusal
from relevo.work.routing.rule import Drop, Escalate, Route, ToArchive, Transform
from tests.support.desk import Desk


async def test_a_moved_message_goes_straight_to_its_target(desk: Desk) -> None:
    await desk.queue("urgent")
    await desk.rule(Route(queue="urgent"), when="body.late")
    moved, stayed = await desk.id_of({"late": True}), await desk.id_of({"late": False})
    assert [each.id for each in await desk.claim(10)] == [stayed]
    (claimed,) = await desk.claim(10, "urgent")
    assert claimed.id == moved
    assert (await desk.depth()).pending == 0
    assert (await desk.depth("urgent")).claimed == 1
    assert await desk.history(moved) == ["published", "routed", "claimed"]


async def test_a_copy_has_its_parent_and_the_correlation(desk: Desk) -> None:
    await desk.queue("log")
    await desk.rule(Route(queue="log", copy=True))
    message_id = await desk.id_of({"n": 1}, correlation_id="order-7", labels={"subject": "42"})
    (copy,) = await desk.all(queue="log")
    assert (copy.parent_id, copy.causation_id, copy.correlation_id) == (message_id, message_id, "order-7")
    assert (copy.source_type, copy.source_id) == ("rule", "r")
    assert await desk.labels(copy.id) == {"subject": "42"}
    assert [each.id for each in await desk.claim(10)] == [message_id]
    assert ((await desk.depth()).claimed, (await desk.depth("log")).pending) == (1, 1)


async def test_a_transform_sets_fields_labels_and_body(desk: Desk) -> None:
    await desk.rule(
        Transform(
            set={"priority_score": "body.n * 10", "message_type": "'big.' + message.type", "ttl_s": "60"},
            labels={"size": "'large'", "old": None},
            body="{'n': body.n + 1, 'was': body}",
        )
    )
    message_id = await desk.id_of({"n": 5}, labels={"old": "x", "kept": "y"})
    row = await desk.row(message_id)
    assert (row["priority_score"], row["message_type"]) == (50, "big.message")
    assert row["expires_at"] - desk.clock() <= 60_000
    assert msgspec.json.decode(row["body"]) == {"n": 6, "was": {"n": 5}}
    assert await desk.labels(message_id) == {"size": "large", "kept": "y"}
    (claimed,) = await desk.claim()
    assert msgspec.json.decode(claimed.body)["n"] == 6


async def test_an_escalation_raises_the_tier_and_sets_a_deadline(desk: Desk) -> None:
    await desk.queue("ranked", ordering="priority")
    await desk.rule(Escalate(tier="next", deadline_s=3600), when="body.vip", queue="ranked")
    plain = await desk.id_of({"vip": False}, "ranked", priority_score=999)
    raised = await desk.id_of({"vip": True}, "ranked")
    assert [each.id for each in await desk.claim(2, "ranked")] == [raised, plain]
    assert (await desk.row(raised))["deadline_at"] == pytest.approx(desk.clock() + 3_600_000, abs=20_000)


async def test_an_escalation_to_a_person_keeps_it_from_workers(desk: Desk) -> None:
    await desk.rule(Escalate(review={"title": "Refund {{body.amount}}?"}), when="body.amount > 100")
    outcome = await desk.put({"amount": 250})
    assert isinstance(outcome, Published)
    assert outcome.state == "in_review"
    assert await desk.claim() == []
    (review,) = (await desk.work_queues.reviews.inbox(desk.caller, "main")).items
    assert (review.title, review.message_id, review.source) == ("Refund 250?", outcome.id, "message")
    assert (await desk.depth()).in_review == 1


async def test_a_dropped_message_is_there_and_nobody_works_on_it(desk: Desk) -> None:
    await desk.rule(Drop(reason="spam"), when="labels.spam == 'yes'")
    outcome = await desk.put(labels={"spam": "yes"})
    assert isinstance(outcome, Published)
    row = await desk.row(outcome.id)
    assert (outcome.state, row["state"], row["failure_reason"]) == ("cancelled", "cancelled", "spam")
    assert await desk.claim() == []
    assert (await desk.depth()).pending == 0


async def test_an_archived_message_is_completed_and_in_the_archive_at_once(desk: Desk) -> None:
    await desk.rule(ToArchive())
    message_id = await desk.id_of({"note": "kept"}, idempotency_key="k")
    (found,) = await desk.all(archived=True)
    assert (found.id, found.state) == (message_id, "completed")
    again = await desk.put({"note": "kept"}, idempotency_key="k")
    assert isinstance(again, Published)
    assert (again.id, again.duplicate) == (message_id, True)


async def test_the_key_of_a_moved_message_belongs_to_the_queue_it_was_published_to(desk: Desk) -> None:
    await desk.queue("urgent")
    await desk.queue("log")
    await desk.rule(Route(queue="log", copy=True), Route(queue="urgent"), queue="jobs")
    message_id = await desk.id_of(1, idempotency_key="k")
    again = await desk.put(1, idempotency_key="k")
    assert isinstance(again, Published)
    assert (again.id, again.duplicate) == (message_id, True)
    other = await desk.put(2, idempotency_key="k")
    assert isinstance(other, Refusal)
    assert other.code == "IDEMPOTENCY_CONFLICT"
    assert len(await desk.all(queue="log")) == 1, "a repetition makes no second copy"
    assert isinstance(await desk.put(1, "urgent", idempotency_key="k"), Published)


async def test_a_key_stands_for_the_body_that_was_published_whatever_a_rule_made_of_it(desk: Desk) -> None:
    await desk.rule(Transform(body="{'made': body}"))
    message_id = await desk.id_of(1, idempotency_key="k")
    assert await desk.bodies("jobs") == [{"made": 1}]
    again = await desk.put(1, idempotency_key="k")
    assert isinstance(again, Published)
    assert (again.id, again.duplicate) == (message_id, True)
    for other in (2, {"made": 1}):
        refused = await desk.put(other, idempotency_key="k")
        assert isinstance(refused, Refusal)
        assert refused.code == "IDEMPOTENCY_CONFLICT"


async def test_a_full_target_refuses_and_makes_no_copies(desk: Desk) -> None:
    await desk.queue("small", max_depth=1)
    await desk.queue("log")
    await desk.rule(Route(queue="log", copy=True), Route(queue="small"), queue="jobs")
    await desk.id_of(1)
    refused = await desk.put(2, idempotency_key="k")
    assert isinstance(refused, Refusal)
    assert refused.code == "QUEUE_FULL"
    assert await desk.bodies("log") == [1]
    await desk.claim(1, "small")
    assert isinstance(await desk.put(2, idempotency_key="k"), Published), "a refused message holds no key"


async def test_a_message_may_move_into_a_broadcast_queue(desk: Desk) -> None:
    await desk.queue("news", consumer_mode="broadcast")
    await desk.work_queues.subscriptions.create(desk.caller, "main", "news", "mail")
    await desk.rule(Route(queue="news"), queue="jobs")
    message_id = await desk.id_of(1)
    (claimed,) = await desk.claim(1, "news", subscription="mail")
    assert claimed.id == message_id


async def test_a_delayed_message_is_delayed_where_it_goes(desk: Desk) -> None:
    await desk.queue("later")
    await desk.rule(Route(queue="later"), queue="jobs")
    outcome = await desk.put(1, delay_s=60)
    assert isinstance(outcome, Published)
    assert outcome.state == "delayed"
    assert (await desk.depth("later")).delayed == 1


async def test_the_first_rule_by_position_wins(desk: Desk) -> None:
    for queue in ("first", "second"):
        await desk.queue(queue)
    await desk.rule(Route(queue="second"), name="b", position=20, queue="jobs")
    await desk.rule(Route(queue="first"), name="c", position=10, queue="jobs")
    await desk.rule(Drop(), name="a", position=30, queue="jobs")
    await desk.id_of(1)
    assert ((await desk.depth("first")).pending, (await desk.depth("second")).pending) == (1, 0)


async def test_rules_of_the_target_are_asked_too(desk: Desk) -> None:
    for queue in ("middle", "end"):
        await desk.queue(queue)
    await desk.rule(Route(queue="middle"), name="one", queue="jobs")
    await desk.rule(Route(queue="end"), name="two", queue="middle")
    message_id = await desk.id_of(1)
    (claimed,) = await desk.claim(1, "end")
    assert claimed.id == message_id
    assert (await desk.history(message_id)).count("routed") == 2


async def test_a_disabled_rule_does_nothing(desk: Desk) -> None:
    await desk.rule(Drop(), enabled=False)
    assert (await desk.row(await desk.id_of(1)))["state"] == "pending"


async def test_messages_of_one_batch_go_their_own_ways(desk: Desk) -> None:
    await desk.queue("even")
    await desk.rule(Route(queue="even"), when="body.n % 2 == 0", queue="jobs")
    await desk.publish(10)
    assert ((await desk.depth()).pending, (await desk.depth("even")).pending) == (5, 5)


async def test_a_routed_message_is_in_the_audit_under_its_correlation(desk: Desk) -> None:
    await desk.queue("urgent")
    await desk.rule(Route(queue="urgent"), queue="jobs")
    await desk.id_of(1, correlation_id="order-7")
    (entry,) = await desk.audits(action="message.route", correlation_id="order-7")
    assert msgspec.json.decode(entry.after)["hops"] == ["hop 1: r, jobs -> urgent"]
