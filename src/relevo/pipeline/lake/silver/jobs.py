"""silver.jobs: one row a job, or a message in a queue. When it arrived, when and how it ended, how many runs it took.

A message that became a job has a row in each room. Both have its correlation id: its story is read as one by that.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.bronze.events import WORK, message_of
from relevo.pipeline.lake.instant_columns import moment
from relevo.pipeline.lake.silver.runs import KEYS

OUTCOMES = ("done", "dead", "cancelled", "expired", "failed", "routed", "open")
_CLOSED = {"settled": "done", "rejected": "failed", "expired": "expired", "routed": "routed", "cancelled": "cancelled"}
_NO_ATTEMPT = ("parked", "released")


def jobs(runs: DataFrame) -> DataFrame:
    """`open` is a job that may still run: it waits, runs, or waits for a retry or a decision, as far as its events say."""
    told = runs.groupBy(*KEYS, "incarnation").agg(
        F.max("room").alias("room"),
        F.max("name").alias("name"),
        F.max("correlation_id").alias("correlation_id"),
        F.min("first_ms").alias("first_ms"),
        F.min_by("ready_ms", "run").alias("ready_ms"),
        F.min_by("waiting_ms", F.when(F.col("subscription") == "", F.col("run"))).alias("waiting_ms"),
        F.min(F.when(F.col("outcome") == "done", F.col("ended_ms"))).alias("_first_done"),
        F.max(F.when(F.col("outcome") == "done", F.col("ended_ms"))).alias("_last_done"),
        F.max(F.when(F.col("outcome") == "cancelled", F.col("ended_ms"))).alias("cancelled_ms"),
        F.sum(_one(F.col("outcome").isNotNull() & ~F.col("outcome").isin(*_NO_ATTEMPT))).alias("attempts"),
        F.sum(F.coalesce("duration_us", F.lit(0))).alias("busy_us"),
        F.sum(_one(F.col("dead_ms").isNotNull())).alias("deaths"),
        F.max(F.struct("run", "dead_ms", "dead_reason")).alias("_last"),
        F.max(F.col("outcome").isNotNull() | F.col("dead_ms").isNotNull()).alias("_lived"),
        F.max_by("dead_reason", F.when(F.col("dead_ms").isNotNull(), F.col("run"))).alias("dead_reason"),
        F.max("dead_ms").alias("dead_ms"),
        F.max_by("reason", F.when(F.col("outcome") == "failed", F.col("run"))).alias("reason"),
        F.max("closed").alias("closed"),
        F.max("opened").alias("opened"),
        F.sum("reviews").alias("reviews"),
        F.min("review_ms").alias("review_ms"),
        F.max("decided_ms").alias("decided_ms"),
        F.max_by("decision", F.when(F.col("decision").isNotNull(), F.col("run"))).alias("decision"),
        # Of a broadcast queue: a message is over when every subscription that has it is done with it.
        _subscriptions(F.lit(True)).alias("_had"),
        _subscriptions(F.col("outcome") == "done").alias("_done"),
        _subscriptions(F.col("dead_ms").isNotNull()).alias("_dead"),
    )
    broadcast = F.col("_had") > 0
    all_done = F.when(F.col("_done") == F.col("_had"), F.col("_last_done"))
    closes = F.coalesce(F.struct("closed.turn", "closed.turn_seq") > F.col("opened"), F.col("closed").isNotNull())
    closed = F.when(closes, F.col("closed.e"))
    settled_ms = F.when(closed == "settled", F.col("closed.at_ms"))
    ended = (
        told.withColumn("done_ms", F.coalesce(F.when(broadcast, all_done).otherwise(F.col("_first_done")), settled_ms))
        .withColumn("_closed", closed)
        .withColumn(
            "_is_dead",
            F.col("done_ms").isNull()
            & F.when(broadcast, (F.col("_dead") > 0) & (F.col("_done") + F.col("_dead") >= F.col("_had"))).otherwise(
                F.col("_last.dead_ms").isNotNull()
            ),
        )
    )
    is_dead = F.col("_is_dead")
    outcome = F.when(F.col("done_ms").isNotNull(), "done").when(F.col("cancelled_ms").isNotNull(), "cancelled")
    for event, meaning in _CLOSED.items():
        outcome = outcome.when(F.col("_closed") == event, meaning)
    outcome = outcome.when(is_dead, "dead").otherwise("open")
    closed_ms = F.when(F.col("_closed").isNotNull(), F.col("closed.at_ms"))
    finished = F.coalesce("done_ms", "cancelled_ms", closed_ms, F.when(is_dead, F.col("dead_ms")))
    work = F.col("room") == WORK
    came = F.coalesce(F.when(work, F.col("waiting_ms")), "ready_ms", "first_ms")
    total = F.when(finished.isNotNull(), F.greatest(F.lit(0).cast("bigint"), finished - came))
    replayed = F.col("deaths") - F.when(is_dead, 1).otherwise(0)
    # A `waiting` that comes after the end it led to (ChasquiMQ writes it late) is no second life.
    lived = (F.col("incarnation") == 0) | F.col("_lived")
    return ended.where(lived).select(
        "cohort_hour",
        "source",
        "room",
        "queue",
        "name",
        "job_id",
        F.col("incarnation").cast("int").alias("incarnation"),
        _correlation().alias("correlation_id"),
        moment(F.col("first_ms")).alias("first_seen_at"),
        moment(came).alias("arrived_at"),
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
        F.col("reviews").cast("int").alias("reviews"),
        (F.col("decided_ms") - F.col("review_ms")).alias("review_ms"),
        "decision",
    )


def _correlation() -> Column:
    """A job that was made of a message belongs to what the message belongs to. Both lie in one bucket of one cohort."""
    together = Window.partitionBy("cohort_hour", "bucket", "source", message_of(F.col("job_id")))
    return F.coalesce("correlation_id", F.max("correlation_id").over(together))


def _subscriptions(condition: Column) -> Column:
    return F.size(F.collect_set(F.when(condition & (F.col("subscription") != ""), F.col("subscription"))))


def _one(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)
