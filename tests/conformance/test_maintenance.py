import asyncio
from typing import Any

import pytest

from relevo import Queue, UnrecoverableError
from relevo.engine.job.dedup import Dedup
from relevo.engine.lanes.lanes import LaneLimit
from relevo.errors import BadArgument, QueueBusy
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.group import Group
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs

HOUR_MS = 3_600_000
NOWHERE = {"delayed": False, "stream": False, "dlq": False, "result": False}


def numbers(count: int, **options: Any) -> list[dict[str, Any]]:
    return [{"name": "job", "data": number, **options} for number in range(count)]


def dies(_: object) -> Exception:
    return UnrecoverableError("no")


async def keys_of(server: Server, keys: QueueKeys) -> set[bytes]:
    """The names of the queue's keys there are, without the queue's own part."""
    client = server.client()
    try:
        return {key[len(keys.tag) + 1 :] async for key in client.scan_iter() if key.startswith(keys.tag)}
    finally:
        await client.aclose()


# --- remove -----------------------------------------------------------------------------------------------------------


async def test_a_waiting_job_is_removed_and_its_neighbours_stay(queue: Queue, worker_of: WorkerOf) -> None:
    jobs = await queue.add_bulk(numbers(3))
    assert await queue.remove_report(jobs[1].id) == NOWHERE | {"stream": True}
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=2)
    assert runs.data == [0, 2]


async def test_a_delayed_job_is_removed_whether_its_id_was_chosen_or_made(queue: Queue) -> None:
    for job in [
        await queue.add("job", 1, delay_ms=HOUR_MS, job_id="mine"),
        await queue.add("job", 2, delay_ms=HOUR_MS),
    ]:
        assert await queue.remove_report(job.id) == NOWHERE | {"delayed": True}
    assert await queue.get_delayed_count() == 0


async def test_a_dead_letter_and_a_result_are_removed(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(fail=dies)) as worker:
        dead = await queue.add("job", 1)
        await worker.until(dead=1)
    async with worker_of(Runs(answer=lambda _: 1), store_results=True) as worker:
        done = await queue.add("job", 1)
        await worker.until(done=1)
    assert await queue.remove_report(dead.id) == NOWHERE | {"dlq": True}
    assert await queue.remove_report(done.id) == NOWHERE | {"result": True}
    assert await queue.get_job_counts("failed", "completed") == {"failed": 0, "completed": 0}


async def test_a_job_is_removed_once(queue: Queue) -> None:
    job = await queue.add("job", 1)
    assert [await queue.remove(job.id) for _ in range(2)] == [1, 0]
    assert await queue.remove_report("never-there") == NOWHERE


async def test_a_job_that_mentions_another_is_not_taken_for_it(queue: Queue) -> None:
    await queue.add("job", {"after": "order-17"})
    await queue.add("job", {"after": "order-17"}, delay_ms=HOUR_MS)
    assert await queue.remove("order-17") == 0
    assert await queue.count() == 2


