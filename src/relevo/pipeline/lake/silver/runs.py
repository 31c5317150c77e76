"""The story of each job, told from its events in the order of the wire: which run, which life, what came of it.

A run begins with `active`, or with an end whose beginning is missing (trimmed, or never written). A life of a job id ends
when the job is done or cancelled; the same id used again is another life. A dead letter that is replayed goes on living.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.bronze.events import LIFECYCLE, minted_ms

KEYS = ("home", "slot", "queue", "job")
"""`home` and `slot` place a job: all its events lie together, so its story needs no shuffle beyond that one."""

ENDS = tuple(event for event in LIFECYCLE if event != "active")
_MAX_AHEAD_MS = 5_000


def annotated(events: DataFrame) -> DataFrame:
    """Each event with `life` and `run`; doubles (the same entry ingested twice) are gone."""
    keys = [F.col(key) for key in KEYS]
    in_order = Window.partitionBy(*keys).orderBy("id_ms", "id_seq")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    upto = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    event = F.col("e")
    seen = F.last(F.when(event.isin(*LIFECYCLE, "dlq"), event), ignorenulls=True).over(before)
    # A retry is told once Redis has it; with a short backoff its next run may have begun by then.
    begun = F.last(F.when(event == "active", F.col("attempt")), ignorenulls=True).over(before)
    # Entries in order, so a double comes right behind its first: the one sort that the windows need finds it, too.
    double = F.lag(F.struct("id_ms", "id_seq")).over(in_order) == F.struct("id_ms", "id_seq")
    once = events.withColumn("_double", F.coalesce(double, F.lit(False))).where(~F.col("_double")).drop("_double")
    story = once.withColumn("_seen", seen).withColumn("_begun", begun)
    running = F.coalesce(F.col("_seen") == "active", F.lit(False))
    begins = (event == "active") | (event.isin(*ENDS) & ~running)
    over = F.coalesce(F.col("_seen").isin("completed", "cancelled"), F.lit(False))
    # Runs twice at once (a lost lease) end twice: the second end is no new life. A life begins with something that starts.
    reborn = over & event.isin("active", "waiting", "delayed", "stalled")
    # `waiting` belongs to the run it leads to; ChasquiMQ may write it after `active`, then it belongs to that one.
    ahead = event.isin("waiting", "delayed", "stalled") & ~running
    behind = (event == "retry-scheduled") & running & F.coalesce(F.col("_begun") == F.col("attempt"), F.lit(False))
    return (
        story.withColumn("_reborn", reborn.cast("int"))
        .withColumn("_begins", begins.cast("int"))
        .withColumn("_first", F.coalesce(F.lag("_reborn").over(in_order), F.lit(0)))
        .withColumn("_number", F.sum("_begins").over(upto))
        .withColumn("run", F.col("_number") + ahead.cast("int") - behind.cast("int"))
        .withColumn("life", F.sum(_rises(F.col("_reborn"), F.col("_first"))).over(upto))
    )


def _rises(now: Column, before: Column) -> Column:
    """`waiting` and the `active` right after it are one rebirth."""
    return F.when((now == 1) & (before == 0), 1).otherwise(0)


def runs(events: DataFrame) -> DataFrame:
    """One row a run; and, with a null `started_ms` and no `ended_ms`, one for what happened to a job outside of any run."""
    story = annotated(events)

    def at(*names: str) -> Column:
        return F.min(F.when(F.col("e").isin(*names), F.col("at_ms")))

    def of(name: str, *events: str) -> Column:
        return F.max(F.when(F.col("e").isin(*events), F.col(name)))

    first_end = F.min(F.when(F.col("e").isin(*ENDS), F.struct("id_ms", "id_seq", "e")))
    told = story.groupBy(*KEYS, "life", "run").agg(
        F.max("name").alias("name"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.max(F.when(F.col("e").isin(*LIFECYCLE), F.col("attempt"))).alias("attempt"),
        at("waiting").alias("waiting_ms"),
        at("active").alias("active_ms"),
        at(*ENDS).alias("ended_ms"),
        of("duration_us", "completed", "failed").alias("duration_us"),
        first_end["e"].alias("_end"),
        of("reason", "failed").alias("reason"),
        F.min(F.when(F.col("e") == "retry-scheduled", F.struct("at_ms", "pause_ms"))).alias("_retry"),
        F.min(F.when(F.col("e") == "rate-limited", F.struct("at_ms", "pause_ms"))).alias("_parked"),
        at("dlq").alias("dead_ms"),
        of("reason", "dlq").alias("dead_reason"),
        F.max("worker").alias("worker"),
        F.max("skewed").alias("skewed"),
    )
    return _placed(told)


def _placed(told: DataFrame) -> DataFrame:
    in_turn = Window.partitionBy(*KEYS, "life").orderBy("run")
    started = F.coalesce(
        "active_ms", F.col("ended_ms") - F.floor(F.coalesce("duration_us", F.lit(0)) / 1000).cast("bigint")
    )
    due = F.coalesce(
        F.col("_retry.at_ms") + F.col("_retry.pause_ms"), F.col("_parked.at_ms") + F.col("_parked.pause_ms")
    )
    minted = minted_ms(F.col("job"))
    framed = (
        told.withColumn("started_ms", started)
        .withColumn("_due", due)
        .withColumn("_previous_due", F.lag("_due").over(in_turn))
        .withColumn("_place", F.row_number().over(in_turn))
        .withColumn("_later", F.lead("started_ms").over(in_turn))
        .withColumn("_minted", minted)
    )
    # Since when it could have run: promoted, due again after a retry, or, for a job added at once, since it was made.
    since = F.coalesce(
        "waiting_ms",
        "_previous_due",
        F.when(
            (F.col("_place") == 1)
            & (F.col("life") == 0)
            & (F.coalesce("attempt", F.lit(1)) <= 1)
            & (F.col("_minted") <= F.col("started_ms") + _MAX_AHEAD_MS),
            F.col("_minted"),
        ),
    )
    lost = F.col("active_ms").isNotNull() & (F.col("_later").isNotNull() | F.col("dead_ms").isNotNull())
    outcome = (
        F.when(F.col("_end") == "completed", "done")
        .when(F.col("_end") == "failed", "failed")
        .when(F.col("_end") == "cancelled", "cancelled")
        .when(F.col("_end").isin("rate-limited", "refused"), "parked")
        .when(lost, "lost")
        .when(F.col("active_ms").isNotNull(), "running")
    )
    return framed.select(
        *KEYS,
        "life",
        "run",
        "name",
        "attempt",
        "first_ms",
        "last_ms",
        since.alias("ready_ms"),
        "started_ms",
        "ended_ms",
        "duration_us",
        outcome.alias("outcome"),
        "reason",
        F.coalesce(F.col("_retry.pause_ms"), F.col("_parked.pause_ms")).alias("backoff_ms"),
        "dead_ms",
        "dead_reason",
        "worker",
        "skewed",
    )
