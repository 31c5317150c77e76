"""Claims that ran out come back, delayed messages become visible."""

from relevo.agents.visibility_timeout_enforcer import VisibilityTimeoutEnforcer
from relevo.work.store.counters import depths_of
from tests.support.desk import SCOPE, Desk


async def test_a_claim_that_ran_out_comes_back_to_its_old_place(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=30)
    first, second = await desk.publish(2)
    (lost,) = await desk.claim()
    assert lost.id == first
    desk.clock.turn(s=31)
    assert (await VisibilityTimeoutEnforcer(desk.work_queues).work()).items == 1
    claimed = await desk.claim(2)
    assert [each.id for each in claimed] == [first, second]
    assert claimed[0].reclaims == 1
    assert await desk.history(first) == ["published", "claimed", "reclaimed", "claimed"]


async def test_a_claim_that_ran_out_is_told_where_failures_are_told(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=30, max_reclaims=1)
    (message_id,) = await desk.publish()
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)
    why = "ClaimTimedOut: its worker neither settled nor extended the claim in time"
    for reason in (why, "worker_lost"):
        await desk.claim()
        desk.clock.turn(s=31)
        await enforcer.work()
        shown = await desk.work_queues.search.get(desk.caller, SCOPE, message_id)
        assert shown.error is not None
        assert (shown.failure_reason, shown.error.text) == (reason, why)
        last = (await desk.work_queues.search.history(desk.caller, SCOPE, message_id)).items[-1]
        assert last.detail == reason


async def test_a_claim_that_still_runs_is_left_alone(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=30)
    (message_id,) = await desk.publish()
    await desk.claim()
    desk.clock.turn(s=25)
    assert (await VisibilityTimeoutEnforcer(desk.work_queues).work()).items == 0
    assert (await desk.row(message_id))["state"] == "claimed"


async def test_the_zombie_can_no_longer_settle(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=1)
    await desk.publish()
    zombie = await desk.claim()
    desk.clock.turn(s=2)
    await VisibilityTimeoutEnforcer(desk.work_queues).work()
    for verdict in ("complete", "fail", "release", "extend"):
        (settled,) = await desk.settle(verdict, zombie)
        assert settled.refusal is not None
        assert settled.refusal.code == "CLAIM_LOST"


async def test_a_message_that_loses_its_workers_too_often_is_dead(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=1, max_reclaims=2)
    (message_id,) = await desk.publish()
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)
    for _ in range(3):
        await desk.claim()
        desk.clock.turn(s=2)
        await enforcer.work()
    row = await desk.row(message_id)
    assert (row["state"], row["failure_reason"], row["reclaims"]) == ("dead", "worker_lost", 3)
    home = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "_dead_letter")
    assert (row["queue_id"], row["finished_at"] is not None) == (home.id, True)


async def test_lost_workers_cost_no_retries(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=1, max_retries=2, max_reclaims=5, backoff_initial_ms=0, backoff_jitter_ms=0)
    await desk.publish()
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)
    for _ in range(2):
        await desk.claim()
        desk.clock.turn(s=2)
        await enforcer.work()
    (settled,) = await desk.settle("fail", await desk.claim(), reason="once")
    assert settled.state in ("pending", "delayed")


async def test_a_delayed_message_becomes_visible_when_its_time_has_come(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await desk.publish(delay_s=60)
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues)
    assert ((await enforcer.work()).items, await desk.claim()) == (0, [])
    desk.clock.turn(s=61)
    assert (await enforcer.work()).items == 1
    assert [each.id for each in await desk.claim()] == [message_id]


async def test_depths_follow(desk: Desk) -> None:
    queue_id = (await desk.queue(visibility_timeout_s=1, max_reclaims=0)).id
    await desk.publish(2)
    await desk.publish(1, delay_s=1)
    await desk.claim()
    desk.clock.turn(s=2)
    await VisibilityTimeoutEnforcer(desk.work_queues).work()
    home = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "_dead_letter")
    depths = await depths_of(desk.work_queues.database, [queue_id, home.id])
    assert (depths[queue_id].pending, depths[queue_id].delayed, depths[queue_id].claimed) == (2, 0, 0)
    assert depths[home.id].dead == 1


async def test_a_backlog_larger_than_a_batch_says_that_there_is_more(desk: Desk) -> None:
    await desk.queue(visibility_timeout_s=1)
    await desk.publish(5)
    for _ in range(5):
        await desk.claim()
    desk.clock.turn(s=2)
    enforcer = VisibilityTimeoutEnforcer(desk.work_queues, batch=2)
    assert [tuple(await enforcer.work()) for _ in range(3)] == [(2, True), (2, True), (1, False)]
    assert len(await desk.claim(5)) == 5


async def test_what_comes_back_is_in_the_order_index_again(indexed: Desk) -> None:
    queue_id = (await indexed.queue(visibility_timeout_s=1)).id
    assert await indexed.work_queues.ready_index.rebuild(queue_id)
    first, second = await indexed.publish(2)
    (delayed,) = await indexed.publish(delay_s=1)
    await indexed.claim()
    indexed.clock.turn(s=2)
    await VisibilityTimeoutEnforcer(indexed.work_queues).work()
    placed = await indexed.work_queues.ready_index.places(queue_id, [first, second, delayed])
    assert placed is not None
    assert None not in placed
    assert [each.id for each in await indexed.claim(3)] == [first, second, delayed]
