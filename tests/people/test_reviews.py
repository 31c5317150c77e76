"""Reviews through the service, on three databases: two people are never both right, and a restart changes nothing."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relevo.contract.messages import NewMessage, Published
from relevo.errors import BadDecision, NotYourReview, RelevoError, ReviewChanged, ReviewHeld, ReviewOver
from relevo.work.caller import Caller
from relevo.work.review.case import Case
from relevo.work.review.reviews import Review
from relevo.work.review.spec import ReviewSpec
from relevo.work.store.counters import Depth, depths_of
from relevo.work.work_queues import WorkQueues
from tests.servers.stores import STORES
from tests.support.desk import SCOPE, Desk
from tests.support.review_specs import person, specs

pytestmark = pytest.mark.parametrize("store", STORES)

APPROVE = {"decision": "approve"}


async def asked(desk: Desk, spec: ReviewSpec | None = None) -> Review:
    """A message that waits for people."""
    given_spec = msgspec.Raw(msgspec.json.encode(spec or ReviewSpec()))
    new = NewMessage(body=msgspec.Raw(b"{}"), hitl_spec=given_spec)
    (outcome,) = await desk.work_queues.messages.publish(desk.caller, SCOPE, "jobs", [new])
    assert isinstance(outcome, Published)
    inbox = await desk.work_queues.reviews.inbox(desk.caller, SCOPE, limit=500)
    (review,) = [each for each in inbox.items if each.message_id == outcome.id]
    return review


async def outcomes(*acts: Awaitable[Any]) -> list[str]:
    """What became of acts at the same moment: `done`, or the name of the refusal."""
    found = await asyncio.gather(*acts, return_exceptions=True)
    assert all(isinstance(each, Review | RelevoError) for each in found), found
    return sorted("done" if isinstance(each, Review) else type(each).__name__ for each in found)


async def second(desk: Desk) -> WorkQueues:
    return await WorkQueues.open(desk.work_queues.settings, now_ms=desk.clock)


async def test_of_many_who_claim_at_once_on_two_nodes_one_has_it(desk: Desk) -> None:
    review = await asked(desk)
    async with await second(desk) as other:
        people = [f"p{n}" for n in range(8)]
        acts = [
            (desk.work_queues, other)[n % 2].reviews.claim(desk.caller, SCOPE, review.id, who)
            for n, who in enumerate(people)
        ]
        told = await outcomes(*acts)
    assert told.count("done") == 1
    assert set(told) <= {"done", "ReviewHeld", "ReviewChanged"}
    found = await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)
    assert found.state == "held"
    assert [note.did for note in found.notes] == ["claimed"]
    assert found.notes[0].person == found.holder


async def test_of_two_who_decide_at_once_one_has_decided(desk: Desk) -> None:
    review = await asked(desk)
    async with await second(desk) as other:
        told = await outcomes(
            desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "ada", APPROVE),
            other.reviews.decide(desk.caller, SCOPE, review.id, "eve", {"decision": "reject"}),
        )
    assert told in (["ReviewOver", "done"], ["ReviewChanged", "done"])
    found = await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)
    row = await desk.row(found.message_id or "")
    assert (row["state"], msgspec.json.decode(row["result"])) == ("completed", found.outcome)
    assert (await desk.history(row["id"])).count("review_decided") == 1
    assert await depth(desk) == Depth()


async def test_a_quorum_counts_people_who_decide_at_the_same_moment(desk: Desk) -> None:
    review = await asked(desk, ReviewSpec(quorum=3))
    async with await second(desk) as other:
        await outcomes(
            *(
                work_queues.reviews.decide(desk.caller, SCOPE, review.id, who, APPROVE)
                for work_queues, who in ((desk.work_queues, "ada"), (other, "eve"), (desk.work_queues, "mary"))
            )
        )
    found = await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)
    assert (found.state, sorted(vote.person for vote in found.votes)) == ("decided", ["ada", "eve", "mary"])


async def test_a_decision_and_the_time_out_at_the_same_moment_end_it_once(desk: Desk) -> None:
    review = await asked(desk, ReviewSpec(timeout_s=60))
    desk.clock.turn(s=61)
    clock = Caller.system("review_clock")
    async with await second(desk) as other:
        decided, ticked = await asyncio.gather(
            desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "ada", APPROVE),
            other.reviews.tick(clock),
            return_exceptions=True,
        )
    assert isinstance(decided, Review | ReviewOver | ReviewChanged)
    assert ticked in (0, 1)
    await desk.work_queues.reviews.tick(clock)
    found = await desk.work_queues.reviews.get(desk.caller, SCOPE, review.id)
    row = await desk.row(found.message_id or "")
    assert (found.state, row["state"]) in (("decided", "completed"), ("failed", "failed"))
    assert isinstance(decided, Review) == (found.state == "decided")
    assert await depth(desk) == Depth()


async def test_a_hold_survives_a_restart_and_lapses_in_its_time(desk: Desk) -> None:
    review = await asked(desk, ReviewSpec(hold_s=600))
    async with await second(desk) as first_life:
        await first_life.reviews.claim(desk.caller, SCOPE, review.id, "ada")
    async with await second(desk) as reborn:
        with pytest.raises(ReviewHeld, match="ada"):
            await reborn.reviews.claim(desk.caller, SCOPE, review.id, "eve")
        desk.clock.turn(s=601)
        assert (await reborn.reviews.claim(desk.caller, SCOPE, review.id, "eve")).holder == "eve"


async def test_whoever_waits_on_another_node_hears_of_the_end(desk: Desk) -> None:
    review = await asked(desk)
    async with await second(desk) as other:
        waiting = asyncio.create_task(other.reviews.result(desk.caller, SCOPE, review.id, wait_s=50))
        await desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "ada", APPROVE)
        assert (await waiting).outcome == APPROVE


async def test_what_people_do_is_in_the_audit_with_who_they_are(desk: Desk) -> None:
    review = await asked(desk)
    await desk.work_queues.reviews.claim(desk.caller, SCOPE, review.id, "ada")
    await desk.work_queues.reviews.hand_over(desk.caller, SCOPE, review.id, "ada", "eve")
    await desk.work_queues.reviews.decide(desk.caller, SCOPE, review.id, "eve", APPROVE)
    story = await desk.work_queues.traces.of(desk.caller, review.correlation_id)
    done = [
        (step.what, step.detail["after"]["person"])
        for step in story.steps
        if step.id == review.id and step.source == "audit"
    ]
    assert done == [("review.claim", "ada"), ("review.hand_over", "ada"), ("review.decide", "eve")]


async def depth(desk: Desk) -> Depth:
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "jobs")
    return (await depths_of(desk.work_queues.database, [queue.id]))[queue.id]


# --- any order ---------------------------------------------------------------------------------------------------------------

REFUSED = (BadDecision, NotYourReview, ReviewHeld, ReviewOver)
steps = st.one_of(
    st.tuples(st.just("claim"), person),
    st.tuples(st.just("release"), person),
    st.tuples(st.just("hand_over"), person, person),
    st.tuples(st.just("comment"), person, st.sampled_from(["why?", "  "])),
    st.tuples(st.just("decide"), person, st.sampled_from(["approve", "reject", "nonsense"])),
    st.tuples(st.just("withdraw"), person, st.just("no use")),
    st.tuples(st.just("wait"), st.integers(0, 60)),
    st.tuples(st.just("restart")),
)
ENDED = {"decided": "completed", "failed": "failed", "withdrawn": "cancelled"}


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=specs(), acts=st.lists(steps, min_size=4, max_size=14))
async def test_whatever_people_and_the_clock_do_rows_and_the_case_agree(
    desk: Desk, spec: ReviewSpec, acts: list[tuple[Any, ...]]
) -> None:
    """The pure case is the account of what must be true: same refusals, same state, after every step and every restart."""
    frozen = desk.clock()
    ahead = [0]
    here = await WorkQueues.open(desk.work_queues.settings, now_ms=lambda: frozen + ahead[0])
    at = desk.at(here)
    review = await asked(at, spec)
    case = Case.open(review.id, spec, frozen)
    for name, *given_to in acts:
        if name == "restart":
            await here.close()
            here = await WorkQueues.open(desk.work_queues.settings, now_ms=lambda: frozen + ahead[0])
        elif name == "wait":
            ahead[0] += given_to[0] * 1000
            while case.tick(frozen + ahead[0]) != "nothing":
                await here.reviews.tick(Caller.system("review_clock"))
        else:
            case = await both(here, desk.caller, case, name, given_to, frozen + ahead[0])
        found = await here.reviews.get(desk.caller, SCOPE, review.id)
        told = (found.state, found.holder, found.outcome, found.reason, found.assignees, found.votes, found.notes)
        assert told == (case.state, case.holder, case.outcome, case.reason, case.assignees, case.votes, case.notes)
        row = await desk.row(review.message_id or "")
        assert row["state"] == ENDED.get(case.state, "in_review")
    await here.close()


async def both(work_queues: WorkQueues, caller: Caller, case: Case, name: str, given_to: list[Any], now: int) -> Case:
    """The same act on the rows and on the case: both do it, or both refuse it in the same words. A refused act changes
    nothing, so the case is then what it was."""
    arguments = [given_to[0], {"decision": given_to[1]}] if name == "decide" else given_to
    after = msgspec.json.decode(msgspec.json.encode(case), type=Case)
    expected: str | None = None
    try:
        getattr(after, name)(*arguments, now)
    except REFUSED as refusal:
        expected, after = str(refusal), case
    told: str | None = None
    try:
        await getattr(work_queues.reviews, name)(caller, SCOPE, case.id, *arguments)
    except REFUSED as refusal:
        told = str(refusal)
    assert told == expected
    return after


async def test_a_withdrawn_review_counts_as_cancelled(desk: Desk) -> None:
    """The message was cancelled, and usage did not say so."""
    review = await asked(desk)
    await desk.work_queues.reviews.withdraw(desk.caller, SCOPE, review.id, "ada", "no use")
    (used,) = [row for row in (await desk.work_queues.usage.list(desk.caller)).items if row.queue == "jobs"]
    assert (used.cancelled, used.completed) == (1, 0)
