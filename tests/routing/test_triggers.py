"""What rules do with messages to which something happened: each trigger, once for each happening."""

import msgspec
import pytest

from relevo.agents.expiry_enforcer import ExpiryEnforcer
from relevo.agents.message_router import MessageRouter
from relevo.agents.outbox_relay import OutboxRelay
from relevo.work.faults import arm
from relevo.work.message.failure import Failure, failure_of
from relevo.work.routing.rule import Drop, Escalate, Route, ToArchive, Transform
from tests.support.desk import SCOPE, Desk


class Killed(BaseException):
    """A process that ends here."""


def die() -> None:
    raise Killed


async def test_a_completed_message_is_copied_with_its_result(desk: Desk) -> None:
    await desk.queue("mail")
    await desk.rule(
        Transform(body="{'to': body.who, 'total': message.result.total}"),
        Route(queue="mail", copy=True),
        on="message_completed",
        when="message.result.total > 10",
    )
    message_id = await desk.id_of({"who": "ada"}, correlation_id="c1")
    await desk.settle("complete", await desk.claim(), result=msgspec.Raw(b'{"total":12}'))
    assert await desk.route() == 1
    (copy,) = await desk.all(queue="mail")
    assert msgspec.json.decode(copy.body) == {"to": "ada", "total": 12}
    assert (copy.parent_id, copy.correlation_id) == (message_id, "c1")
    assert msgspec.json.decode((await desk.row(message_id))["body"]) == {"who": "ada"}, "what is over stays what it was"


async def test_what_moves_after_its_completion_is_a_successor(desk: Desk) -> None:
    await desk.queue("next")
    await desk.rule(Route(queue="next"), on="message_completed", queue="jobs")
    message_id = await desk.id_of(1)
    await desk.settle("complete", await desk.claim())
    await desk.route()
    assert (await desk.row(message_id))["state"] == "completed"
    (claimed,) = await desk.claim(1, "next")
    assert claimed.parent_id == message_id


async def test_a_failed_message_moves_to_another_queue(desk: Desk) -> None:
    await desk.queue("slow")
    await desk.rule(Route(queue="slow"), on="message_failed", when="message.failure_reason.contains('timeout')")
    message_id = await desk.id_of(1)
    await desk.settle("fail", await desk.claim(), reason="a timeout")
    assert (await desk.depth()).delayed == 1
    await desk.route()
    assert ((await desk.depth()).delayed, (await desk.depth("slow")).pending) == (0, 1)
    (claimed,) = await desk.claim(1, "slow")
    assert (claimed.id, claimed.attempts) == (message_id, 1)


async def test_a_rule_sees_the_type_and_the_message_of_the_error(desk: Desk) -> None:
    await desk.queue("slow")
    known = "message.error.type == 'httpx.ReadTimeout' && message.error.message.contains('bank')"
    await desk.rule(Route(queue="slow"), on="message_failed", when=known)
    moves, stays, silent = [await desk.id_of(n) for n in range(3)]
    for error in (
        Failure(type="httpx.ReadTimeout", message="the bank is silent", stack="at pay"),
        Failure(type="KeyError", message="bank"),
        None,
    ):
        await desk.settle("fail", await desk.claim(), error=error)
    await desk.route()
    assert [each.id for each in await desk.claim(9, "slow")] == [moves]
    row = await desk.row(moves)
    assert (row["failure_reason"], row["error"]) == (None, None), "what is sent on begins anew"
    assert [(await desk.row(each))["state"] for each in (stays, silent)] == ["delayed", "delayed"]
    for stored in (await desk.work_queues.rules.list(desk.caller, SCOPE)).items:
        assert stored.failed == 0, "a message without an error is no fault of the rule"


async def test_a_failure_raises_the_tier(desk: Desk) -> None:
    await desk.queue("patient", backoff_initial_ms=600_000)
    await desk.rule(Escalate(tier="next"), on="message_failed")
    message_id = await desk.id_of(1, queue="patient")
    await desk.settle("fail", await desk.claim(1, "patient"), error=Failure(message="x", stack="at y"))
    await desk.route()
    row = await desk.row(message_id)
    assert failure_of(row["error"]) == Failure(message="x", stack="at y")
    assert (row["priority_tier"], row["state"], row["attempts"], row["failure_reason"]) == (3, "delayed", 1, "x")


async def test_an_expired_message_moves_and_lives_again(desk: Desk) -> None:
    await desk.queue("late")
    await desk.rule(Route(queue="late"), on="message_expired")
    message_id = await desk.id_of(1, ttl_s=10)
    desk.clock.turn(s=11)
    await ExpiryEnforcer(desk.work_queues).work()
    await desk.route()
    row = await desk.row(message_id)
    assert (row["state"], row["expires_at"] > desk.clock()) == ("pending", True)
    assert [each.id for each in await desk.claim(1, "late")] == [message_id]


