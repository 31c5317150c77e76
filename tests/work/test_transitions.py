"""The table of transitions, line by line: rows, depths, usage, events, history, order and audit say the same afterwards."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from relevo.agents.agent import Agent
from relevo.agents.expiry_enforcer import ExpiryEnforcer
from relevo.agents.message_archiver import MessageArchiver
from relevo.agents.priority_aging_worker import PriorityAgingWorker
from relevo.agents.replay_runner import ReplayRunner
from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.contract.claims import Claimed
from relevo.contract.messages import State
from relevo.work.broadcast.timeouts import promote_deliveries
from relevo.work.caller import Caller
from relevo.work.message.history import steps, trail_of
from relevo.work.message.model import TERMINAL
from relevo.work.message.transition import OF_DELIVERIES, PUBLISH, REPLAY, TRANSITIONS, Transition
from relevo.work.queue_record import QueueRecord
from relevo.work.review.spec import ReviewSpec
from relevo.work.routing.rule import Route
from relevo.work.routing.stream_outcomes import StreamOutcomes
from relevo.work.store.counters import COUNTED_STATES
from relevo.work.store.outbox import WorkEvent
from relevo.work.work_queues import WorkQueues
from tests.support.aftermath import DEAD_LETTER, Aftermath
from tests.support.desk import JOBS, SCOPE, Desk, new
from tests.work.conftest import OpenWorkQueues

HELD_MS = 250


class Act(NamedTuple):
    """A message that is brought to where the transition begins, and what makes it happen."""

    message_id: str | None
    """None: it is new."""
    happen: Callable[[], Awaitable[Any]]
    beside: Transition | None = None
    """What happens to another message of the queue."""
    then: Transition | None = None
    """What happens to the message right afterwards."""


@pytest.fixture
async def work_queues(open_work_queues: OpenWorkQueues) -> WorkQueues:
    return await open_work_queues(stream_queues=("*",))


Case = Callable[[Desk, State | None], Awaitable[Act]]


# --- how messages get into the states that transitions begin in -----------------------------------------------------------


async def waiting(desk: Desk, state: State | None = "pending", **fields: Any) -> str:
    (message_id,) = await desk.ids(new(0, delay_s=600, **fields) if state == "delayed" else new(0, **fields))
    return message_id


async def claimed(desk: Desk, **fields: Any) -> Claimed:
    await desk.ids(new(0, **fields))
    (message,) = await desk.claim()
    desk.clock.turn(HELD_MS / 1000)
    return message


async def dead(desk: Desk, **fields: Any) -> str:
    (message_id,) = await desk.die(**fields)
    return message_id


async def reviewed(desk: Desk) -> tuple[str, str]:
    """A dead letter that people look at, and its review."""
    message_id = await dead(desk)
    return message_id, (await desk.work_queues.reviews.open_for_dead_letter(desk.caller, SCOPE, message_id)).id


async def asked(desk: Desk) -> tuple[str, str]:
    """A message that waits for people, and its review."""
    message_id = await waiting(desk, hitl_spec=msgspec.Raw(msgspec.json.encode(ReviewSpec(timeout_s=60))))
    inbox = await desk.work_queues.reviews.inbox(desk.caller, SCOPE)
    return message_id, inbox.items[0].id


async def unfinished(desk: Desk, state: State | None, **fields: Any) -> str:
    if state == "claimed":
        return (await claimed(desk, **fields)).id
    if state not in ("dead", "in_review"):
        return await waiting(desk, state, **fields)
    message_id = await dead(desk, **fields)
    if state == "in_review":
        await desk.work_queues.reviews.open_for_dead_letter(desk.caller, SCOPE, message_id)
    return message_id


async def change(desk: Desk, **settings: Any) -> None:
    await desk.work_queues.queues.change(desk.caller, SCOPE, JOBS, settings)


# --- what makes each transition happen ------------------------------------------------------------------------------------


async def publish(desk: Desk, _: State | None) -> Act:
    return Act(None, lambda: desk.ids(new(0)))


async def publish_delayed(desk: Desk, _: State | None) -> Act:
    return Act(None, lambda: desk.ids(new(0, delay_s=600)))


async def claim(desk: Desk, _: State | None) -> Act:
    return Act(await waiting(desk), desk.claim)


def verdict(name: Any, **fields: Any) -> Case:
    async def case(desk: Desk, _: State | None) -> Act:
        message = await claimed(desk)
        return Act(message.id, lambda: desk.settle(name, message, **fields))

    return case


async def retry_at_once(desk: Desk, state: State | None) -> Act:
    await change(desk, backoff_initial_ms=0, backoff_jitter_ms=0)
    return await verdict("fail")(desk, state)


async def reprioritise(desk: Desk, state: State | None) -> Act:
    message_id = await waiting(desk, state)
    move = desk.work_queues.messages.reprioritise
    return Act(message_id, lambda: move(desk.caller, SCOPE, message_id, tier="high"))


def after_a_while(agent: Callable[[WorkQueues], Agent], seconds: float, **settings: Any) -> Case:
    """What an agent does to a message in the state where the transition begins."""

    async def case(desk: Desk, state: State | None) -> Act:
        await change(desk, **settings)
        message_id = await unfinished(desk, state)
        desk.clock.turn(seconds)
        return Act(message_id, lambda: all_of(agent(desk.work_queues)))

    return case


async def all_of(agent: Agent) -> None:
    """Other tests have left work for it in the same database."""
    while (await agent.work()).more:
        pass


async def cancel(desk: Desk, state: State | None) -> Act:
    message_id = await unfinished(desk, state)
    return Act(message_id, lambda: desk.work_queues.messages.cancel(desk.caller, SCOPE, message_id))


async def erase(desk: Desk, state: State | None) -> Act:
    message_id = await unfinished(desk, state, labels={"subject": "ada"})
    return Act(message_id, lambda: desk.work_queues.erasures.start(desk.caller, SCOPE, "ada"))


async def bury(desk: Desk, state: State | None) -> Act:
    await change(desk, max_depth=1, overflow_policy="dead_letter_oldest")
    return Act(await waiting(desk, state), lambda: desk.ids(new(1)), beside=PUBLISH)


async def replay(desk: Desk, _: State | None) -> Act:
    message_id = await dead(desk)
    await desk.work_queues.replays.start(desk.caller, SCOPE)
    return Act(message_id, lambda: all_of(ReplayRunner(desk.work_queues)))


def as_job(happen: Callable[[StreamOutcomes, str], Awaitable[Any]]) -> Case:
    """What becomes of a message that a rule has made a job of a stream queue."""

    async def case(desk: Desk, state: State | None) -> Act:
        await desk.rule(Route(stream_queue="letters"))
        message_id = await waiting(desk)
        opened = desk.work_queues
        by = Caller.system("stream_bridge")
        jobs = StreamOutcomes(opened.transactions, opened.database, opened.queues, opened.now_ms, by)
        if state == "dead":
            await jobs.failed(message_id, "no use", dead=True)
            await opened.replays.start(desk.caller, SCOPE)
            return Act(message_id, lambda: all_of(ReplayRunner(opened)))
        desk.clock.turn(HELD_MS / 1000)
        return Act(message_id, lambda: happen(jobs, message_id))

    return case


async def review(desk: Desk, _: State | None) -> Act:
    message_id = await dead(desk)
    ask = desk.work_queues.reviews.open_for_dead_letter
    return Act(message_id, lambda: ask(desk.caller, SCOPE, message_id))


def decision(begin: Callable[[Desk], Awaitable[tuple[str, str]]], answer: str, **more: Any) -> Case:
    async def case(desk: Desk, _: State | None) -> Act:
        message_id, review_id = await begin(desk)
        decide = desk.work_queues.reviews.decide
        then = REPLAY if begin is reviewed and answer == "approve" else None
        answered = {"decision": answer}
        return Act(message_id, lambda: decide(desk.caller, SCOPE, review_id, "ada", answered, **more), then=then)

    return case


def withdrawal(begin: Callable[[Desk], Awaitable[tuple[str, str]]]) -> Case:
    async def case(desk: Desk, _: State | None) -> Act:
        message_id, review_id = await begin(desk)
        withdraw = desk.work_queues.reviews.withdraw
        return Act(message_id, lambda: withdraw(desk.caller, SCOPE, review_id, "ada", "not needed"))

    return case


async def fail_review(desk: Desk, _: State | None) -> Act:
    message_id, _review = await asked(desk)
    desk.clock.turn(61)
    return Act(message_id, lambda: desk.work_queues.reviews.tick(Caller.system("review_clock")))


def last_delivery(*completed_by: str) -> Case:
    """A message of a broadcast queue ends when its last subscription goes, as those ended it that were there before."""

    async def case(desk: Desk, state: State | None) -> Act:
        subscriptions = desk.work_queues.subscriptions
        for name in (*completed_by, "last"):
            await subscriptions.create(desk.caller, SCOPE, JOBS, name)
        message_id = await waiting(desk, state)
        if state == "delayed":  # its deliveries may be claimed a moment before it says so itself
            desk.clock.turn(601)
            await desk.work_queues.transactions.run(
                lambda each: promote_deliveries(each, desk.work_queues.queues, 10, desk.caller)
            )
        for name in completed_by:
            await desk.settle("complete", await desk.claim(subscription=name))
        return Act(message_id, lambda: subscriptions.delete(desk.caller, SCOPE, JOBS, "last"))

    return case


async def reopen(desk: Desk, state: State | None) -> Act:
    subscribe = desk.work_queues.subscriptions.create
    message_id = (
        await (last_delivery("first") if state == "completed" else last_delivery())(desk, "pending")
    ).message_id
    await desk.work_queues.subscriptions.delete(desk.caller, SCOPE, JOBS, "last")
    return Act(message_id, lambda: subscribe(desk.caller, SCOPE, JOBS, "late", after=0))


CASES: dict[str, Case] = {
    "publish": publish,
    "publish_delayed": publish_delayed,
    "promote": after_a_while(VisibilityTimeoutEnforcer, 601),
    "claim": claim,
    "extend": verdict("extend", seconds=60),
    "complete": verdict("complete"),
    "reprioritise": reprioritise,
    "age": after_a_while(PriorityAgingWorker, 301),
    "release": verdict("release"),
    "retry": verdict("fail"),
    "retry_at_once": retry_at_once,
    "reclaim": after_a_while(VisibilityTimeoutEnforcer, 31),
    "replay": replay,
    "cancel": cancel,
    "bury": bury,
    "give_up": verdict("fail", dead=True),
    "lose": after_a_while(VisibilityTimeoutEnforcer, 31, max_reclaims=0),
    "expire": after_a_while(ExpiryEnforcer, 31, default_ttl_s=30),
    "bury_expired": after_a_while(ExpiryEnforcer, 31, default_ttl_s=30, dead_letter_expired=True),
    "erase": erase,
    "send_again": as_job(lambda jobs, job_id: jobs.lost(job_id)),
    "retry_as_job": as_job(lambda jobs, job_id: jobs.failed(job_id, "no use")),
    "replay_as_job": as_job(lambda jobs, job_id: jobs.failed(job_id, "no use")),
    "review": review,
    "decide": decision(asked, "approve"),
    "reject": decision(reviewed, "reject"),
    "withdraw": withdrawal(asked),
    "fail_review": fail_review,
    "leave_dead": withdrawal(reviewed),
    "correct": decision(reviewed, "approve", corrected_body={"n": 1}),
    "finish": last_delivery("first"),
    "finish_unheard": after_a_while(MessageArchiver, 3601),
    "finish_failed": last_delivery(),
    "reopen": reopen,
}


# --- the test -------------------------------------------------------------------------------------------------------------


def test_every_transition_has_a_case() -> None:
    assert CASES.keys() == {transition.name for transition in TRANSITIONS}


@pytest.mark.parametrize(
    ("transition", "before"),
    [(each, state) for each in TRANSITIONS for state in sorted(each.before) or [None]],
    ids=lambda value: value.name if isinstance(value, Transition) else str(value),
)
async def test_all_that_goes_with_a_transition_agrees(
    desk: Desk, transition: Transition, before: State | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = "broadcast" if transition.name.startswith(("finish", "reopen")) else "competing"
    queue = await desk.queue(ordering="priority", backoff_initial_ms=60_000, consumer_mode=mode)
    message_id, happen, beside, then = await CASES[transition.name](desk, before)
    seen = Aftermath(desk, monkeypatch)
    await seen.look()
    old = None if message_id is None else await desk.row(message_id)
    await happen()
    message_id = message_id or (await desk.all())[-1].id
    row = await desk.row(message_id)
    assert (None if old is None else old["state"]) == before

    steps_taken = [transition] if then is None else [transition, then]
    state = steps_taken[-1].after or before
    assert row["state"] == state
    assert (row["visible_at"] is not None, row["claim_until"] is not None) == (state == "delayed", state == "claimed")
    died = state == "in_review" and row["queue_id"] != queue.id
    assert (row["finished_at"] is not None) == (state in TERMINAL or died)
    assert row["queue_id"] == _place(state, queue, old)
    attempts, reclaims = (0, 0) if old is None else (old["attempts"], old["reclaims"])
    if steps_taken[-1].name in ("replay", "replay_as_job"):  # it begins anew
        attempts, reclaims = 0, 0
    assert (row["attempts"], row["reclaims"]) == (attempts + transition.attempts, reclaims + transition.reclaims)

    for place in (JOBS, DEAD_LETTER):
        counted = {name: count for name, count in (await desk.depth(place))._asdict().items() if count}
        rows = {name: count for name, count in (await desk.states(place)).items() if name in COUNTED_STATES}
        assert counted == rows, place
    events = await seen.events(message_id)
    usage = [name for each in (*steps_taken, *([] if beside is None else [beside])) for name in each.usage]
    assert await seen.usage() == {name: _amount(name, row, events) for name in usage}
    told = [event for each in steps_taken for event in each.events]
    assert [(event.event, event.queue_id) for event in events] == [(event, queue.id) for event in told]
    lines = steps(trail_of(row))[0 if old is None else len(steps(trail_of(old))) :]
    assert [line.event for line in lines] == [each.history for each in steps_taken if each.history]
    place = [(row["queue_id"], row["sort_key"])] if state == "pending" and mode == "competing" else []
    assert [(ready.queue_id, ready.sort_key) for ready in seen.ready if ready.id == message_id] == place
    assert await seen.actions(message_id) == [each.action for each in steps_taken if each.action]


def _place(state: State | None, queue: QueueRecord, old: dict[str, Any] | None) -> int:
    """The dead are elsewhere; what can be worked on is in its queue, and the rest where it was."""
    if state == "dead":
        return queue.dead_letter_id
    return queue.id if old is None or state in ("pending", "delayed", "claimed") else old["queue_id"]


def _amount(name: str, row: dict[str, Any], events: Sequence[WorkEvent]) -> int:
    if name == "published_bytes":
        return len(row["body"])
    if name != "handler_ms":
        return 1
    held_us = int((events[0].extras or {})["duration_us"])
    assert held_us >= HELD_MS * 1000
    return held_us // 1000


# --- the same of deliveries -----------------------------------------------------------------------------------------------


def test_every_transition_of_a_delivery_has_a_case() -> None:
    assert DELIVERIES.keys() == {transition.name for transition in OF_DELIVERIES}


@pytest.mark.parametrize("transition", OF_DELIVERIES, ids=lambda value: value.name)
async def test_all_that_goes_with_a_transition_of_a_delivery_agrees(
    desk: Desk, transition: Transition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one of two subscriptions: the message goes on waiting for the other."""
    queue = await desk.queue(consumer_mode="broadcast", backoff_initial_ms=60_000, backoff_jitter_ms=0)
    for name in (MAIL, "search"):
        await desk.work_queues.subscriptions.create(desk.caller, SCOPE, JOBS, name)
    message_id, happen, *_ = await DELIVERIES[transition.name](desk, None)
    assert message_id is not None
    seen = Aftermath(desk, monkeypatch)
    await seen.look()
    old, message = await seen.delivery(message_id, MAIL), await desk.row(message_id)
    await happen()
    row, after = await seen.delivery(message_id, MAIL), await desk.row(message_id)

    assert (old.state, row.state) == (*transition.before, transition.after or old.state)
    assert (row.visible_at is not None, row.claim_until is not None) == (row.state == "delayed", row.state == "claimed")
    assert row.attempts == old.attempts + transition.attempts
    assert row.reclaims == old.reclaims + transition.reclaims
    other = await seen.delivery(message_id, "search")
    assert (after["state"], other.state, other.attempts) == ("pending", "pending", 0)
    for place in (JOBS, DEAD_LETTER):
        counted = {name: count for name, count in (await desk.depth(place))._asdict().items() if count}
        assert counted == await desk.states(place), place
    events = await seen.events(message_id)
    assert await seen.usage() == {name: _amount(name, after, events) for name in transition.usage}
    assert [(event.event, event.queue_id) for event in events] == [(event, queue.id) for event in transition.events]
    assert {(event.extras or {}).get("subscription") for event in events} <= {MAIL}
    lines = steps(trail_of(after))[len(steps(trail_of(message))) :]
    assert [line.event for line in lines] == ([transition.history] if transition.history else [])
    assert all((line.detail or "").startswith(f"subscription {MAIL}") for line in lines)
    assert [ready for ready in seen.ready if ready.id == message_id] == []
    assert [each for each in seen.woken if each == queue.id] == ([queue.id] if row.state == "pending" else [])
    assert await seen.actions(message_id) == ([transition.action] if transition.action else [])


