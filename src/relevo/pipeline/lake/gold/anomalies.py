"""gold.anomalies: minutes out of their seasonal band: what is usual for the queue at this hour of the day.

The band is the median and five scaled median deviations of the same hour on the days before, with a floor so that a quiet
queue may have one job more. It takes three days of history before anything is called unusual. Every row says how far off what
is usual was on the day before: an anomaly of a queue that nobody can foretell says little.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.instant_columns import floor_to, moment
from relevo.pipeline.lake.instants import DAY_MS, HOUR_MS, MINUTE_MS

BACK_DAYS = 14
REACH_DAYS = BACK_DAYS + 1
"""How many days before a day its numbers depend on: the day before it is judged by its own fourteen."""
LEAST_DAYS = 3
WIDTH = 5.0
_SCALE = 1.4826  # makes a median deviation comparable to a standard deviation
METRICS = ("arrived", "done", "failed", "dead")


_PLACE = ("source", "queue", "metric")


def anomalies(throughput: DataFrame, days: Sequence[int]) -> DataFrame:
    """The unusual minutes of `days` (since 1970), each judged by up to fourteen days before it in gold.throughput."""
    per_queue = throughput.groupBy(F.unix_millis("minute").alias("minute_ms"), "source", "queue").agg(
        *(F.sum(F.col(f"`{name}`")).cast("double").alias(name) for name in METRICS)
    )
    values = F.explode(
        F.array(*(F.struct(F.lit(name).alias("metric"), F.col(f"`{name}`").alias("value")) for name in METRICS))
    )
    minutes = (
        per_queue.select("source", "queue", "minute_ms", values.alias("_"))
        .select("source", "queue", "minute_ms", "_.metric", "_.value")
        .withColumn("day", floor_to(F.col("minute_ms"), DAY_MS))
        .withColumn("hour_of_day", floor_to(F.col("minute_ms") % DAY_MS, HOUR_MS))
    )
    looked_at = F.col("day").isin(*{*days, *(day - 1 for day in days)})
    known = minutes.where(looked_at).join(_bands(minutes).where(looked_at), ["day", *_PLACE, "hour_of_day"])
    margin = F.greatest(WIDTH * _SCALE * F.col("deviation"), 3 * F.sqrt(F.col("median")), F.lit(3.0))
    judged = (
        known.where(F.col("day").isin(*days))
        .withColumn("low", F.greatest(F.lit(0.0), F.col("median") - margin))
        .withColumn("high", F.col("median") + margin)
    )
    odd = judged.where((F.col("value") > F.col("high")) | (F.col("value") < F.col("low")))
    out = odd.join(_day_before(known), ["day", *_PLACE], "left")
    return out.select(
        moment(F.col("minute_ms")).alias("minute"),
        *_PLACE,
        "value",
        F.col("median").alias("usual"),
        "low",
        "high",
        F.when(F.col("value") > F.col("high"), "above").otherwise("below").alias("side"),
        "backtest_error",
    )


def _day_before(known: DataFrame) -> DataFrame:
    """By the day after it: how far the minutes of a day were off from what is usual, as a share of what came. As in the bands,
    a minute without a row counts as zero."""
    off = F.sum(F.abs(F.col("value") - F.col("median")))
    missing = F.greatest(F.lit(0), F.lit(HOUR_MS // MINUTE_MS) - F.count(F.lit(1)))
    hours = known.groupBy("day", *_PLACE, "hour_of_day").agg(
        (off + missing * F.first("median")).alias("off"), F.sum("value").alias("came")
    )
    days = hours.groupBy((F.col("day") + 1).alias("day"), *_PLACE).agg(
        F.sum("off").alias("off"), F.sum("came").alias("came")
    )
    error = F.when(F.col("came") > 0, F.col("off") / F.col("came"))
    return days.select("day", *_PLACE, error.alias("backtest_error"))


def _bands(minutes: DataFrame) -> DataFrame:
    """What is usual in each hour of a day, from the days before it. A minute without a row counts as zero, if its day had
    any row in that hour; a day without one says nothing (the queue may not have existed)."""
    ahead = F.explode(F.sequence(F.lit(1), F.lit(BACK_DAYS)))
    past = (
        minutes.withColumn("_past", F.col("day"))
        .withColumn("_ahead", ahead)
        .withColumn("day", F.col("_past") + F.col("_ahead"))
    )
    seen = past.groupBy("day", *_PLACE, "hour_of_day").agg(
        F.count_distinct("_past").alias("days"), F.collect_list("value").alias("values")
    )
    missing = F.greatest(F.lit(0), F.col("days") * (HOUR_MS // MINUTE_MS) - F.size("values")).cast("int")
    known = (
        seen.where(F.col("days") >= LEAST_DAYS)
        .withColumn("values", F.array_sort(F.concat("values", F.array_repeat(F.lit(0.0), missing))))
        .withColumn("median", _middle("values"))
    )
    off = F.array_sort(F.transform("values", lambda value: F.abs(value - F.col("median"))))
    return known.withColumn("_off", off).select(
        "day", *_PLACE, "hour_of_day", "median", _middle("_off").alias("deviation")
    )


def _middle(values: str) -> Column:
    size = F.size(values)
    upper = F.element_at(values, (F.floor(size / 2) + 1).cast("int"))
    lower = F.element_at(values, (F.floor((size - 1) / 2) + 1).cast("int"))
    return (upper + lower) / 2
