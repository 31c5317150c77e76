"""Rules as people keep them: checked when saved, counted, set aside when they fail, tried before they are enabled."""

from typing import Any

import pytest

from relevo.contract.messages import Published
from relevo.errors import BadRule, NotFound, SlugTaken
from relevo.work.routing.route_plan import MAX_HOPS
from relevo.work.routing.rule import Action, Drop, Escalate, Route, Rule, Transform
from tests.support.desk import SCOPE, Desk


async def test_a_rule_is_kept_listed_changed_and_deleted(desk: Desk) -> None:
    rules = desk.work_queues.rules
    await desk.rule(Drop(), name="second", position=20)
    await desk.rule(Drop(), name="first", position=10)
    assert [each.rule.name for each in (await rules.list(desk.caller, SCOPE)).items] == ["first", "second"]
    changed = Rule(name="first", trigger="message_dead", actions=[Drop()], position=30)
    await rules.change(desk.caller, SCOPE, "first", changed)
    assert (await rules.get(desk.caller, SCOPE, "first")).rule == changed
    await rules.delete(desk.caller, SCOPE, "second")
    with pytest.raises(NotFound):
        await rules.get(desk.caller, SCOPE, "second")
    assert {each.action for each in await desk.audits(scope=SCOPE)} >= {"rule.create", "rule.change", "rule.delete"}


async def test_a_name_is_taken_once(desk: Desk) -> None:
    await desk.rule(Drop())
    with pytest.raises(SlugTaken):
        await desk.rule(Drop())


@pytest.mark.parametrize(
    ("actions", "more", "words"),
    [
        ([Route(queue="nowhere")], {}, "nowhere"),
        ([Route(queue="_integrity")], {}, "_integrity"),
        ([Drop()], {"when": "body.x +"}, "is not valid"),
        ([Drop()], {"queue": "nowhere"}, "nowhere"),
        ([Drop()], {"on": "message_completed"}, "dropped"),
        ([Escalate(tier="high")], {"on": "review_decided"}, "escalated"),
        ([Escalate(review={"pattern": "none"})], {}, "none"),
        ([Escalate(review={"quorum": 0})], {}, "quorum"),
        ([Escalate(review={}), Route(stream_queue="s")], {}, "a job at once"),
        ([Route(stream_queue="work.acme.x")], {}, "not open"),
    ],
)
async def test_a_rule_that_cannot_work_is_refused(
    desk: Desk, actions: list[Action], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadRule, match=words):
        await desk.rule(*actions, **more)


async def test_matches_are_counted(desk: Desk) -> None:
    await desk.rule(Drop(), when="body.n > 0")
    await desk.publish(5)
    (stored,) = (await desk.work_queues.rules.list(desk.caller, SCOPE)).items
    assert stored.matched == 4


async def test_a_rule_that_fails_is_skipped_and_the_next_one_asked(desk: Desk) -> None:
    await desk.rule(Drop(), name="broken", when="body.missing == 1", position=1)
    await desk.rule(Drop(reason="by the second"), name="whole", position=2)
    message_id = await desk.id_of({"n": 1})
    assert (await desk.row(message_id))["failure_reason"] == "by the second"
    broken, _ = (await desk.work_queues.rules.list(desk.caller, SCOPE)).items
    assert (broken.failed, "missing" in (broken.breaker.last_error or "")) == (1, True)


async def test_a_rule_that_fails_too_often_is_set_aside_and_told(desk: Desk) -> None:
    await desk.rule(Drop(), name="broken", when="body.missing == 1")
    await desk.publish(25)
    (stored,) = (await desk.work_queues.rules.list(desk.caller, SCOPE)).items
    assert stored.breaker_state == "open"
    (finding,) = await desk.findings()
    assert (finding["kind"], finding["rule"]) == ("rule_set_aside", "broken")
    before = stored.failed
    await desk.publish(5)
    (stored,) = (await desk.work_queues.rules.list(desk.caller, SCOPE)).items
    assert stored.failed == before, "nobody asks it while it is set aside"
    assert (await desk.depth()).pending == 30


async def test_a_rule_gets_another_chance_after_its_rest(desk: Desk) -> None:
    await desk.rule(Drop(), when="body.ok")
    for _ in range(10):
        await desk.put({})
    desk.clock.turn(s=61)
    outcome = await desk.put({"ok": True})
    assert isinstance(outcome, Published)
    assert outcome.state == "cancelled"
    (stored,) = (await desk.work_queues.rules.list(desk.caller, SCOPE)).items
    assert stored.breaker_state == "closed"


