"""The traps that others fell into with Redis Streams, by their numbers: one test each."""

import asyncio
import time

import pytest

from relevo import Job, Queue, UnrecoverableError
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.servers.server import Client, Server
from tests.support.held import WARM_UP, HeldRuns
from tests.support.runs import Runs

IDLE_MS = 400
LONG_S = 3 * IDLE_MS / 1000


async def test_trap_01_a_settled_job_is_gone_from_the_stream_and_from_the_group(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    """XACK alone frees nothing."""

    def outcome(job: Job) -> Exception | None:
        return {"ok": None, "again": RuntimeError("again"), "never": UnrecoverableError("never")}[job.name]

    async with worker_of(Runs(fail=outcome)) as worker:
        for name in ("ok", "again", "never"):
            await queue.add(name, {}, backoff=60_000)
        await worker.until(done=1, retried=1, dead=1)
        assert (await group.length(), await group.pending()) == (0, [])


async def test_trap_02_more_abandoned_jobs_than_one_read_takes_all_come_back(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    await group.make()
    jobs = await queue.add_bulk([{"name": "job", "data": at} for at in range(120)])
    await group.die_with(120)
    runs = Runs()
    async with worker_of(runs, claim_min_idle_ms=200, read_count=7) as worker:
        await worker.until(done=120)
    assert sorted(runs.ids) == sorted(job.id for job in jobs)


async def test_trap_03_a_running_job_is_not_taken_over_by_a_second_worker(queue: Queue, worker_of: WorkerOf) -> None:
    held, other = HeldRuns(), Runs()
    idle_ms = 1000
    async with worker_of(held, claim_min_idle_ms=idle_ms) as worker:
        await queue.add("report", {})
        await held.until(1)
        async with worker_of(other, claim_min_idle_ms=idle_ms):
            since = time.monotonic()
            # Long enough for the second to ask for abandoned jobs after the idle limit, again and again.
            while time.monotonic() - since < 2 * idle_ms / 1000:
                await worker.leases.renewed.wait_for()
            held.let_go()
            await worker.until(done=1)
    assert other.jobs == []
    assert len(held.jobs) == 1


async def test_trap_04_prefetched_jobs_that_have_not_started_are_renewed_too(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=IDLE_MS, concurrency=1, read_count=4) as worker:
        _, unstarted = await held.prefetch(queue, worker, 6)
        since = time.monotonic()
        while time.monotonic() - since < LONG_S:
            await worker.leases.renewed.wait_for()
        pending = {each.entry_id: each for each in await group.pending()}
        for delivery in unstarted:
            entry = pending[delivery.entry_id]
            assert (entry.consumer, entry.deliveries) == (worker.consumer_id, 1)
            assert entry.idle_ms < IDLE_MS
        held.let_go()
        await worker.until(done=WARM_UP + 6)
    assert len(held.jobs) == 6


async def test_trap_05_the_settle_of_a_worker_that_lost_its_job_writes_nothing(
    queue: Queue, worker_of: WorkerOf, group: Group, raw: Client, keys: QueueKeys
) -> None:
    answers = {"ok": None, "again": RuntimeError("again"), "never": RuntimeError("never")}
    gate = asyncio.Event()
    began = Runs()

    async def handler(job: Job) -> str:
        await began(job)
        await gate.wait()
        if error := answers[job.name]:
            raise error
        return "an answer"

    # The idle limit is long: the other owner keeps its jobs, and ours are made doubtful by hand.
    async with worker_of(handler, store_results=True) as worker:
        jobs = [
            await queue.add("ok", {}),
            await queue.add("again", {}),
            await queue.add("never", {}, attempts=1),
        ]
        await began.until(3)
        for delivery in worker.held.values():
            delivery.leased_at -= worker.held.idle_s
        await group.take_over("c-other", list(worker.held))
        gate.set()
        total = await worker.until(lost=3)
        assert (total.done, total.retried, total.dead) == (0, 0, 0)
        assert [entry.consumer for entry in await group.pending()] == ["c-other"] * 3
        assert await raw.exists(keys.result(jobs[0].id)) == 0
        assert await raw.zcard(keys.delayed) == 0
        assert await raw.xlen(keys.dead) == 0


async def test_trap_06_a_dead_leaders_lock_goes_away_by_itself(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys, group: Group
) -> None:
    """A recovery lock without a TTL stops recovery for ever."""
    await group.make()
    await raw.set(keys.promoter_lock, "c-dead", px=700)
    await raw.set(keys.stalled_lock, "sd-dead", px=700)
    await queue.add("later", {}, delay_ms=1)
    async with worker_of(Runs(), claim_min_idle_ms=IDLE_MS) as worker:
        await worker.until(done=1)
        while not worker.stalled_detector.leads:
            await worker.stalled_detector.scanned.wait_for()
        for lock in (keys.promoter_lock, keys.stalled_lock):
            assert 0 < await raw.pttl(lock) <= 90_000


async def test_trap_07_one_bad_member_does_not_promote_the_earlier_ones_again(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    """The bad one cannot even be written to the dead letters here: each try ends at it, with an error."""
    await raw.set(keys.dead, "no stream")
    good = [DelayedMember("job", Envelope(each, b"\xc0", 1).encode()).encode() for each in ("first", "last")]
    await raw.zadd(keys.delayed, {good[0]: 1, b"bad": 2, good[1]: 3})
    runs = Runs()
    async with worker_of(runs) as worker:
        await runs.until(1)
        for _ in range(3):
            await worker.promoter.failed.wait_for()
        assert runs.ids == ["first"]
        await raw.delete(keys.dead)
        await worker.until(done=2)
    assert runs.ids == ["first", "last"]


@pytest.mark.parametrize("lane", ["redis86", "redis7", "valkey"], indirect=True)
async def test_trap_08_renewal_ships_no_bodies(queue: Queue, worker_of: WorkerOf, server: Server) -> None:
    def sent() -> int:
        stats: bytes = server.call("INFO", "stats")
        return int(stats.partition(b"total_net_output_bytes:")[2].split(b"\r\n")[0])

    held = HeldRuns()
    async with worker_of(held, claim_min_idle_ms=IDLE_MS) as worker:
        await queue.add("large", "x" * 500_000)
        await held.until(1)
        before = sent()
        for _ in range(4):
            await worker.leases.renewed.wait_for(lambda renewal: renewal.kept == 1)
        assert sent() - before < 500_000
        held.let_go()
        await worker.until(done=1)


@pytest.mark.parametrize("lane", ["cluster"], indirect=True)
async def test_trap_09_a_cluster_recovers_the_jobs_of_the_dead(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    await group.make()
    jobs = await queue.add_bulk([{"name": "job", "data": at} for at in range(3)])
    await group.die_with(3)
    runs = Runs()
    async with worker_of(runs, claim_min_idle_ms=IDLE_MS) as worker:
        await worker.until(done=3)
    assert sorted(runs.ids) == sorted(job.id for job in jobs)


async def test_trap_10_a_worker_under_a_dead_workers_name_does_not_hide_its_death(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    """The dead worker's jobs must still come back, and count as a death."""
    await group.make()
    job = await queue.add("job", {})
    await group.die_with(1, consumer="pod-1")
    runs = Runs()
    async with (
        queue.events(last_event_id="0") as events,
        worker_of(runs, claim_min_idle_ms=IDLE_MS, consumer_id="pod-1") as worker,
    ):
        await worker.until(done=1)
        async for event in events:
            if event.name in ("stalled", "completed"):
                assert event.name == "stalled"
                break
    assert runs.ids == [job.id]


async def test_trap_11_a_backlog_is_seen_without_a_single_worker(queue: Queue, worker_of: WorkerOf) -> None:
    """Scaling on what is pending never fires: without workers nothing is ever pending."""
    await queue.add_bulk([{"name": "job", "data": at} for at in range(7)])
    counts = await queue.get_job_counts("waiting", "active")
    assert counts == {"waiting": 7, "active": 0}
    held = HeldRuns()
    async with worker_of(held, concurrency=2) as worker:
        await held.until(2)
        assert await queue.get_job_counts("waiting", "active") == {"waiting": 5, "active": 2}
        held.let_go()
        await worker.until(done=7)
