"""Frames: many jobs in one entry. Each job has its own outcome, and the entry is settled once, with all of them."""

import asyncio
import gc
from typing import Any

import pytest

from relevo import Job, Queue, UnrecoverableError
from relevo.engine.settling.delivery import Frame
from relevo.errors import BadArgument, PayloadTooLarge, RateLimited
from relevo.wire.envelope import Envelope
from relevo.wire.frame import decode_frame, encode_frame
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.group import Group
from tests.conformance.test_limits import Crowd
from tests.servers.server import Client
from tests.support.held import HeldRuns
from tests.support.runs import Runs
from tests.support.watched import kept_idle_ms


def some(count: int, **options: Any) -> list[dict[str, Any]]:
    return [{"name": "job", "data": at, **options} for at in range(count)]


def failing(job: Job) -> Exception | None:
    """What the jobs of these tests are named after."""
    errors = {
        "again": RuntimeError("again"),
        "never": UnrecoverableError("never"),
        "later": RateLimited(retry_after_s=60),
    }
    return errors.get(job.name) if job.attempt == 0 else None


def alive(kind: type) -> int:
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


# --- adding ----------------------------------------------------------------------------------------------------------------


async def test_jobs_of_a_bulk_share_entries(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    jobs = await queue.add_bulk(some(25), frame=10)
    entries = await raw.xrange(keys.stream)
    frames = [decode_frame(fields[b"d"]) for _, fields in entries]
    assert [len(frame) for frame in frames] == [10, 10, 5]
    assert [each.envelope.id for frame in frames for each in frame] == [job.id for job in jobs]


async def test_a_job_that_would_be_alone_in_its_frame_is_an_ordinary_entry(
    queue: Queue, raw: Client, keys: QueueKeys
) -> None:
    (job,) = await queue.add_bulk(some(1), frame=10)
    ((_, fields),) = await raw.xrange(keys.stream)
    assert (Envelope.decode(fields[b"d"]).id, fields[b"n"]) == (job.id, b"job")


async def test_a_frame_is_never_larger_than_a_job_may_be(queue_of: QueueOf, raw: Client, keys: QueueKeys) -> None:
    queue = queue_of(max_payload_bytes=1000)
    await queue.add_bulk([{"name": "job", "data": b"x" * 300} for _ in range(7)], frame=100)
    sizes = [len(fields[b"d"]) for _, fields in await raw.xrange(keys.stream)]
    assert len(sizes) == 4
    assert max(sizes) <= 1000


async def test_a_job_too_large_for_an_entry_is_too_large_for_a_frame(queue_of: QueueOf, group: Group) -> None:
    queue = queue_of(max_payload_bytes=1000)
    with pytest.raises(PayloadTooLarge):
        await queue.add_bulk([*some(3), {"name": "job", "data": b"x" * 1001}], frame=10)
    assert await group.length() == 0


@pytest.mark.parametrize(
    "options", [{"delay_ms": 10}, {"job_id": "mine"}, {"lane": "tenant"}], ids=lambda options: next(iter(options))
)
async def test_what_needs_more_than_a_place_in_line_is_refused(
    queue: Queue, group: Group, options: dict[str, Any]
) -> None:
    with pytest.raises(BadArgument, match=r"jobs\[2\]"):
        await queue.add_bulk([*some(2), {"name": "job", "data": 2, **options}], frame=10)
    assert await group.length() == 0


@pytest.mark.parametrize("size", [0, 1001])
async def test_a_frame_has_from_one_to_a_thousand_jobs(queue: Queue, size: int) -> None:
    with pytest.raises(BadArgument, match="frame"):
        await queue.add_bulk(some(2), frame=size)


# --- running ---------------------------------------------------------------------------------------------------------------


async def test_every_job_of_a_frame_runs_once_and_nothing_is_left(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        jobs = await queue.add_bulk([*some(120), {"name": "other", "data": "last"}], frame=50)
        await worker.until(done=121)
        assert (await group.length(), await group.pending()) == (0, [])
        assert worker.held == {}
    assert sorted(runs.ids) == sorted(job.id for job in jobs)
    assert (runs.jobs[0].name, runs.jobs[0].data, runs.jobs[0].attempt) == ("job", 0, 0)
    assert [job.name for job in runs.jobs if job.data == "last"] == ["other"]


async def test_jobs_of_a_frame_run_at_the_same_time(queue: Queue, worker_of: WorkerOf) -> None:
    held = HeldRuns()
    async with worker_of(held, concurrency=10):
        await queue.add_bulk(some(10), frame=10)
        await held.until(10)
        held.let_go()


async def test_results_of_framed_jobs_are_kept(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs(lambda job: job.data * 2), store_results=True) as worker:
        jobs = await queue.add_bulk(some(20), frame=10)
        await worker.until(done=20)
        assert await queue.get_job_result_bulk([job.id for job in jobs]) == [2 * at for at in range(20)]


async def test_the_override_of_a_framed_job_is_heard(queue: Queue, worker_of: WorkerOf) -> None:
    always = Runs(fail=lambda _: RuntimeError("always"))
    async with worker_of(always) as worker:
        await queue.add_bulk(some(4, attempts=2, backoff=1), frame=4)
        await worker.until(retried=4, dead=4)
    assert set(always.by_id.values()) == {2}


async def test_each_job_of_a_frame_has_its_own_outcome(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, group: Group
) -> None:
    names = ("ok", "again", "never", "later")
    async with worker_of(Runs(fail=failing), delayed_enabled=False) as worker:
        jobs = await queue.add_bulk([{"name": name, "data": {}} for name in names], frame=4)
        total = await worker.until(done=1, retried=1, dead=1)
        assert (total.done, total.retried, total.dead) == (1, 1, 1)
    assert await raw.zcard(keys.delayed) == 2
    (letter,) = await queue.peek_dlq()
    assert (letter["name"], letter["reason"]) == ("never", "unrecoverable")
    assert (await group.length(), await group.pending()) == (0, [])
    assert {job.name for job in jobs} == set(names)


async def test_frames_that_were_settled_are_forgotten(queue: Queue, worker_of: WorkerOf) -> None:
    handler = Runs(
        lambda job: job.data, fail=failing
    )  # none that fails: the log of a test keeps tracebacks, and they the jobs
    async with worker_of(handler, concurrency=1, store_results=True, delayed_enabled=False) as worker:
        before = alive(Frame)  # of earlier tests, by what they logged
        await queue.add_bulk([{"name": name, "data": 1} for name in ("ok", "later") * 50], frame=5)
        await worker.until(done=50)
        assert alive(Frame) <= before + 1, "but for the one of the job that the slot ran last"


async def test_a_retry_leaves_its_frame_and_the_others_do_not_run_again(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs(fail=lambda job: RuntimeError("once") if job.data == 3 and job.attempt == 0 else None)
    async with worker_of(runs) as worker:
        jobs = await queue.add_bulk(some(10, backoff=1), frame=10)
        await worker.until(done=10, retried=1)
    assert runs.by_id == {job.id: 2 if job.data == 3 else 1 for job in jobs}


async def test_a_dead_letter_of_a_frame_is_replayed_alone(queue: Queue, worker_of: WorkerOf) -> None:
    dead, alive = Runs(fail=failing), Runs()
    async with worker_of(dead) as worker:
        await queue.add_bulk([*some(5), {"name": "never", "data": "x"}], frame=6)
        await worker.until(done=5, dead=1)
    assert await queue.replay_dlq(10) == 1
    async with worker_of(alive) as worker:
        await worker.until(done=1)
    assert [(job.name, job.data) for job in alive.jobs] == [("never", "x")]


async def test_nothing_is_settled_before_the_last_job_of_a_frame_has_ended(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, group: Group
) -> None:
    gate, began = asyncio.Event(), Runs(fail=failing)

    async def handler(job: Job) -> None:
        await began(job)
        await gate.wait()

    async with worker_of(handler) as worker:
        await queue.add_bulk([{"name": "again", "data": {}}, {"name": "never", "data": {}}, *some(1)], frame=3)
        await began.until(3)
        assert len(await group.pending()) == 1
        assert (await raw.zcard(keys.delayed), await raw.xlen(keys.dead)) == (0, 0)
        gate.set()
        await worker.until(done=1, retried=1, dead=1)


async def test_who_hears_completed_finds_the_frame_gone_and_the_result_there(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    async with queue.events() as events, worker_of(Runs(lambda job: job.data), store_results=True):
        jobs = await queue.add_bulk(some(3), frame=3)
        async for event in events:
            if event.name == "completed":
                assert await group.length() == 0
                assert await queue.get_job_result(jobs[2].id) == 2
                break


# --- leases, crashes and leaving ---------------------------------------------------------------------------------------------


async def test_a_worker_that_lost_a_frame_writes_nothing_for_any_of_its_jobs(
    queue: Queue, worker_of: WorkerOf, group: Group, raw: Client, keys: QueueKeys
) -> None:
    gate, began = asyncio.Event(), Runs()

    async def handler(job: Job) -> str:
        await began(job)
        await gate.wait()
        if error := failing(job):
            raise error
        return "an answer"

    async with worker_of(handler, store_results=True) as worker:
        jobs = await queue.add_bulk([{"name": name, "data": {}} for name in ("ok", "again", "never")], frame=3)
        await began.until(3)
        (entry,) = worker.held.values()
        entry.leased_at -= worker.held.idle_s
        await group.take_over("c-other", [entry.entry_id])
        gate.set()
        total = await worker.until(lost=1)
        assert (total.done, total.retried, total.dead) == (0, 0, 0)
        assert [each.consumer for each in await group.pending()] == ["c-other"]
        assert await raw.exists(keys.result(jobs[0].id)) == 0
        assert (await raw.zcard(keys.delayed), await raw.xlen(keys.dead)) == (0, 0)


async def test_a_frame_longer_than_the_idle_limit_runs_once(queue: Queue, worker_of: WorkerOf) -> None:
    held, other, idle_ms = HeldRuns(), Runs(), kept_idle_ms()
    async with worker_of(held, claim_min_idle_ms=idle_ms) as first:
        await queue.add_bulk(some(5), frame=5)
        await held.until(5)
        async with worker_of(other, claim_min_idle_ms=idle_ms):
            await first.outlast_the_idle_limit()
            held.let_go()
            await first.until(done=5)
    assert other.ids == []


async def test_the_frame_of_a_dead_worker_is_taken_apart_so_that_each_job_is_counted_alone(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    await group.make()
    jobs = await queue.add_bulk(some(5), frame=5)
    await group.die_with(1)
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=200, max_stalled_attempts=1) as worker:
        await held.until(5)
        assert len(await group.pending()) == 5
        held.let_go()
        await worker.until(done=5)
    assert held.by_id == {job.id: 1 for job in jobs}


async def test_a_frame_of_which_nothing_has_begun_is_handed_back_as_it_came(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held, other = HeldRuns(), Runs()
    jobs = await queue.add_bulk(some(6), frame=2)
    # Its first read asks for an entry a slot: the jobs of the first frame take both slots, and the second frame waits.
    async with worker_of(held, concurrency=2) as first:
        await held.until(2)
        assert len(first.held) == 2
        asyncio.get_running_loop().call_later(0.1, held.let_go)
    assert await group.length() == 2
    async with worker_of(other) as second:
        await second.until(done=4)
    assert sorted(held.ended) == sorted(job.id for job in jobs[:2])
    assert sorted(other.ids) == sorted(job.id for job in jobs[2:])


async def test_what_has_not_begun_leaves_its_frame_when_the_worker_leaves_and_the_rest_is_not_run_again(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held, other = HeldRuns(), Runs()
    async with worker_of(held, concurrency=2) as first:
        jobs = await queue.add_bulk(some(6), frame=6)
        await held.until(2)
        first.close()
        asyncio.get_running_loop().call_later(0.1, held.let_go)
    assert (await group.length(), await group.pending()) == (4, [])
    async with worker_of(other) as second:
        await second.until(done=4)
    assert sorted([*held.ended, *other.ids]) == sorted(job.id for job in jobs)


async def test_what_was_cut_short_leaves_its_frame_too(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    held, other = HeldRuns(), Runs()
    async with worker_of(held, concurrency=2, shutdown_deadline_s=0):
        jobs = await queue.add_bulk(some(4), frame=4)
        await held.until(2)
    assert (await group.length(), await group.pending()) == (4, [])
    async with worker_of(other) as second:
        await second.until(done=4)
    assert (len(held.cut), sorted(other.ids)) == (2, sorted(job.id for job in jobs))


async def test_a_worker_with_limits_takes_frames_apart(queue: Queue, worker_of: WorkerOf) -> None:
    crowd = Crowd()
    async with worker_of(crowd, max_running=3) as worker:
        await queue.add_bulk(some(30), frame=10)
        for left in range(30):
            await crowd.until(min(left + 3, 30))
            crowd.leave.release()
        await worker.until(done=30)
    assert (len(crowd.starts), crowd.most) == (30, 3)


# --- what is no frame ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["cut off", "empty"])
async def test_a_frame_that_cannot_be_read_is_dead_with_its_bytes_and_stops_nobody(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, broken: str
) -> None:
    data = encode_frame([]) if broken == "empty" else encode_frame([(b"\x90", b"job"), (b"\x90", b"job")])[:-1]
    await raw.xadd(keys.stream, {"d": data})
    runs = Runs()
    async with worker_of(runs) as worker:
        await queue.add("job", {})
        await worker.until(done=1, dead=1)
    (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["payload"]) == ("decode_failed", data)
