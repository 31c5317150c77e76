"""The tables of the lake: what each is partitioned by, the version of its columns, and what must be true of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from relevo.pipeline.lake.columns import arrow_schema, columns_of
from relevo.pipeline.lake.expectations import Expectation, Rule, Unique, not_negative, not_null, one_of
from relevo.pipeline.lake.instants import Span
from relevo.pipeline.source_columns import Column


@dataclass(frozen=True)
class TableSpec:
    """One table. `inner` ones are partial results: they may change shape with any release."""

    name: str
    span: Span
    rules: tuple[Rule, ...] = ()
    schema_version: int = 1
    """Raised when the columns change their meaning: what was made of a table's sources before is then made again."""
    inner: bool = False
    holds: str = field(default="", compare=False)
    by_day: bool = False
    """Also cut by the day that rows add to: jobs of one hour end on several days."""
    kept_days: int = 7
    """For so long a file that was replaced is kept, for readers and for older versions."""

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    @property
    def path(self) -> str:
        """Below the lake's root."""
        return self.name.replace(".", "/")

    @property
    def partition_columns(self) -> tuple[str, ...]:
        named = {"all": (), "day": ("date",), "hour": ("date", "hour")}[self.span]
        return (*named, "adds_to") if self.by_day else named

    @property
    def columns(self) -> tuple[Column, ...]:
        """Declared, without those it is partitioned by."""
        return columns_of(self.name)

    def arrow_schema(self) -> Any:
        return arrow_schema(self.columns)

    @property
    def properties(self) -> dict[str, str]:
        """Delta's own settings of the table, which other engines keep to as well."""
        return {
            "delta.checkpointInterval": "20",
            "delta.deletedFileRetentionDuration": f"interval {self.kept_days} days",
            "delta.logRetentionDuration": "interval 30 days",
        }


_SHARES = [
    Expectation(f"{name} is a share", f"{name} IS NULL OR {name} BETWEEN 0 AND 1")
    for name in ("attained_1h", "attained_6h", "attained_3d")
]

