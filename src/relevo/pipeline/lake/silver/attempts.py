"""silver.attempts: one row a run. What it waited, how long it ran, what came of it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.instant_columns import moment

COLUMNS = (
    "cohort_hour bigint, source string, room string, queue string, name string, job_id string, subscription string, "
    "incarnation int, run int, attempt int, started_at timestamp, ended_at timestamp, waited_ms bigint, ran_ms double, "
    "outcome string, reason string, backoff_ms bigint, worker string, skewed boolean"
)


def attempts(runs: DataFrame) -> DataFrame:
    """`lost`: it never ended, and the job went on without it (its worker died). `released`: a claim that was given back.
    `running`: not ended yet, as far as known."""
    ran = runs.where(F.col("outcome").isNotNull())
    waited = F.greatest(F.lit(0).cast("bigint"), F.col("started_ms") - F.col("ready_ms"))
    ran_ms = F.coalesce(F.col("duration_us") / 1000, (F.col("ended_ms") - F.col("started_ms")).cast("double"))
    return ran.select(
        "cohort_hour",
        "source",
        "room",
        "queue",
        "name",
        "job_id",
        "subscription",
        F.col("incarnation").cast("int").alias("incarnation"),
        F.col("run").cast("int").alias("run"),
        F.col("attempt").cast("int").alias("attempt"),
        moment(F.col("started_ms")).alias("started_at"),
        moment(F.col("ended_ms")).alias("ended_at"),
        F.when(F.col("ready_ms").isNotNull(), waited).alias("waited_ms"),
        F.when(F.col("ended_ms").isNotNull(), F.greatest(F.lit(0.0), ran_ms)).alias("ran_ms"),
        "outcome",
        "reason",
        "backoff_ms",
        "worker",
        "skewed",
    )
