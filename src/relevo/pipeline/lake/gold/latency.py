"""gold.latency: how long jobs waited, ran and took in all, as percentiles of each minute, hour and day.

Every row carries its sketch. Sketches merge, so a day's percentiles come from its minutes, and a week's from its days.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.instant_columns import floor_to, moment
from relevo.pipeline.lake.instants import DAY_MS, HOUR_MS, MINUTE_MS
from relevo.pipeline.lake.silver.partials import K

RANKS = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
GRAINS = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS}


def merged(rows: DataFrame, *by: str) -> DataFrame:
    """Sketches added up: works on silver.sketches and on gold.latency itself."""
    return rows.groupBy(*by).agg(
        F.sum("count").alias("count"),
        F.min("min_ms").alias("min_ms"),
        F.max("max_ms").alias("max_ms"),
        F.sum("sum_ms").alias("sum_ms"),
        F.kll_merge_agg_double("sketch", K).alias("sketch"),
    )


def percentiles(rows: DataFrame) -> DataFrame:
    """The percentiles of each sketch, as columns."""
    at = F.kll_sketch_get_quantile_double("sketch", F.array(*(F.lit(rank) for rank in RANKS.values())))
    known = rows.withColumn("_at", at)
    for place, name in enumerate(RANKS):
        known = known.withColumn(name, F.col("_at")[place])
    return known.drop("_at")


def latency(sketches: DataFrame) -> DataFrame:
    """From silver.sketches: all names of a queue apart, at three grains."""
    minutes = merged(sketches, "minute_ms", "source", "queue", "name", "measure")
    hours = merged(_at(minutes, HOUR_MS), "minute_ms", "source", "queue", "name", "measure")
    days = merged(_at(hours, DAY_MS), "minute_ms", "source", "queue", "name", "measure")
    grains = (("minute", minutes), ("hour", hours), ("day", days))
    together = reduce(DataFrame.unionByName, [rows.withColumn("grain", F.lit(grain)) for grain, rows in grains])
    return percentiles(together).select(
        "grain",
        moment(F.col("minute_ms")).alias("at"),
        "source",
        "queue",
        "name",
        "measure",
        "count",
        "min_ms",
        *RANKS,
        "max_ms",
        (F.col("sum_ms") / F.col("count")).alias("mean_ms"),
        "sum_ms",
        "sketch",
    )


def _at(rows: DataFrame, grain_ms: int) -> DataFrame:
    return rows.withColumn("minute_ms", floor_to(F.col("minute_ms"), grain_ms) * grain_ms)