async def test_a_dead_message_is_dropped(desk: Desk) -> None:
    await desk.rule(Drop(reason="never mind"), on="message_dead")
    (message_id,) = await desk.die()
    await desk.route()
    assert (await desk.row(message_id))["state"] == "cancelled"
    assert (await desk.work_queues.dead_letters.list(desk.caller, SCOPE)).items == []
    assert (await desk.depth("_dead_letter")).dead == 0


async def test_a_dead_message_goes_to_review(desk: Desk) -> None:
    await desk.rule(Escalate(review={"title": "Dead", "may_correct": True}), on="message_dead")
    (message_id,) = await desk.die()
    await desk.route()
    (review,) = (await desk.work_queues.reviews.inbox(desk.caller, SCOPE)).items
    assert (review.message_id, review.source) == (message_id, "dead_letter")
    depth = await desk.depth("_dead_letter")
    assert (depth.dead, depth.in_review) == (0, 1)
    await desk.work_queues.reviews.decide(
        desk.caller, SCOPE, review.id, "ada", {"decision": "approve"}, corrected_body={"n": 7}
    )
    (claimed,) = await desk.claim()
    assert (claimed.id, msgspec.json.decode(claimed.body)) == (message_id, {"n": 7})


async def test_a_dead_message_is_archived(desk: Desk) -> None:
    await desk.rule(ToArchive(), on="message_dead")
    (message_id,) = await desk.die()
    await desk.route()
    (found,) = await desk.all(archived=True)
    assert (found.id, found.state) == (message_id, "completed")
    assert (await desk.depth("_dead_letter")).dead == 0


async def test_a_completed_message_is_archived_before_the_hour(desk: Desk) -> None:
    await desk.rule(ToArchive(), on="message_completed")
    message_id = await desk.id_of(1)
    await desk.settle("complete", await desk.claim())
    await desk.route()
    assert [each.id for each in await desk.all(archived=True)] == [message_id]


async def test_what_people_decided_is_routed_on(desk: Desk) -> None:
    await desk.queue("paid")
    await desk.rule(Route(queue="paid", copy=True), on="review_decided", when="message.result.decision == 'approve'")
    for decision in ("approve", "reject"):
        await desk.id_of({"for": decision}, hitl_spec=msgspec.Raw(b'{"title":"Pay?"}'))
        (review,) = (await desk.work_queues.reviews.inbox(desk.caller, SCOPE)).items
        await desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "ada", {"decision": decision})
    await desk.route()
    assert await desk.bodies("paid") == [{"for": "approve"}]


async def test_a_scope_without_such_rules_keeps_nothing(desk: Desk) -> None:
    await desk.rule(Drop(), on="message_dead")
    await desk.id_of(1)
    await desk.settle("complete", await desk.claim())
    assert await desk.route() == 0


async def test_a_message_in_somebodys_hands_is_not_taken_away(desk: Desk) -> None:
    await desk.queue("other", backoff_initial_ms=0)
    await desk.rule(Drop(), on="message_failed")
    message_id = await desk.id_of(1)
    await desk.settle("fail", await desk.claim(), reason="x")
    desk.clock.turn(s=60)
    from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer

    await VisibilityTimeoutEnforcer(desk.work_queues).work()
    await desk.claim()
    await desk.route()
    assert (await desk.row(message_id))["state"] == "claimed"


@pytest.mark.parametrize("point", ["route.decided", "route.written"])
async def test_a_kill_neither_loses_nor_doubles_a_copy(desk: Desk, point: str) -> None:
    await desk.queue("log")
    await desk.rule(Route(queue="log", copy=True), on="message_completed", queue="jobs")
    await desk.id_of(1)
    await desk.settle("complete", await desk.claim())
    await OutboxRelay(desk.work_queues).work()
    disarm = arm(point, die)
    with pytest.raises(Killed):
        await MessageRouter(desk.work_queues).work()
    disarm()
    assert await desk.bodies("log") == []
    assert (await MessageRouter(desk.work_queues).work()).items == 1
    assert (await MessageRouter(desk.work_queues).work()).items == 0
    assert await desk.bodies("log") == [1]
    assert (await desk.depth("log")).pending == 1


async def test_two_routers_at_once_make_one_copy(desk: Desk) -> None:
    import asyncio

    await desk.queue("log")
    await desk.rule(Route(queue="log", copy=True), on="message_completed", queue="jobs")
    for n in range(5):
        await desk.id_of(n)
    await desk.settle("complete", await desk.claim(5))
    await OutboxRelay(desk.work_queues).work()
    await asyncio.gather(MessageRouter(desk.work_queues).work(), MessageRouter(desk.work_queues).work())
    assert sorted(await desk.bodies("log")) == [0, 1, 2, 3, 4]