def delivery_verdict(name: Any, **fields: Any) -> Case:
    async def case(desk: Desk, _: State | None) -> Act:
        await waiting(desk)
        (message,) = await desk.claim(subscription=MAIL)
        desk.clock.turn(HELD_MS / 1000)
        return Act(message.id, lambda: desk.settle(name, message, **fields))

    return case


async def claim_delivery(desk: Desk, _: State | None) -> Act:
    return Act(await waiting(desk), lambda: desk.claim(subscription=MAIL))


async def promote_delivery(desk: Desk, _: State | None) -> Act:
    act = await delivery_verdict("fail")(desk, None)
    await act.happen()
    desk.clock.turn(61)
    return Act(act.message_id, lambda: all_of(VisibilityTimeoutEnforcer(desk.work_queues)))


async def retry_delivery_at_once(desk: Desk, state: State | None) -> Act:
    await change(desk, backoff_initial_ms=0, backoff_jitter_ms=0)
    return await delivery_verdict("fail")(desk, state)


def lost_delivery(max_reclaims: int) -> Case:
    async def case(desk: Desk, state: State | None) -> Act:
        await change(desk, max_reclaims=max_reclaims)
        claimed_one = await delivery_verdict("complete")(desk, state)
        desk.clock.turn(31)
        return Act(claimed_one.message_id, lambda: all_of(VisibilityTimeoutEnforcer(desk.work_queues)))

    return case


MAIL = "mail"
DELIVERIES: dict[str, Case] = {
    "promote": promote_delivery,
    "claim_delivery": claim_delivery,
    "extend": delivery_verdict("extend", seconds=60),
    "deliver": delivery_verdict("complete"),
    "release": delivery_verdict("release"),
    "retry": delivery_verdict("fail"),
    "retry_at_once": retry_delivery_at_once,
    "reclaim": lost_delivery(3),
    "give_up": delivery_verdict("fail", dead=True),
    "lose": lost_delivery(0),
}