BRONZE_EVENTS = TableSpec(
    "bronze.events", "day", (*not_null("_stream", "_id", "_ts"),), holds="every event once, as it came"
)
QUARANTINE = TableSpec(
    "bronze.quarantine", "day", (*not_null("reason"),), holds="events that cannot be used, with the reason"
)
BRONZE_MESSAGES = TableSpec(
    "bronze.messages", "day", (*not_null("id", "state"), Unique(("id",))), holds="archived messages of work queues"
)
BRONZE_AUDIT = TableSpec(
    "bronze.audit", "day", (*not_null("id", "action"), Unique(("id",))), holds="archived audit rows of work queues"
)
BRONZE_REVIEWS = TableSpec(
    "bronze.reviews", "day", inner=True, holds="finished reviews of work queues, whole, by the day they were finished"
)
SILVER_EVENTS = TableSpec(
    "silver.events",
    "hour",
    inner=True,
    holds="usable events, by job",
)
ATTEMPTS = TableSpec(
    "silver.attempts",
    "hour",
    (
        *not_null("source", "room", "queue", "job_id", "started_at", "outcome"),
        one_of("outcome", ("done", "failed", "cancelled", "parked", "released", "lost", "running")),
        *not_negative("waited_ms", "ran_ms", "backoff_ms"),
        Expectation("a run that ended has an end", "outcome NOT IN ('done', 'failed') OR ended_at IS NOT NULL"),
        Unique(("source", "queue", "job_id", "subscription", "run")),
    ),
    holds="one row a run",
)
JOBS = TableSpec(
    "silver.jobs",
    "hour",
    (
        *not_null("source", "room", "queue", "job_id", "first_seen_at", "arrived_at", "outcome"),
        one_of("outcome", ("done", "dead", "cancelled", "expired", "failed", "routed", "open")),
        *not_negative("total_ms", "attempts", "replayed"),
        Expectation("what has ended has an end", "outcome = 'open' OR finished_at IS NOT NULL"),
        Expectation("what is open has taken no time yet", "outcome <> 'open' OR total_ms IS NULL"),
        Unique(("source", "queue", "job_id", "incarnation")),
    ),
    holds="one row a job, or a message in a queue",
)
REVIEWS = TableSpec(
    "silver.reviews",
    "day",
    (
        *not_null("review_id", "decided_at", "decided_by"),
        *not_negative("waiting_ms", "held_ms", severity="warn"),  # clocks of several machines
        Unique(("review_id", "vote")),
    ),
    holds="one row a human decision",
)
COUNTS = TableSpec("silver.counts", "hour", inner=True, by_day=True, holds="partial counts by minute")
SKETCHES = TableSpec("silver.sketches", "hour", inner=True, by_day=True, holds="partial sketches by minute")
REASONS = TableSpec("silver.reasons", "hour", inner=True, by_day=True, holds="partial counts of reasons by day")
CLOSINGS = TableSpec("silver.closings", "day", inner=True, holds="what each day adds to a backlog")
THROUGHPUT = TableSpec(
    "gold.throughput",
    "day",
    (
        *not_null("minute", "source", "queue", "name"),
        *not_negative("arrived", "done", "failed", "retried", "dead", "busy_ms"),
        Expectation("no more is retried than failed", "retried <= failed"),
        Unique(("minute", "source", "queue", "name")),
    ),
    holds="each minute, source, queue and name: arrived, done, failed, retried, dead, backlog",
)
LATENCY = TableSpec(
    "gold.latency",
    "day",
    (
        *not_null("at", "queue", "measure", "p50_ms", "p999_ms"),
        Expectation(
            "percentiles rise", "p50_ms <= p90_ms AND p90_ms <= p95_ms AND p95_ms <= p99_ms AND p99_ms <= p999_ms"
        ),
        Expectation("percentiles lie between least and most", "min_ms <= p50_ms AND p999_ms <= max_ms"),
        Unique(("grain", "at", "source", "queue", "name", "measure")),
    ),
    holds="wait, run and total percentiles of each minute, hour and day",
)
FAILURES = TableSpec(
    "gold.failures",
    "day",
    (
        *not_null("reason", "first_seen_at", "last_seen_at"),
        Expectation("share is a share", "share > 0 AND share <= 1.000001"),
        Expectation("the last is not before the first", "last_seen_at >= first_seen_at"),
        Unique(("day", "source", "queue", "name", "kind", "reason")),
    ),
    holds="why runs fail and jobs die, by normalised reason",
)
SLO = TableSpec(
    "gold.slo",
    "day",
    (*not_null("hour", "source", "queue", "target"), *_SHARES, Unique(("hour", "source", "queue"))),
    holds="objectives met and missed, and how fast the error budget burns",
)
USAGE = TableSpec(
    "gold.usage",
    "day",
    (
        *not_null("day", "queue"),
        *not_negative("messages", "bytes", "handler_s", "reviews"),
        Unique(("day", "source", "tenant", "queue")),
    ),
    holds="messages, bytes, handler seconds and reviews of each tenant",
)
FORECAST = TableSpec(
    "gold.forecast",
    "all",
    (
        *not_null("hour", "source", "queue"),
        *not_negative("arrivals", "backlog", "workers", severity="drop"),
        Unique(("hour", "source", "queue")),
    ),
    schema_version=2,
    holds="arrivals and backlog of the next hours, workers needed",
)
ANOMALIES = TableSpec(
    "gold.anomalies",
    "day",
    (
        *not_null("minute", "source", "queue", "metric"),
        one_of("side", ("above", "below")),
        *not_negative("backtest_error", severity="warn"),
        Unique(("minute", "source", "queue", "metric")),
    ),
    schema_version=2,
    holds="minutes out of their seasonal band",
)
EXPECTATIONS = TableSpec(
    "gold.expectations",
    "day",
    holds="what was found of every expectation when a table was renewed, with rows that broke it",
)

ALL = (
    *(BRONZE_EVENTS, QUARANTINE, BRONZE_MESSAGES, BRONZE_AUDIT, BRONZE_REVIEWS),
    *(SILVER_EVENTS, ATTEMPTS, JOBS, REVIEWS, COUNTS, SKETCHES, REASONS, CLOSINGS),
    *(THROUGHPUT, LATENCY, FAILURES, SLO, USAGE, FORECAST, ANOMALIES, EXPECTATIONS),
)
BY_NAME = {spec.name: spec for spec in ALL}

OWN = "own"
"""The layer of tables that users declare; see `lake/own.py`."""


def spec_named(name: str) -> TableSpec:
    """Of one of our tables, or of one that a user declares: its columns are those of its query."""
    if name.startswith(f"{OWN}."):
        return TableSpec(name, "all")
    return BY_NAME[name]