async def test_the_id_of_a_removed_job_may_be_used_again(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    for delay in (None, HOUR_MS):
        await queue.add("job", "first", job_id=f"order-{delay}", delay_ms=delay)
        assert await queue.remove(f"order-{delay}") == 1
        await queue.add("job", "second", job_id=f"order-{delay}")
    async with worker_of(runs) as worker:
        await worker.until(done=2)
    assert runs.data == ["second", "second"]


async def test_a_job_that_runs_is_not_taken_from_its_worker(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    async with worker_of(runs) as worker:
        job = await queue.add("job", 1)
        await runs.until(1)
        removal = await queue.maintenance.remove(job.id)
        assert (removal.count, removal.running) == (0, True)
        runs.let_go()
        assert (await worker.until(done=1)).lost == 0
    assert runs.ended == [job.id]


async def test_a_job_that_was_handed_back_is_removed(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    group = Group(raw, keys)
    await group.make()
    job = await queue.add("job", 1)
    ids = await group.die_with(1)
    await raw.xclaim(keys.stream, "default", "c-handed-back", 0, ids, idle=1000)
    assert await queue.remove(job.id) == 1
    assert (await group.pending(), await group.length()) == ([], 0)


async def test_a_job_is_either_removed_or_run(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        jobs = await queue.add_bulk(numbers(40))
        removed = await asyncio.gather(*(queue.remove(job.id) for job in jobs))
        await worker.until(done=removed.count(0))
        await asyncio.gather(*(queue.remove(job.id) for job in jobs))
    kept = [job.id for job, count in zip(jobs, removed, strict=True) if count == 0]
    assert sorted(runs.ids) == sorted(kept)


async def test_a_job_that_waits_in_a_lane_is_found_and_removed(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("tenant", LaneLimit(concurrency=1))
    jobs = await queue.add_bulk(numbers(4, lane="tenant"))
    assert await queue.get_job(jobs[2].id) == jobs[2]
    assert await queue.get_job_state(jobs[2].id) == "waiting"
    assert await queue.remove_report(jobs[2].id) == NOWHERE | {"stream": True}
    assert await queue.get_job_state(jobs[2].id) == "unknown"
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=3)
    assert runs.data == [0, 1, 3]
    await queue.lanes.unlimit("tenant")


async def test_a_removed_job_gives_up_its_place_in_a_lane_and_its_dedup_key(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("tenant", LaneLimit(concurrency=1))
    first = await queue.add("job", 1, lane="tenant", dedup=Dedup.drop("order-17"))
    await queue.add("job", 2, lane="tenant")
    assert await queue.remove(first.id) == 1
    again = await queue.add("job", 3, lane="tenant", dedup=Dedup.drop("order-17"))
    assert again.id != first.id
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=2)
    assert runs.data == [2, 3]
    await queue.lanes.unlimit("tenant")


# --- drain ------------------------------------------------------------------------------------------------------------


async def test_a_drained_queue_has_nothing_to_begin_and_all_the_rest(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(fail=dies)) as worker:
        await queue.add("job", 1)
        await worker.until(dead=1)
    runs = HeldRuns()
    async with worker_of(runs, concurrency=2) as worker:
        await queue.add_bulk(numbers(1200))
        await runs.until(2)
        await queue.add_bulk(numbers(700, delay_ms=HOUR_MS))
        drained = await queue.drain()
        counts = await queue.get_job_counts()
        runs.let_go()
        await worker.until(done=2)
    assert drained == 1198 + 700
    assert counts == {"waiting": 0, "active": 2, "delayed": 0, "completed": 0, "failed": 1, "paused": 0}
    assert len(runs.ended) == 2


async def test_a_drain_may_leave_the_delayed_jobs(queue: Queue) -> None:
    await queue.add("job", 1)
    await queue.add("job", 2, delay_ms=HOUR_MS)
    assert await queue.drain(delayed=False) == 1
    assert await queue.get_job_counts("waiting", "delayed") == {"waiting": 0, "delayed": 1}


async def test_the_ids_of_drained_jobs_may_be_used_again(queue: Queue) -> None:
    for _ in range(2):
        await queue.add("job", 1, job_id="now")
        await queue.add("job", 1, job_id="later", delay_ms=HOUR_MS)
        assert await queue.drain() == 2


async def test_a_drain_empties_the_lanes_and_they_may_be_used_again(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("*", LaneLimit(concurrency=1))
    for lane in ("ada", "bob"):
        await queue.add_bulk(numbers(600, lane=lane))
    assert await queue.drain() == 1200
    assert [(await queue.lanes.state(lane))[1:3] for lane in ("ada", "bob")] == [(0, 0), (0, 0)]
    await queue.add("job", "after", lane="ada")
    runs = Runs()
    async with worker_of(runs) as worker:
        await worker.until(done=1)
    assert runs.data == ["after"]
    await queue.lanes.unlimit("*")


async def test_draining_an_unused_queue_removes_nothing(queue: Queue) -> None:
    assert await queue.drain() == 0


async def test_a_drain_takes_what_was_handed_back_and_what_is_no_job(
    queue: Queue, raw: Client, keys: QueueKeys
) -> None:
    group = Group(raw, keys)
    await group.make()
    await raw.xadd(keys.stream, {b"\xff": b"\x00"})
    await raw.zadd(keys.delayed, {b"\xff": 1})
    await queue.add("job", 1)
    ids = await group.die_with(2)
    await raw.xclaim(keys.stream, "default", "c-handed-back", 0, ids, idle=1000)
    assert await queue.drain() == 3
    assert (await group.pending(), await group.length()) == ([], 0)


# --- clean ------------------------------------------------------------------------------------------------------------


async def test_old_waiting_jobs_are_cleaned_oldest_first_up_to_the_limit(queue: Queue) -> None:
    jobs = await queue.add_bulk(numbers(8))
    assert await queue.clean(HOUR_MS, 100, "waiting") == []
    assert await queue.clean(0, 3, "waiting") == [job.id for job in jobs[:3]]
    assert await queue.get_waiting_count() == 5


async def test_only_jobs_older_than_the_grace_are_cleaned(
    queue: Queue, server: Server, raw: Client, keys: QueueKeys
) -> None:
    now_ms = int(server.call("TIME")[0]) * 1000
    for age in (200, 50):
        envelope = Envelope(f"{age}", b"\x01", now_ms - age * 1000).encode()
        for key in (keys.stream, keys.dead):
            await raw.xadd(key, {"d": envelope}, id=f"{now_ms - age * 1000}-0")
        await raw.zadd(keys.delayed, {DelayedMember("", envelope).encode(): 9e15})
    for state in ("waiting", "failed", "delayed"):
        assert await queue.clean(100_000, 10, state) == ["200"]
    assert await queue.get_job_counts("waiting", "failed", "delayed") == {"waiting": 1, "failed": 1, "delayed": 1}


async def test_waiting_jobs_behind_a_running_one_are_cleaned_and_it_is_not(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    async with worker_of(runs, concurrency=1) as worker:
        jobs = await queue.add_bulk(numbers(5))
        await runs.until(1)
        cleaned = [await queue.clean(0, 100, "active"), await queue.clean(0, 100, "waiting")]
        runs.let_go()
        await worker.until(done=1)
    assert cleaned == [[], [job.id for job in jobs[1:]]]
    assert runs.ended == [jobs[0].id]


async def test_dead_letters_are_cleaned(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(fail=dies)) as worker:
        jobs = await queue.add_bulk(numbers(3))
        await worker.until(dead=3)
    assert sorted(await queue.clean(0, 100, "failed")) == sorted(job.id for job in jobs)
    assert await queue.get_failed_count() == 0


async def test_delayed_jobs_are_cleaned_and_their_ids_may_be_used_again(queue: Queue) -> None:
    jobs = await queue.add_bulk(numbers(3, delay_ms=HOUR_MS))
    await queue.add("job", 1, job_id="mine", delay_ms=HOUR_MS)
    assert sorted(await queue.clean(0, 100, "delayed")) == sorted(["mine", *(job.id for job in jobs)])
    await queue.add("job", 2, job_id="mine")
    assert await queue.get_job_counts("waiting", "delayed") == {"waiting": 1, "delayed": 0}


async def test_results_are_cleaned_by_the_age_their_id_tells(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    old, young = "01HF7YAT00AAAAAAAAAAAAAAAA", (await queue.add("job", 1)).id
    for job_id in (old, young, "order-17"):
        await raw.set(keys.result(job_id), b"\x01", ex=60)
    assert await queue.clean(HOUR_MS, 100) == [old]
    assert sorted(await queue.clean(0, 100)) == sorted([young, "order-17"])


async def test_cleaning_asks_for_a_state_there_is(queue: Queue) -> None:
    with pytest.raises(BadArgument, match="'paused'"):
        await queue.clean(0, 1, "paused")
    with pytest.raises(BadArgument, match="grace_ms"):
        await queue.clean(-1, 1)
    with pytest.raises(BadArgument, match="limit"):
        await queue.clean(0, -1)


# --- obliterate -------------------------------------------------------------------------------------------------------


async def test_an_obliterated_queue_leaves_no_key_and_its_neighbour_keeps_all(
    queue: Queue, server: Server, keys: QueueKeys, worker_of: WorkerOf
) -> None:
    # A name with the letters that a pattern would read as its own.
    async with Queue("*", redis_url=server.url) as star:
        await star.add("job", 1)
        await queue.add_bulk(numbers(3))
        assert await star.obliterate() > 0
        assert await queue.count() == 3
    async with worker_of(Runs(answer=lambda _: 1), store_results=True) as worker:
        await worker.until(done=3)
    await queue.add("job", 1, job_id="mine", delay_ms=HOUR_MS)
    await queue.upsert_repeatable_job("tick", 1, repeat={"kind": "every", "interval_ms": HOUR_MS})
    await queue.pause()
    assert await queue.obliterate() > 5
    assert await keys_of(server, keys) == set()
    assert await queue.obliterate() == 0


async def test_a_queue_whose_jobs_run_is_obliterated_only_by_force(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys
) -> None:
    runs = HeldRuns()
    async with worker_of(runs, concurrency=1) as worker:
        await queue.add_bulk(numbers(3))
        await runs.until(1)
        with pytest.raises(QueueBusy, match="hold 1 of its jobs"):
            await queue.obliterate()
        assert await queue.count() == 3
        assert await queue.obliterate(force=True) > 0
        runs.let_go()
        await worker.until(lost=1)
    assert len(runs.jobs) == 1


async def test_an_obliterated_queue_may_be_used_again_by_workers_that_were_there_all_the_time(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf
) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        await queue.add("job", "before")
        await worker.until(done=1)
        await queue_of().obliterate()
        await queue.add("job", "after")
        await worker.until(done=2)
    assert runs.data == ["before", "after"]
