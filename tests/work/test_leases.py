"""A claim is a lease: it goes with the last message it holds, and one that is gone holds nothing."""

import asyncio

import msgspec
import pytest
from sqlalchemy import delete, select

from relevo.agents.index_auditor import IndexAuditor
from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.work.message.history import steps, trail_of
from relevo.work.store.counters import Depth
from relevo.work.store.tables import leases
from tests.patience import until
from tests.support.desk import JOBS, SCOPE, Desk
from tests.work.conftest import OpenWorkQueues

pytestmark = pytest.mark.parametrize("lane", ["sqlite-alone", "postgres-alone", "mariadb-alone"], indirect=True)


async def held(desk: Desk) -> list[int]:
    """How many messages each lease of the queue names."""
    queue = await desk.work_queues.queues.lookup(desk.caller, SCOPE, JOBS)
    async with desk.work_queues.database.connect() as connection:
        rows = await connection.execute(select(leases.c.held).where(leases.c.queue_id == queue.id))
        return sorted(row.held.count(",") + 1 for row in rows)


async def test_one_claim_is_one_lease_however_much_it_takes(desk: Desk) -> None:
    await desk.queue()
    await desk.publish(5)
    await desk.claim(3)
    await desk.claim(2)
    assert await held(desk) == [2, 3]


async def test_a_lease_goes_with_the_last_message_it_holds(desk: Desk) -> None:
    await desk.queue()
    await desk.publish(4)
    claimed = await desk.claim(4)
    for verdict, message in zip(("complete", "fail", "release", "complete"), claimed, strict=True):
        assert await held(desk) == [4]
        await desk.settle(verdict, message)
    assert await held(desk) == []


async def test_a_lease_that_is_settled_from_several_sides_goes_with_the_next(desk: Desk) -> None:
    """None of the transactions at the same time knows that the others settle the rest."""
    await desk.queue()
    await desk.publish(9)
    claimed = await desk.claim(8)
    await asyncio.gather(*(desk.settle("complete", message, queue=JOBS) for message in claimed))
    (last,) = await desk.claim()
    await desk.settle("complete", last)
    assert await held(desk) == []


async def test_a_process_that_did_not_claim_settles_all_the_same(desk: Desk, open_work_queues: OpenWorkQueues) -> None:
    await desk.queue()
    await desk.publish(3)
    claimed = await desk.claim(3)
    other = Desk(await open_work_queues(), desk.caller, desk.clock)
    assert [each.state for each in await other.settle("complete", claimed[:2])] == ["completed", "completed"]
    assert [each.state for each in await other.settle("complete", claimed)] == ["completed"] * 3
    assert await desk.depth() == Depth()


async def test_what_is_left_of_a_lease_runs_out(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=30)
    await desk.publish(3)
    claimed = await desk.claim(3)
    await desk.settle("complete", claimed[0])
    await desk.settle("extend", claimed[1], seconds=100)
    desk.clock.turn(s=31)
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)

    async def comes_to(**states: int) -> None:
        """It passes over leases that the database still counts as held, and comes back for them a second later."""

        async def worked() -> bool:
            await enforcer.work()
            return await desk.states() == states

        await until(worked)

    await comes_to(completed=1, claimed=1, pending=1)
    desk.clock.turn(s=70)
    await comes_to(completed=1, pending=2)
    assert await held(desk) == []


async def test_an_extension_may_be_shorter_than_the_lease(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=300)
    await desk.publish(2)
    claimed = await desk.claim(2)
    await desk.settle("extend", claimed[0], seconds=5)
    desk.clock.turn(s=6)
    await VisibilityTimeoutEnforcer(desk.work_queues).work()
    assert await desk.states() == {"pending": 1, "claimed": 1}
    assert [each.state for each in await desk.settle("complete", claimed)] == [None, "completed"]


async def test_a_claim_under_way_is_told_once(desk: Desk) -> None:
    """It stands in its lease until it is written with what ends it, or extends it."""
    await desk.queue()
    (message_id,) = await desk.publish()
    (claimed,) = await desk.claim(consumer="ada")
    page = await desk.work_queues.search.history(desk.caller, SCOPE, message_id)
    assert [(step.event, step.detail) for step in page.items] == [("published", None), ("claimed", "ada")]
    shown = await desk.work_queues.search.get(desk.caller, SCOPE, message_id)
    assert (shown.state, shown.attempts, shown.claimed_by) == ("claimed", 1, "ada")
    await desk.settle("extend", claimed, seconds=60)
    await desk.settle("release", claimed)
    told = [step.event for step in steps(trail_of(await desk.row(message_id)))]
    assert told == ["published", "claimed", "extended", "released"]


@pytest.mark.parametrize("result", [None, {"n": 1}], ids=["without a result", "with one"])
async def test_an_extended_claim_is_told_once_when_it_is_completed(desk: Desk, result: dict[str, int] | None) -> None:
    """Beside one that was not extended, which one statement completes with it."""
    await desk.queue()
    ids = await desk.publish(2)
    claimed = await desk.claim(2)
    await desk.settle("extend", claimed[0], seconds=60)
    given = msgspec.Raw(b"" if result is None else msgspec.json.encode(result))
    await desk.settle("complete", claimed, result=given)
    told = [[step.event for step in steps(trail_of(await desk.row(each)))] for each in ids]
    assert told == [["published", "claimed", "extended", "completed"], ["published", "claimed", "completed"]]


async def test_a_message_that_no_lease_holds_goes_back(desk: Desk) -> None:
    await desk.queue()
    await desk.publish(3)
    claimed = await desk.claim(2)
    async with desk.work_queues.database.begin() as connection:
        await connection.execute(delete(leases).where(leases.c.token == claimed[0].claim_token))
    auditor = IndexAuditor(desk.work_queues)
    while (await auditor.work()).more:
        pass
    assert await desk.states() == {"pending": 3}
    assert await desk.depth() == Depth(pending=3)
    found = [each["message_ids"] for each in await desk.findings() if each["kind"] == "lost_claim"]
    assert [sorted(ids) for ids in found] == [sorted(each.id for each in claimed)]


@pytest.mark.parametrize("labels", [None, {"kind": "a"}], ids=["any", "by a label"])
async def test_a_claim_ends_so_many_that_outlived_their_ttl_and_no_more(
    desk: Desk, labels: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage there may be very many: the rest is the agent's, so that no claim takes minutes."""
    monkeypatch.setattr("relevo.work.consume.claims._MOST_OUTLIVED", 2)
    await desk.queue()
    await desk.publish(5, ttl_s=10, labels={"kind": "a"})
    desk.clock.turn(s=11)
    assert await desk.claim(1, labels=labels) == []
    assert await desk.states() == {"expired": 2, "pending": 3}
    assert await desk.depth() == Depth(pending=3)
