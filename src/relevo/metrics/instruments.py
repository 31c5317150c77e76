"""What is measured, and its name: ChasquiMQ's where it has one, so that its dashboards go on, `relevo_*` for the rest.

Plain numbers, written by the event loop alone: what prometheus_client's own counters cost (a lock and a look-up for each number
of each job) would be felt. They are turned into its families when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LONG_SECONDS = (*SECONDS, 1800.0, 7200.0, 86400.0)
ENTRIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


class Value:
    """One number."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0.0

    def add(self, amount: float = 1.0) -> None:
        self.value += amount


class Distribution:
    """How often values were at most each of `bounds`.

    >>> waits = Distribution((0.1, 1.0))
    >>> for seconds in (0.05, 0.1, 0.7, 30.0):
    ...     waits.observe(seconds)
    >>> waits.cumulative()
    [('0.1', 2), ('1.0', 3), ('+Inf', 4)]
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: tuple[float, ...] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total: float = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        count, steps = 0, list[tuple[str, float]]()
        for bound, here in zip((*map(str, self.bounds), "+Inf"), tuple(self.counts), strict=True):
            count += here
            steps.append((bound, count))
        return steps


class Instrument:
    """One name with its labels. Children are kept for good: whoever has one need not look it up again."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.name = name
        self.about = about
        self.labels: tuple[str, ...] = ("queue", *labels)

    def family(self) -> Metric:
        raise AssertionError("every kind makes its own")


