"""gold.throughput: each minute, queue and name: what came, what was done, failed, retried and died, and how much was left."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.instant_columns import floor_to, moment
from relevo.pipeline.lake.instants import DAY_MS
from relevo.pipeline.lake.silver.partials import COUNTS, SUMS

PLACE = ("source", "queue", "name")


def added_up(counts: DataFrame) -> DataFrame:
    """silver.counts without cohorts: one row a minute, source, queue and name."""
    return counts.groupBy("minute_ms", *PLACE).agg(*(F.sum(name).alias(name) for name in (*COUNTS, *SUMS)))


def nets(counts: DataFrame) -> DataFrame:
    """What each day adds to the backlog of a queue and name: what arrived, less what ended."""
    day = floor_to(F.col("minute_ms"), DAY_MS).alias("day")
    return counts.groupBy(day, *PLACE).agg(F.sum(_net()).cast("bigint").alias("net"))


def throughput(counts: DataFrame, openings: DataFrame | None = None) -> DataFrame:
    """`openings` has day (since 1970), source, queue, name and `opening`, the backlog the day began with; left out it is none.

    A job whose first event has not come yet is not known to be waiting: the last minutes' backlog grows once it has run.
    """
    minutes = added_up(counts).withColumn("day", floor_to(F.col("minute_ms"), DAY_MS))
    if openings is None:
        based = minutes.withColumn("opening", F.lit(0).cast("bigint"))
    else:
        based = minutes.join(F.broadcast(openings), ["day", *PLACE], "left")
    upto = Window.partitionBy("day", *PLACE).orderBy("minute_ms").rowsBetween(Window.unboundedPreceding, 0)
    backlog = F.coalesce("opening", F.lit(0)) + F.sum(_net()).over(upto)
    return based.withColumn("backlog", backlog.cast("bigint")).select(
        moment(F.col("minute_ms")).alias("minute"),
        *PLACE,
        "arrived",
        "started",
        "done",
        "failed",
        "retried",
        "lost",
        "cancelled",
        "expired",
        "routed",
        "dead",
        "busy_ms",
        "backlog",
    )


def _net() -> Column:
    return F.col("arrived") - F.col("met") - F.col("missed") - F.col("cancelled") - F.col("routed")
