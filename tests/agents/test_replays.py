"""Dead letters are listed, and replayed: filtered, throttled, once."""

import asyncio

import pytest

from relevo.agents.expiry_enforcer import ExpiryEnforcer
from relevo.agents.replay_runner import ReplayRunner
from relevo.contract.dead_letters import Replay
from relevo.errors import InvalidInput, NotFound, WrongState
from relevo.work.dead_letters.listing import DeadLetterFilter
from relevo.work.dead_letters.replays import ReplayFilter
from relevo.work.store.counters import depths_of
from tests.support.desk import SCOPE, Desk


async def finished(desk: Desk, replay: Replay) -> Replay:
    runner = ReplayRunner(desk.work_queues)
    while (await runner.work()).items:
        desk.clock.turn(s=1)
    return await desk.work_queues.replays.get(desk.caller, SCOPE, replay.id)


async def dead(desk: Desk, wanted: DeadLetterFilter | None = None) -> list[str]:
    return [letter.id for letter in (await desk.work_queues.dead_letters.list(desk.caller, SCOPE, wanted)).items]


async def test_a_replayed_message_goes_back_to_its_queue_with_its_history(desk: Desk) -> None:
    queue_id = (await desk.queue()).id
    (message_id,) = await desk.die(reason="no use")
    ended = await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE))
    assert (ended.state, ended.total, ended.done, ended.skipped) == ("done", 1, 1, 0)
    (claimed,) = await desk.claim()
    assert (claimed.id, claimed.attempts, claimed.reclaims) == (message_id, 1, 0)
    assert await desk.history(message_id) == ["published", "claimed", "dead_lettered", "replayed", "claimed"]
    row = await desk.row(message_id)
    assert (row["queue_id"], row["origin_queue_id"], row["replays"], row["failure_reason"]) == (queue_id, None, 1, None)


async def test_depths_follow_a_replay(desk: Desk) -> None:
    queue_id = (await desk.queue()).id
    await desk.die(3)
    await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE))
    home = await desk.work_queues.queues.lookup(desk.caller, SCOPE, "_dead_letter")
    depths = await depths_of(desk.work_queues.database, [queue_id, home.id])
    assert (depths[queue_id].pending, depths[home.id].dead) == (3, 0)


@pytest.mark.parametrize(
    "wanted",
    [
        DeadLetterFilter(queue="other"),
        DeadLetterFilter(reason="100%"),
        DeadLetterFilter(message_type="invoice"),
        DeadLetterFilter(labels={"customer": "17"}),
        DeadLetterFilter(correlation_id="order-17"),
        DeadLetterFilter(queue="other", reason="disk", labels={"customer": "17"}),
    ],
    ids=lambda wanted: (
        "-".join(name for name in ("queue", "reason", "message_type") if getattr(wanted, name)) or "else"
    ),
)
async def test_dead_letters_are_found_by_what_they_are(desk: Desk, wanted: DeadLetterFilter) -> None:
    await desk.queue()
    await desk.queue("other")
    await desk.die(2, reason="disk 100 full")
    (message_id,) = await desk.die(
        1, "other", "disk 100% full", message_type="invoice", labels={"customer": "17"}, correlation_id="order-17"
    )
    assert await dead(desk, wanted) == [message_id]


async def test_dead_letters_are_found_by_when_they_died_and_by_their_body(desk: Desk) -> None:
    await desk.queue()
    (old,) = await desk.die()
    desk.clock.turn(minutes=10)
    before = desk.clock()
    (_, new) = await desk.die(2)
    assert await dead(desk, DeadLetterFilter(until=before)) == [old]
    assert await dead(desk, DeadLetterFilter(since=before, text='"n":1')) == [new]
    assert await dead(desk, DeadLetterFilter(ids=[old])) == [old]


async def test_a_listing_goes_on_from_its_cursor(desk: Desk) -> None:
    await desk.queue()
    ids = await desk.die(5)
    pages = desk.work_queues.dead_letters
    first = await pages.list(desk.caller, SCOPE, limit=3)
    rest = await pages.list(desk.caller, SCOPE, limit=3, cursor=first.next_cursor)
    assert [each.id for each in [*first.items, *rest.items]] == ids[::-1]
    assert rest.next_cursor is None


async def test_a_replay_moves_what_its_filter_means(desk: Desk) -> None:
    await desk.queue()
    await desk.queue("other")
    await desk.die(2)
    (message_id,) = await desk.die(1, "other")
    await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE, ReplayFilter(queue="other")))
    assert len(await dead(desk)) == 2
    assert [each.id for each in await desk.claim(5, "other")] == [message_id]