class Numbers(Instrument):
    """One number for each set of labels."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        super().__init__(name, about, *labels)
        self.children: dict[Labels, Value] = {}

    def child(self, *labels: str) -> Value:
        return self.children.setdefault(labels, Value())


class Counter(Numbers):
    """Only grows; shown with `_total` behind its name."""

    def family(self) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(self.name, self.about, labels=self.labels)
        for labels, child in list(self.children.items()):
            family.add_metric(labels, child.value)
        return family


class Gauge(Numbers):
    """Goes up and down; a child without a value is not shown."""

    def set(self, value: float | None, *labels: str) -> None:
        if value is None:
            self.children.pop(labels, None)
        else:
            self.child(*labels).value = value

    def family(self) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(self.name, self.about, labels=self.labels)
        for labels, child in list(self.children.items()):
            family.add_metric(labels, child.value)
        return family


class Histogram(Instrument):
    """How values are spread."""

    def __init__(self, name: str, about: str, *labels: str, bounds: tuple[float, ...]) -> None:
        super().__init__(name, about, *labels)
        self.bounds = bounds
        self.children: dict[Labels, Distribution] = {}

    def child(self, *labels: str) -> Distribution:
        return self.children.setdefault(labels, Distribution(self.bounds))

    def family(self) -> Metric:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(self.name, self.about, labels=self.labels)
        for labels, child in list(self.children.items()):
            family.add_metric(labels, buckets=child.cumulative(), sum_value=child.total)  # pyright: ignore[reportArgumentType]
        return family


class Instruments:
    """All of them. The first half is ChasquiMQ's, with its names, units and labels."""

    def __init__(self) -> None:
        self.promoted: Counter = Counter("chasquimq_promoter_promoted", "Delayed jobs moved into the stream.")
        self.delayed_depth: Gauge = Gauge(
            "chasquimq_delayed_zset_depth", "Delayed jobs, as the promoter last saw them."
        )
        self.promoter_lag: Gauge = Gauge(
            "chasquimq_promoter_oldest_pending_lag_ms", "How late the oldest due delayed job was."
        )
        self.lock_acquired: Counter = Counter(
            "chasquimq_promoter_lock_acquired", "Times this process began to lead the promoters."
        )
        self.lock_lost: Counter = Counter(
            "chasquimq_promoter_lock_lost", "Times this process ceased to lead the promoters."
        )
        self.batch_size: Histogram = Histogram("chasquimq_consumer_batch_size", "Entries in one read.", bounds=ENTRIES)
        self.reclaimed: Counter = Counter("chasquimq_consumer_reclaimed", "Entries taken over from workers that died.")
        self.completed: Counter = Counter("chasquimq_jobs_completed", "Runs that went well.", "name")
        self.failed: Counter = Counter("chasquimq_jobs_failed", "Runs whose handler raised.", "kind", "name")
        self.handler_seconds: Histogram = Histogram(
            "chasquimq_handler_duration_seconds", "How long handlers ran.", "name", bounds=SECONDS
        )
        self.retries: Counter = Counter("chasquimq_retries_scheduled", "Failed runs that will be tried again.", "name")
        self.backoff_seconds: Histogram = Histogram(
            "chasquimq_retry_backoff_seconds", "How long retries wait.", bounds=LONG_SECONDS
        )
        self.dead_letters: Counter = Counter("chasquimq_dlq_routed", "Jobs sent to the dead letters.", "reason", "name")
        self.rate_limited: Counter = Counter(
            "chasquimq_rate_limited", "Times the queue's limits gave no leave to start."
        )
        self.rate_limit_seconds: Histogram = Histogram(
            "chasquimq_rate_limit_wait_seconds", "How long the queue's limits said to wait.", bounds=SECONDS
        )

        self.wait_seconds: Histogram = Histogram(
            "relevo_job_wait_seconds", "From the add to the first start, delays included.", "name", bounds=LONG_SECONDS
        )
        self.parked: Counter = Counter("relevo_jobs_parked", "Runs that asked to be tried later (RateLimited).", "name")
        self.cancelled: Counter = Counter("relevo_jobs_cancelled", "Jobs cancelled before or while they ran.", "name")
        self.settles_lost: Counter = Counter(
            "relevo_settles_lost", "Outcomes not written, since another worker had the job."
        )
        self.leases_renewed: Counter = Counter("relevo_leases_renewed", "Leases kept, one for each held job and round.")
        self.leases_lost: Counter = Counter("relevo_leases_lost", "Held jobs found to be another worker's.")
        self.consumers_swept: Counter = Counter("relevo_consumers_swept", "Consumers removed that nobody ran.")
        self.fires: Counter = Counter("relevo_schedule_fires", "Jobs made by schedules.")
        self.dispatched: Counter = Counter("relevo_lane_dispatches", "Jobs let out of their lane by the lane keeper.")
        self.places_freed: Counter = Counter("relevo_lane_places_freed", "Places freed of jobs that were gone.")
        self.duty_failures: Counter = Counter("relevo_duty_failures", "Ticks of a background duty that failed.", "duty")
        self.leader: Gauge = Gauge("relevo_leader", "1 while this process leads the duty.", "duty")
        self.running: Gauge = Gauge("relevo_jobs_running", "Handlers running in this process.")
        self.held: Gauge = Gauge(
            "relevo_jobs_held", "Jobs this process holds a lease on: running, read ahead, being settled."
        )
        self.can_claim: Gauge = Gauge("relevo_can_claim", "Workers of this process that can claim jobs.")
        self.paused: Gauge = Gauge("relevo_paused", "Workers of this process that are paused.")

        self.backlog: Gauge = Gauge("relevo_queue_backlog", "Jobs of the queue that could run now and do not.")
        self.active: Gauge = Gauge("relevo_queue_active", "Jobs of the queue that workers hold, anywhere.")
        self.delayed: Gauge = Gauge("relevo_queue_delayed", "Delayed jobs of the queue.")
        self.dead: Gauge = Gauge("relevo_queue_dead", "Dead letters of the queue.")
        self.consumers: Gauge = Gauge("relevo_queue_consumers", "Consumers in the queue's group.")
        self.oldest_seconds: Gauge = Gauge(
            "relevo_queue_oldest_waiting_seconds", "Age of the oldest job that nobody has begun."
        )
        self.drain_seconds: Gauge = Gauge(
            "relevo_queue_time_to_drain_seconds", "Backlog over the rate at which the whole fleet settled lately."
        )

    def __iter__(self) -> Iterator[Instrument]:
        return (each for each in vars(self).values() if isinstance(each, Instrument))
