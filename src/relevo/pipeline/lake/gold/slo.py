"""gold.slo: how many jobs met their queue's objective, and how fast the error budget burns over 1 h, 6 h and 3 days.

A burn of 1 uses up the budget exactly in its time; 14 over an hour is worth waking someone, 1 over three days a ticket.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.gold.objectives import Objective, matching
from relevo.pipeline.lake.instant_columns import floor_to, moment
from relevo.pipeline.lake.instants import DAY_MS, HOUR_MS

WINDOWS = {"1h": 1, "6h": 6, "3d": 72}
BACK_DAYS = 3
"""How many days before a day its windows reach."""


def slo(counts: DataFrame, objectives: Sequence[Objective], first_day: int | None = None) -> DataFrame:
    """A row an hour, source and queue. Windows end with the hour. Rows before `first_day` (days since 1970) only feed them."""
    hour = floor_to(F.col("minute_ms"), HOUR_MS).alias("hour")
    hours = counts.groupBy(hour, "source", "queue").agg(F.sum("met").alias("met"), F.sum("missed").alias("missed"))
    limit, target = matching(objectives)
    framed = hours.withColumn("objective_ms", limit.cast("bigint")).withColumn("target", target.cast("double"))
    for name, size in WINDOWS.items():
        back = Window.partitionBy("source", "queue").orderBy("hour").rangeBetween(-(size - 1), 0)
        met, missed = F.sum("met").over(back), F.sum("missed").over(back)
        framed = framed.withColumn(f"attained_{name}", _share(met, met + missed))
        burn = _share(missed, met + missed) / (1 - F.col("target"))
        framed = framed.withColumn(f"burn_{name}", burn)
    kept = framed if first_day is None else framed.where(F.col("hour") >= first_day * (DAY_MS // HOUR_MS))
    return kept.select(
        moment(F.col("hour") * HOUR_MS).alias("hour"),
        "source",
        "queue",
        "objective_ms",
        "target",
        "met",
        "missed",
        *(f"{kind}_{name}" for name in WINDOWS for kind in ("attained", "burn")),
        (1 - F.col("burn_3d")).alias("budget_left_3d"),
    )


def _share(part: Column, whole: Column) -> Column:
    return F.when(whole > 0, part / whole)