async def test_a_breaker_is_closed_by_hand(desk: Desk) -> None:
    await desk.rule(Drop(), when="body.ok")
    for _ in range(10):
        await desk.put({})
    await desk.work_queues.rules.reset(desk.caller, SCOPE, "r")
    assert (await desk.row(await desk.id_of({"ok": True})))["state"] == "cancelled"


async def test_a_loop_ends_at_the_hop_limit_and_is_told(desk: Desk) -> None:
    await desk.queue("there")
    await desk.rule(Route(queue="there"), name="out", queue="jobs")
    await desk.rule(Route(queue="jobs"), name="back", queue="there")
    message_id = await desk.id_of(1)
    assert (await desk.history(message_id)).count("routed") == MAX_HOPS
    assert (await desk.row(message_id))["state"] == "pending"
    assert [each["kind"] for each in await desk.findings()] == ["routing_loop"]
    assert sum(each.failed for each in (await desk.work_queues.rules.list(desk.caller, SCOPE)).items) == 1


async def test_hops_are_counted_over_triggers(desk: Desk) -> None:
    """A copy of a copy of a copy, each made when the one before is completed."""
    await desk.rule(Route(queue="jobs", copy=True), on="message_completed")
    await desk.id_of(1)
    made = 0
    while claimed := await desk.claim():
        made += 1
        await desk.settle("complete", claimed)
        await desk.route()
    assert made == MAX_HOPS + 1
    assert [each["kind"] for each in await desk.findings()] == ["routing_loop"]


async def test_copies_of_copies_are_limited(desk: Desk) -> None:
    await desk.queue("there")
    actions: list[Action] = [Route(queue="there", copy=True) for _ in range(3)]
    back: list[Action] = [Route(queue="jobs", copy=True) for _ in range(3)]
    await desk.rule(*actions, name="out", queue="jobs")
    await desk.rule(*back, name="back", queue="there")
    await desk.id_of(1)
    assert len(await desk.all(queue="jobs")) + len(await desk.all(queue="there")) <= 102
    assert "routing_loop" in {each["kind"] for each in await desk.findings()}


async def test_a_rule_of_another_scope_needs_its_trust(desk: Desk) -> None:
    work_queues = desk.work_queues
    await work_queues.scopes.create(desk.caller, "vault")
    await work_queues.queues.create(desk.caller, "vault", "safe")
    with pytest.raises(BadRule, match="vault"):
        await desk.rule(Route(queue="safe", scope="vault"))
    await work_queues.trusts.grant(desk.caller, "vault", SCOPE)
    assert [each.trusted for each in (await work_queues.trusts.list(desk.caller, "vault")).items] == [SCOPE]
    await desk.rule(Route(queue="safe", scope="vault"))
    message_id = await desk.id_of(1, labels={"subject": "42"})
    assert (await desk.row(message_id))["scope_id"] == (
        await work_queues.queues.lookup(desk.caller, "vault", "safe")
    ).scope_id
    await work_queues.trusts.revoke(desk.caller, "vault", SCOPE)
    stayed = await desk.id_of(2)
    assert [each.id for each in await desk.claim()] == [stayed]
    (stored,) = (await work_queues.rules.list(desk.caller, SCOPE)).items
    assert "does not accept messages" in (stored.breaker.last_error or "")


async def test_a_dry_run_on_a_sample_tells_what_would_be_done(desk: Desk) -> None:
    await desk.queue("big")
    rule = Rule(
        name="r",
        trigger="message_published",
        condition="body.n > 1",
        enabled=False,
        actions=[Transform(body="{'n': body.n * 2}"), Route(queue="big")],
    )
    (told,) = await desk.work_queues.dry_runs.sample(desk.caller, SCOPE, rule, queue="jobs", body=b'{"n":5}')
    assert (told.matches, told.ending, told.to, told.error) == (True, "moves", "big", None)
    assert bytes(told.body or b"") == b'{"n":10}'
    (told,) = await desk.work_queues.dry_runs.sample(desk.caller, SCOPE, rule, queue="jobs", body=b'{"n":1}')
    assert told.matches is False
    (told,) = await desk.work_queues.dry_runs.sample(desk.caller, SCOPE, rule, queue="jobs", body=b"{}")
    assert "no field" in (told.error or "")


async def test_a_dry_run_on_the_last_messages_changes_nothing(desk: Desk) -> None:
    await desk.publish(5)
    rule = Rule(name="r", trigger="message_published", condition="body.n >= 2", actions=[Drop()])
    told = await desk.work_queues.dry_runs.last(desk.caller, SCOPE, rule, queue="jobs", limit=4)
    assert [each.matches for each in told] == [True, True, True, False]
    assert (await desk.depth()).pending == 5
    assert (await desk.work_queues.rules.list(desk.caller, SCOPE)).items == []
