"""Partial sums: what the jobs of one cohort add to each minute. Gold adds them up, so late data costs only its own cohort.

silver.counts holds numbers, silver.sketches KLL sketches of times: both add up, over cohorts and from minutes to days.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.gold.objectives import Objective, matching
from relevo.pipeline.lake.instant_columns import minute_of

COUNTS = (
    *(
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
        "met",
        "missed",
    ),
)
SUMS = ("busy_ms",)
K = 1000
"""Size of a sketch: the rank of a p99 is within a thousandth."""

PLACE = ("cohort_hour", "minute_ms", "source", "queue", "name")


def counts(attempts: DataFrame, jobs: DataFrame, objectives: Sequence[Objective]) -> DataFrame:
    """One row a cohort, minute, source, queue and name."""
    outcome = F.col("outcome")
    starts = _facts(attempts.where(outcome != "released"), "started_at", started=F.lit(1))
    ends = _facts(
        attempts.where(F.col("ended_at").isNotNull()),
        "ended_at",
        done=_one(outcome == "done"),
        failed=_one(outcome == "failed"),
        retried=_one((outcome == "failed") & F.col("backoff_ms").isNotNull()),
        busy_ms=F.coalesce("ran_ms", F.lit(0.0)),
    )
    losses = _facts(attempts.where(outcome == "lost"), "started_at", lost=F.lit(1))
    arrivals = _facts(jobs, "arrived_at", arrived=F.lit(1))
    limit, _ = matching(objectives)
    met = (outcome == "done") & (F.col("total_ms") <= limit)
    finishes = _facts(
        jobs.where(outcome != "open"),
        "finished_at",
        done=_one((outcome == "done") & (F.col("attempts") == 0)),  # by a decision or a rule: no run has counted it
        cancelled=_one(outcome == "cancelled"),
        expired=_one(outcome == "expired"),
        routed=_one(outcome == "routed"),
        met=_one(met),
        missed=_one(outcome.isin("done", "dead", "expired", "failed") & ~met),
    )
    deaths = _facts(jobs, "dead_at", dead=F.lit(1))  # also of a job that was replayed since
    facts = reduce(DataFrame.unionByName, [starts, ends, losses, arrivals, finishes, deaths])
    return facts.groupBy(*PLACE).agg(*(F.sum(name).alias(name) for name in (*COUNTS, *SUMS)))


def sketches(attempts: DataFrame, jobs: DataFrame) -> DataFrame:
    """One row a cohort, minute, source, queue, name and measure (wait, run, total)."""
    waits = _times(attempts, "started_at", "wait", F.col("waited_ms"))
    runs = _times(attempts.where(F.col("outcome").isin("done", "failed")), "ended_at", "run", F.col("ran_ms"))
    totals = _times(jobs.where(F.col("outcome") == "done"), "finished_at", "total", F.col("total_ms"))
    times = reduce(DataFrame.unionByName, [waits, runs, totals])
    return times.groupBy(*PLACE, "measure").agg(
        F.count("ms").alias("count"),
        F.min("ms").alias("min_ms"),
        F.max("ms").alias("max_ms"),
        F.sum("ms").alias("sum_ms"),
        F.kll_sketch_agg_double("ms", K).alias("sketch"),
    )


def _facts(rows: DataFrame, at: str, **values: Column) -> DataFrame:
    zeros: dict[str, Column] = {name: F.lit(0) for name in COUNTS} | {name: F.lit(0.0) for name in SUMS}
    columns = [value.alias(name) for name, value in (zeros | values).items()]
    return rows.where(F.col(at).isNotNull()).select(*_place(at), *columns)


def _times(rows: DataFrame, at: str, measure: str, ms: Column) -> DataFrame:
    kept = rows.where(F.col(at).isNotNull() & ms.isNotNull())
    return kept.select(*_place(at), F.lit(measure).alias("measure"), ms.cast("double").alias("ms"))


def _place(at: str) -> list[Column]:
    minute = minute_of(F.unix_millis(at)).alias("minute_ms")
    return [F.col("cohort_hour"), minute, F.col("source"), F.col("queue"), F.col("name")]


def _one(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False)).cast("int")
