"""What is measured: one question a case, the same for everyone who can answer it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One measurement. `jobs` is its size at scale 1; a rate is jobs a second, anything else names its unit."""

    name: str
    title: str
    jobs: int
    unit: str = "jobs/s"
    more_is_better: bool = True


CASES = (
    Case("add_single", "single add, one after the other", 3_000),
    Case("add_concurrent", "100 concurrent adds", 20_000),
    Case("add_bulk_50", "bulk of 50", 30_000),
    Case("add_bulk_500", "bulk of 500", 60_000),
    Case("add_bulk_500_two", "bulk of 500, two in flight", 60_000),
    Case("drain", "drain, no events", 40_000),
    Case("drain_events", "drain, with events", 30_000),
    Case("drain_results", "drain, with results", 20_000),
    Case("drain_5ms", "drain, handlers that wait 5 ms", 10_000),
    Case("delayed", "promotion of due jobs", 10_000),
    Case("retry_storm", "every job fails once", 4_000),
    Case("latency_p50", "latency p50 at 200 jobs/s", 1_000, "ms", more_is_better=False),
    Case("latency_p99", "latency p99 at 200 jobs/s", 1_000, "ms", more_is_better=False),
    Case("cpu", "CPU of the process for a drained job, no events", 40_000, "µs", more_is_better=False),
    Case("cpu_events", "CPU of the process for a drained job, with events", 30_000, "µs", more_is_better=False),
    Case("memory_idle", "memory of an idle worker", 0, "MB", more_is_better=False),
)

BY_NAME = {case.name: case for case in CASES}
