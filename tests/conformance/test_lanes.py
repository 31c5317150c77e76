"""Lanes: order and limits within one, fairness between them, and places that come back whatever happens to a job."""

import asyncio
import time
from typing import Any

import pytest

from relevo import BackoffSpec, Job, LaneLimit, Queue, QueueFull, RateLimited, UnrecoverableError
from relevo.engine.lanes.lanes import WINDOW
from relevo.errors import BadArgument, WrongType
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.group import GROUP, Group
from tests.conformance.lane_runs import LaneRuns, laned
from tests.pace import limit
from tests.servers.server import Client

AT_ONCE = BackoffSpec.fixed(1)
SEQUENCE = LaneLimit(concurrency=1)


# --- order -------------------------------------------------------------------------------------------------------------


async def test_a_sequence_runs_in_order_and_one_at_a_time_whatever_number_of_workers(
    queue: Queue, worker_of: WorkerOf
) -> None:
    await queue.lanes.limit("*", SEQUENCE)
    runs = LaneRuns()
    async with worker_of(runs), worker_of(runs), worker_of(runs):
        await queue.add_bulk([job for n in range(10) for lane in "abc" for job in laned(lane, 1, start=n)])
        await runs.until_ended(30)
    assert runs.began == {lane: list(range(10)) for lane in "abc"}
    assert runs.most == dict.fromkeys("abc", 1)


async def test_a_failed_job_holds_its_sequence_until_its_last_try(queue: Queue, worker_of: WorkerOf) -> None:
    failing = {1: 2}

    def fail(job: Job) -> Exception | None:
        number = job.data["n"]
        failing[number] = failing.get(number, 0) - 1
        return ValueError("not yet") if failing[number] >= 0 else None

    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns(fail=fail)
    async with worker_of(runs), worker_of(runs):
        await queue.add_bulk(laned("a", 4, backoff=AT_ONCE))
        await runs.until_ended(4)
    assert runs.began["a"] == [0, 1, 1, 1, 2, 3]
    assert runs.most["a"] == 1


