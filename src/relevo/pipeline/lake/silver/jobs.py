"""silver.jobs: one row a job. When it came, when and how it ended, how many runs it took."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.instants import moment
from relevo.pipeline.lake.silver.runs import KEYS

OUTCOMES = ("done", "dead", "cancelled", "open")


def jobs(runs: DataFrame) -> DataFrame:
    """`open` is a job that may still run: it waits, runs, or waits for a retry, as far as its events say."""
    done = F.col("outcome") == "done"
    cancelled = F.col("outcome") == "cancelled"
    died = F.max(F.struct("run", "dead_ms", "dead_reason"))
    told = runs.groupBy(*KEYS, "life").agg(
        F.max("name").alias("name"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.min_by("ready_ms", "run").alias("ready_ms"),
        F.min(F.when(done, F.col("ended_ms"))).alias("done_ms"),
        F.max(F.when(cancelled, F.col("ended_ms"))).alias("cancelled_ms"),
        F.sum(F.when(F.col("outcome").isNotNull() & (F.col("outcome") != "parked"), 1).otherwise(0)).alias("attempts"),
        F.sum(F.coalesce("duration_us", F.lit(0))).alias("busy_us"),
        F.sum(F.col("dead_ms").isNotNull().cast("int")).alias("deaths"),
        died.alias("_last"),
        F.max(F.col("outcome").isNotNull() | F.col("dead_ms").isNotNull()).alias("_lived"),
        F.max_by("dead_reason", F.when(F.col("dead_ms").isNotNull(), F.col("run"))).alias("dead_reason"),
        F.max("dead_ms").alias("dead_ms"),
        F.max_by("reason", F.when(F.col("outcome") == "failed", F.col("run"))).alias("reason"),
    )
    is_dead = F.col("done_ms").isNull() & F.col("_last.dead_ms").isNotNull()
    outcome = (
        F.when(F.col("done_ms").isNotNull(), "done")
        .when(F.col("cancelled_ms").isNotNull(), "cancelled")
        .when(is_dead, "dead")
        .otherwise("open")
    )
    finished = F.coalesce("done_ms", "cancelled_ms", F.when(is_dead, F.col("_last.dead_ms")))
    came = F.coalesce("ready_ms", "first_ms")
    total = F.greatest(F.lit(0).cast("bigint"), finished - came)
    replayed = F.col("deaths") - F.when(is_dead, 1).otherwise(0)
    # A `waiting` that comes after the end it led to (ChasquiMQ writes it late) is no second life.
    lived = (F.col("life") == 0) | F.col("_lived")
    return told.where(lived).select(
        "home",
        "queue",
        "name",
        "job",
        F.col("life").cast("int").alias("life"),
        moment(F.col("first_ms")).alias("first_seen"),
        moment(came).alias("came_at"),
        moment(finished).alias("finished_at"),
        outcome.alias("outcome"),
        F.col("attempts").cast("int").alias("attempts"),
        total.alias("total_ms"),
        (F.col("busy_us") / 1000).alias("busy_ms"),
        F.when(outcome == "dead", F.col("dead_reason")).alias("dead_reason"),
        F.col("dead_reason").alias("last_dead_reason"),
        "reason",
        F.col("deaths").cast("int").alias("deaths"),
        moment(F.col("dead_ms")).alias("dead_at"),
        F.greatest(F.lit(0), replayed).cast("int").alias("replayed"),
    )
