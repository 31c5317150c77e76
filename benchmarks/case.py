"""What is measured: one question a case, the same for everyone who can answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RATE, CPU, LATENCY, MEMORY = "jobs/s", "CPU s for 100k jobs", "ms", "MB"


@dataclass(frozen=True)
class Case:
    """One line of the table. Of rates more is better, of everything else less."""

    name: str
    title: str
    unit: str = RATE

    @property
    def more_is_better(self) -> bool:
        return self.unit == RATE

    def shown(self, value: float) -> str:
        if self.unit == RATE:
            return f"{value:,.0f}"
        return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


CASES = (
    Case("add_single", "single add, one after the other"),
    Case("add_concurrent", "100 concurrent adds"),
    Case("add_bulk_50", "bulk of 50"),
    Case("add_bulk_500", "bulk of 500"),
    Case("add_bulk_500_two", "bulk of 500, two in flight"),
    Case("drain", "drain, no events"),
    Case("drain_events", "drain, with events"),
    Case("drain_results", "drain, with results"),
    Case("drain_5ms", "drain, handlers that wait 5 ms"),
    Case("delayed", "promotion of due jobs"),
    Case("retry_storm", "every job fails once"),
    Case("latency_p50", "latency p50 at 200 jobs/s", LATENCY),
    Case("latency_p99", "latency p99 at 200 jobs/s", LATENCY),
    Case("cpu", "CPU of the process, drain, no events", CPU),
    Case("cpu_server", "CPU of Redis, drain, no events", CPU),
    Case("cpu_events", "CPU of the process, drain, with events", CPU),
    Case("cpu_events_server", "CPU of Redis, drain, with events", CPU),
    Case("memory_idle", "memory of an idle worker", MEMORY),
    Case("memory_busy", "memory of a busy worker, at its highest", MEMORY),
    # What the server can do for a client that does no work with it.
    Case("raw_add", "pipelined XADD"),
    Case("raw_add_once", "pipelined XADD IDMP"),
    Case("raw_drain", "XREADGROUP CLAIM + XACKDEL"),
    Case("raw_round_trip", "XADD, one after the other"),
)

BY_NAME = {case.name: case for case in CASES}


@dataclass(frozen=True)
class Task:
    """One run of a driver. `answers` says which case each of its measures belongs to."""

    name: str
    answers: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    most: int = 200_000
    """Jobs at most, however fast."""
    jobs: int | None = None
    """Just so many, however slow."""
    step: int = 100


TASKS = {
    "add_single": Task("add_single", {"rate": "add_single"}),
    "add_concurrent": Task("add_concurrent", {"rate": "add_concurrent"}),
    "add_bulk_50": Task("add_bulk", {"rate": "add_bulk_50"}, {"size": 50}),
    "add_bulk_500": Task("add_bulk", {"rate": "add_bulk_500"}, {"size": 500}, step=1000),
    "add_bulk_500_two": Task("add_bulk", {"rate": "add_bulk_500_two"}, {"size": 500, "in_flight": 2}, step=1000),
    "drain": Task("drain", {"rate": "drain", "cpu_us": "cpu", "server_cpu_us": "cpu_server", "busy_mb": "memory_busy"}),
    "drain_events": Task(
        "drain",
        {"rate": "drain_events", "cpu_us": "cpu_events", "server_cpu_us": "cpu_events_server"},
        {"events": True},
    ),
    "drain_results": Task("drain", {"rate": "drain_results"}, {"results": True}),
    "drain_5ms": Task("drain", {"rate": "drain_5ms"}, {"pause_s": 0.005}),
    "delayed": Task("delayed", {"rate": "delayed"}),
    "retry_storm": Task("retry_storm", {"rate": "retry_storm"}),
    "latency": Task("latency", {"p50_ms": "latency_p50", "p99_ms": "latency_p99", "idle_mb": "memory_idle"}, jobs=400),
    "ceiling": Task(
        "ceiling",
        {name: name for name in ("raw_add", "raw_add_once", "raw_drain", "raw_round_trip")},
        jobs=60_000,
    ),
}


def in_units(case: str, value: float) -> float:
    """A driver's measure as its case shows it: microseconds a job are a tenth as many seconds for 100k jobs."""
    return value / 10 if BY_NAME[case].unit == CPU else value
