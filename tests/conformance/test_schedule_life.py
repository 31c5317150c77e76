"""A schedule's life: made, changed, limited, paused, run by hand, removed."""

import time

import pytest

from relevo import BackoffSpec, Job, Queue, RepeatPattern
from relevo.engine.schedules.scheduler import SchedulerService
from relevo.errors import NeverFires, NoSuchSchedule
from relevo.wire.keys import QueueKeys
from relevo.wire.repeat import RepeatSpec
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.fires import Fires
from tests.servers.server import Client
from tests.support.runs import Runs

MINUTELY = RepeatPattern.every(60_000)


async def lasting_names(raw: Client, keys: QueueKeys) -> set[bytes]:
    """What the queue has in Redis for good, without the tag."""
    tag = keys.tag
    return {key.removeprefix(tag) async for key in raw.scan_iter(match=tag + b"*") if await raw.pttl(key) == -1}


# --- limit, start, end ----------------------------------------------------------------------------------------------


async def test_a_limit_ends_the_schedule_and_leaves_nothing_of_it(
    queue: Queue, scheduler: SchedulerService, fires: Fires, raw: Client, keys: QueueKeys
) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping", limit=2)
    for _ in range(3):
        if await fires.score("ping") is not None:
            await fires.turn_back("ping", 10)
        await scheduler.tick()
    assert len(await fires.slots()) == 2
    assert await lasting_names(raw, keys) == {b":stream"}


