"""gold.usage: what each tenant used, a day and a queue: messages, bytes, handler seconds, reviews.

A stream queue belongs to nobody: its tenant is empty, and its events tell no bytes. A work queue's messages are counted from
their archive, which has both; their events would count them twice.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.bronze.events import is_work
from relevo.pipeline.lake.instant_columns import floor_to, moment
from relevo.pipeline.lake.instants import DAY_MS


def usage(counts: DataFrame, messages: DataFrame | None = None, reviews: DataFrame | None = None) -> DataFrame:
    """From silver.counts, and from the archived messages and decided reviews of work queues where there are any."""
    day = floor_to(F.col("minute_ms"), DAY_MS).alias("day")
    used = (
        counts.where(~is_work(F.col("queue")))
        .groupBy(day, "source", "queue")
        .agg(
            F.lit("").alias("tenant"),
            F.sum("arrived").alias("messages"),
            F.lit(0).cast("bigint").alias("bytes"),
            F.sum("started").alias("runs"),
            (F.sum("busy_ms") / 1000).alias("handler_s"),
            F.lit(0).cast("bigint").alias("reviews"),
        )
    )
    if messages is not None:
        size = F.octet_length(F.coalesce("body", F.lit("")))
        used = used.unionByName(
            messages.groupBy(
                floor_to(F.col("created_at"), DAY_MS).alias("day"),
                F.lit("").alias("source"),
                _named("tenant"),
                _named("queue"),
            ).agg(
                F.count(F.lit(1)).alias("messages"),
                F.sum(size).alias("bytes"),
                F.sum("attempts").cast("bigint").alias("runs"),
                F.sum(_held_ms() / 1000).alias("handler_s"),
                F.lit(0).cast("bigint").alias("reviews"),
            )
        )
    if reviews is not None:
        used = used.unionByName(
            reviews.groupBy(
                floor_to(F.unix_millis("finished_at"), DAY_MS).alias("day"),
                F.lit("").alias("source"),
                "tenant",
                "queue",
            ).agg(
                F.lit(0).cast("bigint").alias("messages"),
                F.lit(0).cast("bigint").alias("bytes"),
                F.lit(0).cast("bigint").alias("runs"),
                F.lit(0.0).alias("handler_s"),
                F.count(F.lit(1)).alias("reviews"),
            )
        )
    totals = used.groupBy("day", "source", "tenant", "queue").agg(
        *(F.sum(name).alias(name) for name in ("messages", "bytes", "runs", "handler_s", "reviews"))
    )
    return totals.withColumn("day", moment(F.col("day") * DAY_MS))


def _named(what: str) -> Column:
    return F.col(f"{what}_id").cast("string").alias(what)


def _held_ms() -> Column:
    done = F.coalesce("finished_at", "updated_at") - F.col("claimed_at")
    return F.greatest(F.lit(0).cast("bigint"), F.coalesce(done, F.lit(0).cast("bigint")))