async def test_a_dry_run_counts_and_moves_nothing(desk: Desk) -> None:
    await desk.queue()
    await desk.die(3)
    told = await desk.work_queues.replays.start(desk.caller, SCOPE, dry_run=True)
    assert (told.dry_run, told.total, told.done) == (True, 3, 0)
    assert (await ReplayRunner(desk.work_queues).work()).items == 0
    assert len(await dead(desk)) == 3
    assert (await desk.work_queues.replays.list(desk.caller, SCOPE)).items == []


async def test_a_rate_is_kept(desk: Desk) -> None:
    await desk.queue()
    await desk.die(12)
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE, rate_per_s=5)
    runner = ReplayRunner(desk.work_queues)
    moved: list[int] = []
    for _ in range(4):
        moved.append((await runner.work()).items)
        desk.clock.turn(s=1)
    assert moved[0] == 5
    assert all(count <= 6 for count in moved)
    assert (await finished(desk, replay)).done == 12


async def test_a_message_that_was_replayed_too_often_stays(desk: Desk) -> None:
    await desk.queue()
    (message_id,) = await desk.die()
    for _ in range(2):
        await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE, ReplayFilter(max_replays=2)))
        await desk.settle("fail", await desk.claim(), dead=True)
    ended = await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE, ReplayFilter(max_replays=2)))
    assert (ended.done, ended.skipped) == (0, 1)
    assert await dead(desk) == [message_id]


async def test_letters_of_a_queue_that_takes_no_messages_stay(desk: Desk) -> None:
    await desk.queue()
    await desk.die(2)
    await desk.work_queues.queues.change(desk.caller, SCOPE, "jobs", {"state": "archived"})
    ended = await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE))
    assert (ended.state, ended.done, ended.skipped) == ("done", 0, 2)


async def test_a_cancelled_replay_goes_no_further(desk: Desk) -> None:
    await desk.queue()
    await desk.die(6)
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE)
    await desk.work_queues.replays.advance(desk.caller, replay.id, 2)
    cancelled = await desk.work_queues.replays.cancel(desk.caller, SCOPE, replay.id)
    assert (cancelled.state, cancelled.done) == ("cancelled", 2)
    assert (await ReplayRunner(desk.work_queues).work()).items == 0
    assert len(await dead(desk)) == 4


async def test_a_replay_that_is_done_cannot_be_cancelled(desk: Desk) -> None:
    await desk.queue()
    await desk.die()
    replay = await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE))
    with pytest.raises(WrongState):
        await desk.work_queues.replays.cancel(desk.caller, SCOPE, replay.id)


async def test_two_runners_at_once_move_each_letter_once(desk: Desk) -> None:
    await desk.queue()
    ids = await desk.die(30)
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE)
    advance = desk.work_queues.replays.advance
    await asyncio.gather(*(advance(desk.caller, replay.id, 7) for _ in range(6)))
    ended = await finished(desk, replay)
    assert (ended.state, ended.done) == ("done", 30)
    claimed = await desk.claim(100)
    assert sorted(each.id for each in claimed) == sorted(ids)
    assert {(await desk.row(each))["replays"] for each in ids} == {1}


async def test_a_letter_that_expired_gets_its_time_again(desk: Desk) -> None:
    await desk.queue(dead_letter_expired=True)
    (message_id,) = await desk.publish(ttl_s=60)
    desk.clock.turn(s=61)
    await ExpiryEnforcer(desk.work_queues).work()
    await finished(desk, await desk.work_queues.replays.start(desk.caller, SCOPE))
    await ExpiryEnforcer(desk.work_queues).work()
    row = await desk.row(message_id)
    assert row["state"] == "pending"
    assert 0 < row["expires_at"] - desk.clock() <= 60_000


async def test_another_tenants_replay_is_not_there(desk: Desk) -> None:
    await desk.queue()
    await desk.die()
    replay = await desk.work_queues.replays.start(desk.caller, SCOPE)
    other = desk.work_queues.tenants.caller(await desk.work_queues.tenants.create("other"))
    await desk.work_queues.scopes.create(other, SCOPE)
    assert (await desk.work_queues.dead_letters.list(other, SCOPE)).items == []
    with pytest.raises(NotFound):
        await desk.work_queues.replays.get(other, SCOPE, replay.id)


async def test_wrong_questions_are_refused(desk: Desk) -> None:
    await desk.queue()
    with pytest.raises(InvalidInput):
        await desk.work_queues.replays.start(desk.caller, SCOPE, rate_per_s=0)
    with pytest.raises(NotFound):
        await desk.work_queues.replays.start(desk.caller, SCOPE, ReplayFilter(queue="nowhere"))
    with pytest.raises(NotFound):
        await desk.work_queues.replays.cancel(desk.caller, SCOPE, "0" * 26)
