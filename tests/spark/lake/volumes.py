"""Very many events of invented queues, made by Spark itself: what is in them is known without looking at them.

Every job runs once and is done, but one in forty fails first and is tried again, and one in four hundred dies of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from relevo.pipeline.lake.instants import DAY_MS
from relevo.pipeline.source_columns import EVENTS

START_MS = 20_000 * DAY_MS  # 2024-10-04, midnight
QUEUES = ("emails", "orders", "media", "exports")
FAILS, DIES = 40, 400
_BASE32, _CROCKFORD = "IJKLMNOPQRSTUV", "JKMNPQRSTVWXYZ"


@dataclass(frozen=True)
class Volume:
    """`jobs` jobs, numbered from `first`, made evenly over `days` days, of which the numbers are parts."""

    jobs: int
    days: float
    first: int = 0
    of: int = 0
    """How many jobs the days have in all; 0 for these alone."""

    @property
    def events(self) -> int:
        return 2 * self.jobs + 4 * (self.failing - self.dying) + self.dying * 1

    @property
    def failing(self) -> int:
        return self._multiples(FAILS)

    @property
    def dying(self) -> int:
        return self._multiples(DIES)

    def then(self, jobs: int) -> Volume:
        """The jobs that come next, at the same pace."""
        whole = self.of or self.jobs
        return Volume(jobs, self.days, self.first + self.jobs, whole)

    def _multiples(self, step: int) -> int:
        return (self.first + self.jobs - 1) // step - (self.first - 1) // step

    def frame(self, spark: SparkSession, parts: int = 4) -> DataFrame:
        """The events as rows of bronze.events."""
        number = F.col("id")
        at = F.lit(START_MS) + F.floor(number * (self.days * DAY_MS / (self.of or self.jobs))).cast("bigint")
        failing, dying = number % FAILS == 0, number % DIES == 0
        took = F.pmod(F.xxhash64("id"), F.lit(900)) + 20
        jobs = spark.range(self.first, self.first + self.jobs, 1, parts).select(
            number.alias("number"),
            F.element_at(F.array(*map(F.lit, QUEUES)), (number % len(QUEUES) + 1).cast("int")).alias("queue"),
            _ulid(at, number).alias("job"),
            at.alias("at"),
            took.alias("took"),
            F.when(dying, _dead(took)).when(failing, _retried(took)).otherwise(_done(took)).alias("story"),
        )
        told = jobs.select("*", F.posexplode("story").alias("place", "told"))
        ms = F.col("at") + F.col("told.after")
        sequence = F.col("number") * 8 + F.col("place")  # no two entries of a stream have the same
        columns = {
            "queue": F.col("queue"),
            "e": F.col("told.e"),
            "id": F.col("job"),
            "ts": ms,
            "n": F.lit("work"),
            "attempt": F.col("told.attempt"),
            "reason": F.col("told.reason"),
            "duration_us": F.col("told.us"),
            "backoff_ms": F.col("told.backoff_ms"),
            "source": F.lit("one"),
            "_stream": F.concat(F.lit("{chasqui:"), "queue", F.lit("}:events")),
            "_id": F.concat_ws("-", ms, sequence),
            "_ts": F.timestamp_millis(ms),
        }
        none = F.lit(None)
        return told.select(*(columns.get(column.name, none).cast(column.type).alias(column.name) for column in EVENTS))


def _ulid(ms: Column, number: Column) -> Column:
    def digits(value: Column, width: int) -> Column:
        return F.lpad(F.translate(F.conv(value.cast("string"), 10, 32), _BASE32, _CROCKFORD), width, "0")

    return F.concat(digits(ms, 10), digits(number, 16))


def _told(event: str, after: Column, attempt: int, *, us: Column | None = None, backoff: int | None = None) -> Column:
    reason = "timed out after 30 s" if event == "failed" else "retries_exhausted" if event == "dlq" else None
    return F.struct(
        F.lit(event).alias("e"),
        after.cast("bigint").alias("after"),
        F.lit(attempt).cast("bigint").alias("attempt"),
        (F.lit(None) if us is None else us).cast("bigint").alias("us"),
        F.lit(backoff).cast("bigint").alias("backoff_ms"),
        F.lit(reason).cast("string").alias("reason"),
    )


def _done(took: Column) -> Column:
    return F.array(_told("active", F.lit(3), 1), _told("completed", took + 3, 1, us=took * 1000))


def _retried(took: Column) -> Column:
    return F.array(
        _told("active", F.lit(3), 1),
        _told("failed", took + 3, 1, us=took * 1000),
        _told("retry-scheduled", took + 3, 2, backoff=1000),
        _told("waiting", took + 1003, 2),
        _told("active", took + 1005, 2),
        _told("completed", took * 2 + 1005, 2, us=took * 1000),
    )


def _dead(took: Column) -> Column:
    return F.array(
        _told("active", F.lit(3), 1),
        _told("failed", took + 3, 1, us=took * 1000),
        _told("dlq", took + 4, 1),
    )