async def test_a_dead_letter_frees_its_place(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns(fail=lambda job: UnrecoverableError("no") if job.data["n"] == 1 else None)
    async with worker_of(runs) as worker:
        await queue.add_bulk(laned("a", 3))
        await runs.until_ended(2)
        await worker.until(dead=1)
    assert runs.began["a"] == [0, 1, 2]


async def test_a_job_of_a_dead_worker_runs_again_before_the_next_of_its_sequence(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    await group.make()
    await queue.add_bulk(laned("a", 3))
    assert len(await group.die_with(10)) == 1  # all that may leave the lane
    runs = LaneRuns()
    async with worker_of(runs, claim_min_idle_ms=200), worker_of(runs, claim_min_idle_ms=200):
        await runs.until_ended(3)
    assert (runs.began["a"], runs.most["a"]) == ([0, 1, 2], 1)


@pytest.mark.parametrize("detector", [True, False], ids=["detector", "reader"])
async def test_a_job_that_killed_its_workers_frees_its_place(
    queue: Queue, worker_of: WorkerOf, group: Group, detector: bool
) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    await group.make()
    await queue.add_bulk(laned("a", 2))
    await group.die_with(1, times=3)
    runs = LaneRuns()
    async with worker_of(runs, claim_min_idle_ms=100, stalled_detector_enabled=detector):
        await runs.until_ended(1)
    assert runs.began["a"] == [1]
    assert [letter["reason"] for letter in await queue.peek_dlq()] == ["stalled"]


async def test_jobs_handed_back_at_shutdown_keep_their_order(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    held = LaneRuns(held=True)
    async with worker_of(held, shutdown_deadline_s=0.05):
        await queue.add_bulk(laned("a", 3))
        await held.until_began(1)
    runs = LaneRuns()
    async with worker_of(runs):
        await runs.until_ended(3)
    assert (held.ended, runs.began["a"]) == ({}, [0, 1, 2])


async def test_a_delayed_job_enters_its_lane_when_it_is_due(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns()
    async with worker_of(runs):
        await queue.add_bulk(
            [*laned("a", 1, delay_ms=80), *laned("a", 2, start=1), *laned("a", 1, start=3, delay_ms=40)]
        )
        await runs.until_ended(4)
    assert (sorted(runs.began["a"]), runs.most["a"]) == ([0, 1, 2, 3], 1)
    assert runs.began["a"][:2] == [1, 2]


# --- limits ------------------------------------------------------------------------------------------------------------


async def test_a_lane_may_run_as_many_at_once_as_its_limit_says(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("*", SEQUENCE)
    await queue.lanes.limit("b", LaneLimit(concurrency=3))
    runs = LaneRuns(held=True)
    async with worker_of(runs), worker_of(runs):
        await queue.add_bulk(laned("a", 5) + laned("b", 5))
        await runs.until_began(4)
        runs.let_go()
        await runs.until_ended(10)
    assert runs.most == {"a": 1, "b": 3}


async def test_a_lane_without_a_limit_runs_freely(queue: Queue, worker_of: WorkerOf) -> None:
    runs = LaneRuns(held=True)
    async with worker_of(runs):
        await queue.add_bulk(laned("a", 20))
        await runs.until_began(20)
        runs.let_go()
        await runs.until_ended(20)


async def test_the_rate_of_a_lane_is_kept_and_another_lane_is_not_held_up(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("slow", LaneLimit(rate=2, per_ms=200))
    runs = LaneRuns()
    async with worker_of(runs), worker_of(runs):
        await queue.add_bulk(laned("slow", 6) + laned("free", 6))
        await runs.until_ended(12)
    turns = sorted(runs.turns_ms["slow"])
    assert turns[-1] - turns[0] >= 350  # two in any 200 ms
    assert sorted(runs.began["slow"]) == list(range(6))
    assert max(runs.turns_ms["free"]) < turns[-1]


async def test_a_raised_limit_counts_at_once(queue: Queue, queue_of: QueueOf, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns(held=True)
    async with worker_of(runs):
        await queue.add_bulk(laned("a", 3))
        await runs.until_began(1)
        await queue_of().lanes.limit("a", LaneLimit(concurrency=3))
        await runs.until_began(3)
        runs.let_go()
        await runs.until_ended(3)
    assert runs.most["a"] == 3


@pytest.mark.parametrize("limited", ["a", "*"])
async def test_a_removed_limit_lets_go_of_a_lane_that_waits_for_its_rate(
    queue: Queue, worker_of: WorkerOf, limited: str
) -> None:
    await queue.lanes.limit(limited, LaneLimit(rate=1, per_ms=3_600_000))
    runs = LaneRuns()
    async with worker_of(runs):
        await queue.add_bulk(laned("a", 3))
        await runs.until_ended(1)
        assert await queue.lanes.unlimit(limited)
        await runs.until_ended(3)
    assert not await queue.lanes.unlimit(limited)


async def test_a_lowered_limit_holds_what_has_not_left(queue: Queue, worker_of: WorkerOf) -> None:
    runs = LaneRuns(held=True)
    async with worker_of(runs):
        await queue.add_bulk(laned("a", 2))
        await runs.until_began(2)
        await queue.lanes.limit("a", SEQUENCE)
        await queue.add_bulk(laned("a", 3, start=2))
        runs.most.clear()
        runs.let_go()
        await runs.until_ended(5)
    assert runs.began["a"] == [0, 1, 2, 3, 4]
    assert runs.most["a"] == 1


async def test_limits_and_states_can_be_read(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", LaneLimit(concurrency=2))
    await queue.lanes.limit("*", LaneLimit(rate=5, per_ms=60_000))
    await queue.add_bulk(laned("a", 5))
    assert await queue.lanes.limits() == {"a": LaneLimit(concurrency=2), "*": LaneLimit(rate=5, per_ms=60_000)}
    assert await queue.lanes.state("a") == ("a", 3, 2, LaneLimit(concurrency=2))
    assert (await queue.lanes.state("b")).limit == LaneLimit(rate=5, per_ms=60_000)
    assert await queue.lanes.waiting() == {"a": 3}
    await queue.drain()


@pytest.mark.parametrize("name", ["", "  ", 5, None])
async def test_a_lane_needs_a_name(queue: Queue, name: Any) -> None:
    with pytest.raises(BadArgument, match="lane="):
        await queue.lanes.limit(name, SEQUENCE)
    if name is not None:
        with pytest.raises(BadArgument, match="lane="):
            await queue.add("job", {}, lane=name)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, BadArgument),
        ({"concurrency": -1}, BadArgument),
        ({"rate": 1, "per_ms": 0}, BadArgument),
        ({"rate": "3"}, WrongType),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        LaneLimit(**options)


# --- fairness ----------------------------------------------------------------------------------------------------------


async def test_a_big_lane_cannot_starve_a_small_one(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.add_bulk(laned("big", 2 * WINDOW + 100))
    await queue.add_bulk(laned("small", 3))
    runs = LaneRuns()
    async with worker_of(runs, concurrency=1):
        await runs._until(lambda: len(runs.began["small"]) == 3)  # pyright: ignore[reportPrivateUsage]
        places = [at for at, lane in enumerate(runs.order) if lane == "small"]
    await queue.drain()
    assert places[-1] <= WINDOW + 2 * 3
    assert len(runs.began["big"]) >= 3


async def test_lanes_take_turns(queue: Queue, worker_of: WorkerOf) -> None:
    """Behind a full window nothing of the small lanes waits for the rest of the big one."""
    await queue.add_bulk(laned("big", WINDOW + 50))
    await queue.add_bulk([job for n in range(10) for lane in ("x", "y") for job in laned(lane, 1, start=n)])
    runs = LaneRuns()
    async with worker_of(runs, concurrency=1):
        await runs.until_ended(WINDOW + 70)
    behind = runs.order[WINDOW:]
    assert behind[:30].count("big") == behind[:30].count("x") == behind[:30].count("y") == 10


# --- later -------------------------------------------------------------------------------------------------------------


async def test_rate_limited_parks_the_lane_with_its_job_and_counts_no_run(queue: Queue, worker_of: WorkerOf) -> None:
    told: list[float] = []
    wait_s = limit(0.25)  # long enough for the other lane to be done meanwhile

    def fail(job: Job) -> Exception | None:
        if job.data == {"lane": "a", "n": 0} and not told:
            told.append(time.monotonic())
            return RateLimited(retry_after_s=wait_s)
        return None

    await queue.lanes.limit("*", SEQUENCE)
    runs = LaneRuns(fail=fail)
    async with worker_of(runs):
        await queue.add_bulk(laned("a", 2) + laned("b", 2))
        await runs.until_ended(4)
    assert runs.began == {"a": [0, 0, 1], "b": [0, 1]}
    assert runs.times["a"][1] - told[0] >= wait_s - 0.01
    assert runs.times["b"][-1] < runs.times["a"][1]
    assert set(runs.attempts) == {0}


async def test_jobs_parked_together_keep_their_order(queue: Queue, worker_of: WorkerOf) -> None:
    parked: set[int] = set()

    def fail(job: Job) -> Exception | None:
        number = job.data["n"]
        if number < 3 and number not in parked:
            parked.add(number)
            return RateLimited(retry_after_s=0.1)
        return None

    runs = LaneRuns(fail=fail, held=True)
    async with worker_of(runs) as worker:
        settled = asyncio.ensure_future(worker.settled.wait_for(lambda flush: flush.parked == 3))
        await queue.add_bulk(laned("a", 3))
        await runs.until_began(3)
        await queue.lanes.limit("a", SEQUENCE)
        runs.let_go()
        await settled  # in one flush
        await queue.add_bulk(laned("a", 1, start=3))
        await runs.until_ended(4)
    assert runs.began["a"][3:] == [0, 1, 2, 3]


async def test_a_new_limit_does_not_wake_a_parked_lane(queue: Queue, worker_of: WorkerOf) -> None:
    parked = asyncio.Event()

    def fail(job: Job) -> Exception | None:
        if not parked.is_set():
            parked.set()
            return RateLimited(retry_after_s=0.3)
        return None

    runs = LaneRuns(fail=fail)
    await queue.lanes.limit("a", SEQUENCE)
    async with worker_of(runs) as worker:
        settled = asyncio.ensure_future(worker.settled.wait_for(lambda flush: flush.parked == 1))
        await queue.add_bulk(laned("a", 2))
        await settled
        await queue.lanes.limit("*", LaneLimit(concurrency=9))
        await queue.lanes.limit("a", LaneLimit(concurrency=9))
        await runs.until_ended(2)
    assert runs.times["a"][1] - runs.times["a"][0] >= 0.29


async def test_rate_limited_parks_a_job_without_a_lane_alone(queue: Queue, worker_of: WorkerOf) -> None:
    runs: list[tuple[str, int, float]] = []
    done = asyncio.Event()

    async def handle(job: Job) -> None:
        runs.append((job.name, job.attempt, time.monotonic()))
        if [run[0] for run in runs].count("limited") == 1 and job.name == "limited":
            raise RateLimited(retry_after_s=0.2)
        if job.name == "limited":
            done.set()

    async with worker_of(handle):
        await queue.add("limited", {}, attempts=1)
        await queue.add("other", {})
        await asyncio.wait_for(done.wait(), limit(20))
    assert [run[:2] for run in runs] == [("limited", 0), ("other", 0), ("limited", 0)]
    assert runs[2][2] - runs[0][2] >= 0.19


# --- ids, cancelling, removing -----------------------------------------------------------------------------------------


async def test_an_id_is_added_to_a_lane_once(queue: Queue, queue_of: QueueOf, worker_of: WorkerOf) -> None:
    for producer in (queue, queue_of()):
        job = await producer.add("job", {"lane": "a", "n": 0}, lane="a", job_id="invoice-7")
        assert job.id == "invoice-7"
    runs = LaneRuns()
    async with worker_of(runs):
        await runs.until_ended(1)
        await queue.add("job", {"lane": "a", "n": 1}, lane="a", job_id="invoice-7")
        await queue.add("job", {"lane": "a", "n": 2}, lane="a")
        await runs.until_ended(2)
    assert runs.began["a"] == [0, 2]


async def test_a_job_cancelled_in_its_lane_never_runs(queue: Queue, queue_of: QueueOf, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns(held=True)
    async with worker_of(runs):
        jobs = await queue.add_bulk(laned("a", 3))
        await runs.until_began(1)
        assert await queue_of().cancel(jobs[1].id)
        assert await queue.get_job_state(jobs[1].id) == "unknown"
        runs.let_go()
        await runs.until_ended(2)
    assert runs.began["a"] == [0, 2]


async def test_a_running_job_that_is_cancelled_frees_its_place(
    queue: Queue, queue_of: QueueOf, worker_of: WorkerOf
) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns(held=True)
    async with worker_of(runs):
        jobs = await queue.add_bulk(laned("a", 2))
        await runs.until_began(1)
        assert await queue_of().cancel(jobs[0].id)
        await runs.until_began(2)
        runs.let_go()
        await runs.until_ended(1)
    assert runs.ended["a"] == [1]


async def test_a_removed_job_frees_its_place(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    jobs = await queue.add_bulk(laned("a", 3))
    assert await queue.remove(jobs[0].id) == 1  # in the stream
    assert await queue.remove(jobs[1].id) == 1  # in the lane
    runs = LaneRuns()
    async with worker_of(runs):
        await runs.until_ended(1)
    assert runs.began["a"] == [2]


async def test_an_audit_frees_the_place_of_a_job_that_is_gone(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, group: Group
) -> None:
    """As after a worker of another library, which knows no lanes, has run it."""
    await queue.lanes.limit("a", SEQUENCE)
    await group.make()
    await queue.add_bulk(laned("a", 2))
    (entry_id,) = await group.die_with(1)
    await raw.xack(keys.stream, GROUP, entry_id)
    await raw.xdel(keys.stream, entry_id)
    runs = LaneRuns()
    async with worker_of(runs) as worker:
        await worker.lane_dispatcher.audit()
        await worker.lane_dispatcher.audit()
        await runs.until_ended(1)
    assert runs.began["a"] == [1]


async def test_an_audit_spares_what_is_delayed_waits_or_runs(queue: Queue, worker_of: WorkerOf) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns(held=True)
    async with worker_of(runs) as worker:
        await queue.add_bulk(laned("a", 3) + laned("b", 1, delay_ms=3_600_000))
        await runs.until_began(1)
        assert [await worker.lane_dispatcher.audit() for _ in range(3)] == [0, 0, 0]
        runs.let_go()
        await runs.until_ended(3)
    assert runs.most["a"] == 1
    await queue.drain()


# --- the queue around them ---------------------------------------------------------------------------------------------


async def test_jobs_in_lanes_count_towards_the_cap(queue_of: QueueOf) -> None:
    queue = queue_of(max_stream_len=5)
    await queue.lanes.limit("a", SEQUENCE)
    for number in range(5):
        await queue.add("job", {"n": number}, lane="a")
    with pytest.raises(QueueFull):
        await queue.add("job", {"n": 5}, lane="a")
    await queue.drain()
    await queue.add("job", {"n": 6}, lane="a")
    await queue.drain()


async def test_jobs_in_lanes_are_counted_and_listed_as_waiting(queue: Queue) -> None:
    await queue.lanes.limit("*", SEQUENCE)
    jobs = await queue.add_bulk(laned("a", 4) + laned("b", 3) + [{"name": "plain", "data": {}}])
    assert await queue.get_waiting_count() == 8
    stats = await queue.stats()
    assert (stats.stream, stats.laned, stats.waiting, stats.backlog) == (3, 5, 8, 8)
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(10):
        page = await queue.get_jobs_page("waiting", limit=2, cursor=cursor)
        seen += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(seen) == sorted(job.id for job in jobs)
    assert [job.id for job in await queue.get_jobs("waiting", offset=4, limit=2)] == seen[4:6]
    assert [job.id for job in await queue.get_jobs("waiting", offset=2, limit=3)] == seen[2:5]
    assert {await queue.get_job_state(job.id) for job in jobs} == {"waiting"}
    with pytest.raises(BadArgument, match="cursor="):
        await queue.get_jobs_page("waiting", cursor="lane:x:y")
    assert await queue.drain() == 8


@pytest.mark.parametrize(
    "names", [("a", "a:flying"), ("a:bucket", "a"), ("días ß/🏃", "a:limits"), ("sizes", ":later")]
)
async def test_a_lane_may_have_any_name(queue: Queue, worker_of: WorkerOf, names: tuple[str, str]) -> None:
    await queue.lanes.limit("*", LaneLimit(concurrency=1, rate=100, per_ms=1000))
    runs = LaneRuns()
    async with worker_of(runs):
        await queue.add_bulk([job for lane in names for job in laned(lane, 3)])
        await runs.until_ended(6)
    assert runs.began == {lane: [0, 1, 2] for lane in names}


async def test_nothing_is_left_when_all_is_done(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    await queue.lanes.limit("a", SEQUENCE)
    runs = LaneRuns(fail=lambda job: UnrecoverableError("no") if job.data["n"] == 2 else None)
    async with worker_of(runs) as worker:
        await queue.add_bulk(laned("a", 4) + laned("b", 3))
        await worker.until(done=5, dead=2)
    inner = [
        keys.notes,
        keys.lanes,
        keys.lanes_later,
        keys.lane_sizes,
        keys.lane("a"),
        keys.flying("a"),
        keys.lane("b"),
    ]
    assert [await raw.exists(key) for key in [*inner, keys.flying("b")]] == [0] * 8
