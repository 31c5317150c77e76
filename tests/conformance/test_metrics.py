"""Metrics that Prometheus can read, of real workers on every server. See docs/how-to/observe.md."""

import asyncio
import time
from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from relevo import BackoffSpec, Job, Metrics, Queue, RateLimited, RepeatPattern, Scheduler, UnrecoverableError
from relevo.metrics.backlog_watch import BacklogWatch
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.exposition import Exposition
from tests.pace import limit
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs
from tests.support.watched import WatchedWorker

CHASQUIMQ = {
    "chasquimq_promoter_promoted": "counter",
    "chasquimq_delayed_zset_depth": "gauge",
    "chasquimq_promoter_oldest_pending_lag_ms": "gauge",
    "chasquimq_promoter_lock_acquired": "counter",
    "chasquimq_promoter_lock_lost": "counter",
    "chasquimq_consumer_batch_size": "histogram",
    "chasquimq_consumer_reclaimed": "counter",
    "chasquimq_jobs_completed": "counter",
    "chasquimq_jobs_failed": "counter",
    "chasquimq_handler_duration_seconds": "histogram",
    "chasquimq_retries_scheduled": "counter",
    "chasquimq_retry_backoff_seconds": "histogram",
    "chasquimq_dlq_routed": "counter",
    "chasquimq_rate_limited": "counter",
    "chasquimq_rate_limit_wait_seconds": "histogram",
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(backlog_every_s=0.05)


def backlog_watch(worker: WatchedWorker) -> BacklogWatch:
    return next(duty for duty in worker.duties if isinstance(duty, BacklogWatch))


async def test_defect_15_metrics_can_be_reached_from_python(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    """ChasquiMQ's defect 15: its metrics end in Rust."""
    async with worker_of(Runs()) as worker:
        metrics.watch(worker)
        await queue.add("job", 1)
        await worker.until(done=1)
        seen = Exposition.of(metrics)
    assert seen.value("chasquimq_jobs_completed_total", queue=queue_name, name="job") == 1


def test_chasquimqs_names_are_kept_with_their_types(metrics: Metrics) -> None:
    types = Exposition.of(metrics).types
    assert {name: types.get(name) for name in CHASQUIMQ} == CHASQUIMQ


async def test_a_run_is_counted_and_timed_under_its_name(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    async with worker_of(Runs()) as worker:
        metrics.watch(worker)
        await queue.add_bulk([{"name": name, "data": 1} for name in ("a", "a", "b")])
        await worker.until(done=3)
        seen = Exposition.of(metrics)
    for name, count in (("a", 2), ("b", 1)):
        labels = {"queue": queue_name, "name": name}
        assert seen.value("chasquimq_jobs_completed_total", **labels) == count
        assert seen.value("chasquimq_handler_duration_seconds_count", **labels) == count
        assert seen.value("relevo_job_wait_seconds_count", **labels) == count
    assert (seen.value("chasquimq_consumer_batch_size_sum", queue=queue_name) or 0) >= 3


async def test_failures_retries_and_dead_letters_are_counted_once_redis_has_them(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    async with worker_of(Runs(fail=lambda _: ValueError("no"))) as worker:
        metrics.watch(worker)
        await queue.add("job", 1, attempts=3, backoff=BackoffSpec.fixed(20))
        await worker.until(retried=2, dead=1)
        seen = Exposition.of(metrics)
    labels = {"queue": queue_name, "name": "job"}
    assert seen.value("chasquimq_jobs_failed_total", kind="error", **labels) == 3
    assert seen.value("chasquimq_retries_scheduled_total", **labels) == 2
    assert seen.value("chasquimq_retry_backoff_seconds_count", queue=queue_name) == 2
    assert seen.value("chasquimq_dlq_routed_total", reason="retries_exhausted", **labels) == 1
    assert seen.value("relevo_job_wait_seconds_count", **labels) == 1  # the first start, not every one
    assert seen.value("chasquimq_promoter_promoted_total", queue=queue_name) == 2


async def test_what_cannot_be_retried_is_a_dead_letter_with_its_reason(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    async with worker_of(Runs(fail=lambda _: UnrecoverableError("never"))) as worker:
        metrics.watch(worker)
        await queue.add("job", 1)
        await worker.until(dead=1)
        seen = Exposition.of(metrics)
    assert seen.labels("chasquimq_dlq_routed_total", "reason") == {"unrecoverable"}


async def test_parked_and_cancelled_runs_are_neither_failed_nor_completed(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    started = asyncio.Event()

    async def handle(job: Job) -> None:
        if job.name == "parked":
            raise RateLimited(retry_after_s=600)
        started.set()
        await asyncio.Event().wait()

    async with worker_of(handle) as worker:
        metrics.watch(worker)
        await queue.add("parked", 1, job_id="later")
        running = await queue.add("stopped", 1)
        await asyncio.wait_for(started.wait(), limit(20))
        await queue.cancel(running.id)
        await worker.until(done=1)
        seen = Exposition.of(metrics)
    assert seen.value("relevo_jobs_parked_total", queue=queue_name, name="parked") == 1
    assert seen.value("relevo_jobs_cancelled_total", queue=queue_name, name="stopped") == 1
    assert seen.value("chasquimq_jobs_completed_total", queue=queue_name, name="stopped") == 0
    await queue.drain()


async def test_what_is_taken_over_from_a_dead_worker_is_counted(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics, raw: Client, keys: QueueKeys
) -> None:
    await queue.add("job", 1)
    await raw.xgroup_create(keys.stream, "default", id="0")
    await raw.xreadgroup("default", "dead", {keys.stream: ">"}, count=1)
    async with worker_of(Runs(), claim_min_idle_ms=200) as worker:
        metrics.watch(worker)
        await worker.until(done=1)
        seen = Exposition.of(metrics)
    assert seen.value("chasquimq_consumer_reclaimed_total", queue=queue_name) == 1


async def test_leases_that_are_renewed_and_lost_are_counted(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics, raw: Client, keys: QueueKeys
) -> None:
    runs = HeldRuns()
    async with worker_of(runs, claim_min_idle_ms=600, concurrency=1) as worker:
        metrics.watch(worker)
        await queue.add("job", 1)
        await runs.until(1)
        await worker.leases.renewed.wait_for(lambda renewal: renewal.kept == 1, timeout=limit(20))
        (entry,) = await raw.xpending_range(keys.stream, "default", "-", "+", 10)
        await raw.xclaim(keys.stream, "default", "thief", 0, [entry["message_id"]])
        await worker.leases.renewed.wait_for(lambda renewal: renewal.lost == 1, timeout=limit(20))
        seen = Exposition.of(metrics)
        runs.let_go()
    assert (seen.value("relevo_leases_renewed_total", queue=queue_name) or 0) >= 1
    assert seen.value("relevo_leases_lost_total", queue=queue_name) == 1
    await queue.obliterate(force=True)


async def test_names_beyond_the_limit_are_counted_as_other(queue: Queue, worker_of: WorkerOf, queue_name: str) -> None:
    metrics = Metrics(name_limit=2)
    async with worker_of(Runs()) as worker:
        metrics.watch(worker)
        await queue.add_bulk([{"name": f"order-{number}", "data": 1} for number in range(10)])
        await worker.until(done=10)
        seen = Exposition.of(metrics)
    assert seen.labels("chasquimq_jobs_completed_total", "name") == {"order-0", "order-1", "other"}
    assert seen.value("chasquimq_jobs_completed_total", queue=queue_name, name="other") == 8


async def test_the_backlog_is_shown_also_by_a_process_that_works_for_nobody(
    queue: Queue, queue_name: str, metrics: Metrics
) -> None:
    """A queue scaled down to nothing has no worker that could tell."""
    await queue.add_bulk([{"name": "job", "data": number} for number in range(7)])
    watch = metrics.watch_queue(queue)
    await watch.tick()
    before = Exposition.of(metrics).value("relevo_queue_backlog", queue=queue_name)
    await queue.drain()
    await watch.tick()
    after = Exposition.of(metrics).value("relevo_queue_backlog", queue=queue_name)
    assert (before, after) == (7, 0)


async def test_the_age_of_the_oldest_job_that_nobody_has_begun_is_shown(
    queue: Queue, queue_name: str, metrics: Metrics, raw: Client, keys: QueueKeys
) -> None:
    minute_ago_ms = time.time_ns() // 1_000_000 - 60_000
    await raw.xadd(keys.stream, {"d": b"", "n": b"job"}, id=f"{minute_ago_ms}-0")
    await queue.add("job", 1)
    await metrics.watch_queue(queue).tick()
    age = Exposition.of(metrics).value("relevo_queue_oldest_waiting_seconds", queue=queue_name)
    assert age is not None
    assert 60 <= age < 120
    await queue.obliterate()


async def test_the_time_to_drain_is_the_backlog_over_what_the_fleet_gets_done(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    runs = HeldRuns()
    async with worker_of(runs, concurrency=1) as worker:  # not watched: it stands for the rest of the fleet
        watch = metrics.watch_queue(queue)
        await queue.add("first", 1)
        await runs.until(1)
        await watch.tick()
        await queue.add_bulk([{"name": "job", "data": number} for number in range(5)])
        await watch.tick()
        stuck = Exposition.of(metrics).value("relevo_queue_time_to_drain_seconds", queue=queue_name)
        runs.let_go()
        await worker.until(done=6)
        await watch.tick()
        drained = Exposition.of(metrics).value("relevo_queue_time_to_drain_seconds", queue=queue_name)
        worker.pause()
        await worker.pausing.changed.wait_for(lambda paused: paused, timeout=limit(20))
        await queue.add_bulk([{"name": "job", "data": number} for number in range(5)])
        await watch.tick()
        waiting = Exposition.of(metrics).value("relevo_queue_time_to_drain_seconds", queue=queue_name)
    assert (stuck, drained) == (float("inf"), 0)
    assert waiting is not None
    assert 0 < waiting < float("inf")
    assert await queue.drain() == 5


async def test_a_watched_worker_looks_at_its_queue_and_takes_its_numbers_with_it(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    async with worker_of(Runs()) as worker:
        metrics.watch(worker)
        await queue.add("job", 1)
        await worker.until(done=1)  # an older server knows a consumer from its first entry on
        await backlog_watch(worker).looked.wait_for(lambda seen: seen.consumers == 1, timeout=limit(20))
        during = Exposition.of(metrics)
    assert during.value("relevo_queue_consumers", queue=queue_name) == 1
    assert during.value("relevo_can_claim", queue=queue_name) == 1
    after = Exposition.of(metrics)
    assert after.value("relevo_queue_consumers", queue=queue_name) is None
    assert after.value("relevo_can_claim", queue=queue_name) == 0


async def test_a_worker_no_longer_watched_is_no_longer_counted(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    async with worker_of(Runs()) as worker:
        stop = metrics.watch(worker)
        await queue.add("job", 1)
        await worker.until(done=1)
        stop()
        await queue.add("job", 2)
        await worker.until(done=2)
        seen = Exposition.of(metrics)
        assert not worker.policy.outcomes.listened
    assert seen.value("chasquimq_jobs_completed_total", queue=queue_name, name="job") == 1
    assert seen.value("relevo_jobs_running", queue=queue_name) is None


async def test_the_limits_of_a_queue_are_seen_at_work(
    queue: Queue, worker_of: WorkerOf, queue_name: str, metrics: Metrics
) -> None:
    async with worker_of(Runs(), rate_limit_max=1, rate_limit_duration_ms=100) as worker:
        metrics.watch(worker)
        await queue.add_bulk([{"name": "job", "data": number} for number in range(3)])
        await worker.until(done=3)
        seen = Exposition.of(metrics)
    limited = seen.value("chasquimq_rate_limited_total", queue=queue_name)
    assert limited is not None
    assert limited >= 1
    assert seen.value("chasquimq_rate_limit_wait_seconds_count", queue=queue_name) == limited


async def test_the_fires_of_a_scheduler_in_a_process_of_its_own_are_counted(
    server: Server, queue: Queue, queue_name: str, metrics: Metrics
) -> None:
    scheduler = Scheduler(server.url, queue_name, tick_interval_ms=20)
    metrics.watch(scheduler)
    await queue.upsert_repeatable_job("tick", {}, repeat=RepeatPattern.every(50), limit=1, key="once")
    async with scheduler:
        await scheduler.fired.wait_for(lambda tick: tick.fired == 1, timeout=limit(20))
        seen = Exposition.of(metrics)
    assert seen.value("relevo_schedule_fires_total", queue=queue_name) == 1
    assert seen.value("relevo_leader", queue=queue_name, duty="scheduler") == 1
    await queue.obliterate(force=True)


async def test_metrics_can_join_what_a_program_shows_already(metrics: Metrics) -> None:
    registry = CollectorRegistry()
    registry.register(metrics)
    families: Iterable[Metric] = registry.collect()
    assert {family.name for family in families} >= set(CHASQUIMQ)


def test_every_metric_stands_in_the_page_about_observing(metrics: Metrics, pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "docs/how-to/observe.md").read_text()
    assert [each.name for each in metrics.instruments if f"`{each.name}" not in page] == []