async def test_a_limit_of_zero_is_none(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping", limit=0)
    for _ in range(3):
        await fires.turn_back("ping", 10)
        await scheduler.tick()
    assert len(await fires.slots()) == 3


async def test_the_first_slot_of_an_interval_is_one_interval_after_the_start(queue: Queue, fires: Fires) -> None:
    start = fires.now() + 3_600_000
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping", start_after_ms=start)
    assert await fires.score("ping") == start + 60_000


async def test_no_cron_slot_is_at_the_start_itself(queue: Queue, fires: Fires) -> None:
    start = (fires.now() // 60_000 + 60) * 60_000
    repeat = RepeatPattern.cron("* * * * *")
    await queue.upsert_repeatable_job("ping", None, repeat=repeat, key="ping", start_after_ms=start)
    assert await fires.score("ping") == start + 60_000


async def test_the_slot_at_the_end_is_the_last(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    slot = await fires.turn_back("ping", 10)
    await fires.store("ping", await queue.repeatables.recipe("ping"), end_before_ms=slot)
    await scheduler.tick()
    assert await fires.slots() == [slot]
    assert await fires.score("ping") is None
    assert await fires.stored("ping") == {}


async def test_a_schedule_that_ends_before_its_first_slot_is_refused(queue: Queue, fires: Fires) -> None:
    with pytest.raises(NeverFires, match="after end_before_ms"):
        await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, end_before_ms=fires.now() + 30_000)
    assert await queue.get_repeatable_jobs() == []


# --- fires are jobs -------------------------------------------------------------------------------------------------


async def test_defect_13_fires_carry_the_schedules_retry_options(queue: Queue, worker_of: WorkerOf) -> None:
    """ChasquiMQ's defect 13: it ignores them."""
    runs = Runs(fail=lambda _: RuntimeError("no"))
    await queue.upsert_repeatable_job(
        "ping", None, repeat=RepeatPattern.every(50), limit=1, attempts=3, backoff=BackoffSpec.fixed(1, jitter_ms=0)
    )
    async with worker_of(runs, scheduler_tick_ms=20) as worker:
        await worker.until(dead=1)
    assert [job.attempt for job in runs.jobs] == [0, 1, 2]
    assert len(set(runs.ids)) == 1


# --- changed --------------------------------------------------------------------------------------------------------


async def test_defect_12_an_upsert_counts_the_limit_anew(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    """ChasquiMQ's defect 12: it keeps the count of before."""
    for _ in range(2):
        await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping", limit=2)
        await fires.turn_back("ping", 10)
        await scheduler.tick()
    assert await fires.score("ping") is not None
    assert (await fires.stored("ping"))[b"fired"] == b"1"


async def test_an_upsert_with_the_same_pattern_keeps_the_beat_and_changes_the_rest(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    await queue.upsert_repeatable_job("ping", {"v": 1}, repeat=MINUTELY, key="ping")
    slot = await fires.turn_back("ping", 10)
    await queue.upsert_repeatable_job("ping", {"v": 2}, repeat=MINUTELY, key="ping", attempts=7)
    await scheduler.tick()
    (fire,) = await fires.envelopes()
    assert await fires.slots() == [slot]
    assert fire.payload == b"\x81\xa1v\x02"
    assert fire.retry is not None
    assert fire.retry.max_attempts == 7


async def test_an_upsert_with_another_pattern_begins_a_new_beat(queue: Queue, fires: Fires) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    before = fires.now()
    await queue.upsert_repeatable_job("ping", None, repeat=RepeatPattern.every(3_600_000), key="ping")
    score = await fires.score("ping")
    assert score is not None
    assert before + 3_600_000 <= score <= fires.now() + 3_600_000


async def test_slots_are_counted_by_the_servers_clock(
    queue: Queue, fires: Fires, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 86_400 * 10**9)
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    score = await fires.score("ping")
    assert score is not None
    assert score <= fires.now() + 60_000


async def test_a_schedule_without_a_key_is_known_by_its_name_and_pattern(queue: Queue) -> None:
    for repeat in (MINUTELY, MINUTELY, RepeatPattern.cron("0 9 * * MON", tz="Europe/Madrid")):
        await queue.upsert_repeatable_job("ping", None, repeat=repeat)
    keys = {meta.key for meta in await queue.get_repeatable_jobs()}
    assert keys == {"ping::every:60000", "ping::cron:0 9 * * MON:Europe/Madrid"}


async def test_schedules_are_listed_by_their_next_fire(queue: Queue, queue_of: QueueOf) -> None:
    for minutes in (3, 1, 2):
        await queue.upsert_repeatable_job("ping", minutes, repeat=RepeatPattern.every(minutes * 60_000), limit=minutes)
    listed = await queue_of().get_repeatable_jobs(limit=2)
    assert [(meta.pattern.interval_ms, meta.limit) for meta in listed] == [(60_000, 1), (120_000, 2)]


async def test_add_with_repeat_makes_the_schedule(queue: Queue, fires: Fires) -> None:
    job: Job = await queue.add("ping", None, repeat={"kind": "every", "interval_ms": 60_000})
    assert job.id == "ping::every:60000"
    assert await fires.score(job.id) is not None
    assert await fires.slots() == []


# --- paused, run by hand, removed -------------------------------------------------------------------------------------


async def test_a_paused_schedule_does_not_fire_until_it_is_resumed(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    repeatables = queue.repeatables
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    await fires.turn_back("ping", 10)
    assert await repeatables.pause_repeatable("ping")
    await scheduler.tick()
    assert await fires.slots() == []
    assert [meta.key for meta in await repeatables.list(paused=True)] == ["ping"]
    assert await queue.get_repeatable_jobs() == []
    assert await repeatables.resume("ping")
    await fires.turn_back("ping", 10)
    await scheduler.tick()
    assert len(await fires.slots()) == 1


async def test_what_passed_during_a_pause_was_not_missed(queue: Queue, fires: Fires) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping", missed_fires={"kind": "fire-once"})
    await fires.turn_back("ping", 3_600_000)
    await queue.repeatables.pause_repeatable("ping")
    before = fires.now()
    await queue.repeatables.resume("ping")
    score = await fires.score("ping")
    assert score is not None
    assert score >= before + 60_000


async def test_pausing_and_resuming_say_whether_they_did(queue: Queue) -> None:
    repeatables = queue.repeatables
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    assert [await repeatables.pause_repeatable(key) for key in ("ping", "ping", "nope")] == [True, False, False]
    assert [await repeatables.resume(key) for key in ("ping", "ping", "nope")] == [True, False, False]


async def test_an_upsert_does_not_undo_a_pause(queue: Queue, scheduler: SchedulerService, fires: Fires) -> None:
    """An application upserts at every start: a deploy must not resume what an operator has paused."""
    await queue.upsert_repeatable_job("ping", {"v": 1}, repeat=MINUTELY, key="ping")
    await queue.repeatables.pause_repeatable("ping")
    await queue.upsert_repeatable_job("ping", {"v": 2}, repeat=RepeatPattern.every(1000), key="ping")
    assert await fires.score("ping") is None
    await queue.repeatables.resume("ping")
    await fires.turn_back("ping", 10)
    await scheduler.tick()
    assert [fire.payload for fire in await fires.envelopes()] == [b"\x81\xa1v\x02"]


async def test_run_now_adds_a_job_and_leaves_the_schedule_as_it_is(
    queue: Queue, worker_of: WorkerOf, fires: Fires
) -> None:
    await queue.upsert_repeatable_job("ping", {"v": 1}, repeat=MINUTELY, key="ping", limit=1)
    before = await fires.score("ping")
    job = await queue.run_repeatable_now("ping")
    runs = Runs()
    async with worker_of(runs, run_scheduler=False) as worker:
        await worker.until(done=1)
    assert [(run.id, run.name, run.data) for run in runs.jobs] == [(job.id, "ping", {"v": 1})]
    assert await fires.score("ping") == before
    assert b"fired" not in await fires.stored("ping")


async def test_running_a_schedule_that_is_not_there_says_so(queue: Queue) -> None:
    with pytest.raises(NoSuchSchedule, match="has no schedule 'nope'"):
        await queue.run_repeatable_now("nope")


async def test_a_removed_schedule_never_fires_again_and_leaves_nothing(
    queue: Queue, queue_of: QueueOf, scheduler: SchedulerService, fires: Fires, raw: Client, keys: QueueKeys
) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    await fires.turn_back("ping", 10)
    assert await queue_of().remove_repeatable_by_key("ping")
    await scheduler.tick()
    assert await lasting_names(raw, keys) == set()
    assert not await queue.remove_repeatable_by_key("ping")


async def test_a_paused_schedule_can_be_removed(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="ping")
    await queue.repeatables.pause_repeatable("ping")
    assert await queue.remove_repeatable_by_key("ping")
    assert await lasting_names(raw, keys) == set()


# --- what cannot be read -----------------------------------------------------------------------------------------------


async def unreadable(fires: Fires, queue: Queue, kind: str) -> None:
    """Makes a schedule `bad`, due, that no scheduler of today can fire."""
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="bad")
    spec = await queue.repeatables.recipe("bad")
    forms = {
        "garbage": b"\xc1 no msgpack",
        "longer": bytes([0x9B]) + spec.encode()[1:] + b"\xa4Skip\xc0\xc0",
        "bad cron": spec.encode().replace(b"\x81\xa5Every\x91\xcd\xea\x60", b"\x81\xa4Cron\x92\xa3bad\xc0"),
    }
    if kind in forms:
        assert forms[kind] != spec.encode()
        await fires.store("bad", forms[kind])
    await fires.turn_back("bad", 20)
    if kind == "no time":
        await fires.set_score("bad", float("-inf"))


@pytest.mark.parametrize("kind", ["garbage", "longer", "bad cron", "no time"])
async def test_a_schedule_that_cannot_be_fired_is_set_aside_and_stops_nobody(
    queue: Queue, scheduler: SchedulerService, fires: Fires, kind: str
) -> None:
    await unreadable(fires, queue, kind)
    stored = await fires.stored("bad")
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="good")
    slot = await fires.turn_back("good", 10)
    await scheduler.tick()
    assert await fires.slots() == [slot]
    assert await fires.score("bad") is None
    assert await fires.is_paused("bad")
    assert await fires.stored("bad") == stored


@pytest.mark.parametrize("fired", [False, True], ids=["before a scheduler saw it", "set aside"])
async def test_schedules_that_cannot_be_read_are_named(
    queue: Queue, scheduler: SchedulerService, fires: Fires, fired: bool
) -> None:
    """They are in no listing: what cannot be read has nothing to list but its key."""
    await unreadable(fires, queue, "garbage")
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="good")
    if fired:
        await scheduler.tick()
    assert await queue.repeatables.unreadable() == ["bad"]
    assert await queue.repeatables.list(paused=True) == []
    assert await queue.remove_repeatable_by_key("bad")
    assert await queue.repeatables.unreadable() == []


async def test_an_upsert_takes_an_unreadable_schedule_up_again(
    queue: Queue, scheduler: SchedulerService, fires: Fires
) -> None:
    await unreadable(fires, queue, "garbage")
    await scheduler.tick()
    await queue.upsert_repeatable_job("ping", None, repeat=MINUTELY, key="bad")
    assert await fires.score("bad") is not None
    assert not await fires.is_paused("bad")


async def test_the_spec_has_ten_elements_only_with_retry_options(queue: Queue, fires: Fires) -> None:
    """A ChasquiMQ 1.3.0 scheduler takes eight or nine, and drops ten."""
    await queue.upsert_repeatable_job("a", None, repeat=MINUTELY, key="8")
    await queue.upsert_repeatable_job("a", None, repeat=MINUTELY, key="9", missed_fires={"kind": "fire-once"})
    await queue.upsert_repeatable_job("a", None, repeat=MINUTELY, key="10", attempts=1)
    sizes = [(await fires.stored(key))[b"spec"][0] & 15 for key in ("8", "9", "10")]
    assert sizes == [8, 9, 10]
    assert RepeatSpec.decode((await fires.stored("10"))[b"spec"]).retry is not None
