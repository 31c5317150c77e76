"""The story of each job, told from its events in their order: which run, which incarnation, what came of it.

A run begins with `active`, or with an end whose beginning is missing (trimmed, or never written). An incarnation of a job id
ends when the job is done or cancelled; the same id used again is another one. A dead letter that is replayed goes on living.
A message has one incarnation only; in a broadcast queue each subscription has runs of its own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.bronze.events import CLOSING, LIFECYCLE, WORK, minted_ms

KEYS = ("cohort_hour", "bucket", "source", "queue", "job_id")
"""`cohort_hour` and `bucket` place a job: all its events lie together, so its story needs no shuffle beyond that one."""

LANE = (*KEYS, "subscription")

ENDS = tuple(event for event in LIFECYCLE if event != "active")
_NEEDS_A_BEGINNING = ("cancelled", "released")
"""Ends that do not tell of a run by themselves: what waits may be cancelled, too."""
_MAX_AHEAD_MS = 5_000


def annotated(events: DataFrame) -> DataFrame:
    """Each event with `incarnation` and `run`; doubles (an entry ingested twice, an event relayed twice) are gone."""
    lane = [F.col(key) for key in LANE]
    in_order = Window.partitionBy(*lane).orderBy("turn", "turn_seq")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    upto = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    event = F.col("e")
    seen = F.last(F.when(event.isin(*LIFECYCLE, "dlq", "reclaimed"), event), ignorenulls=True).over(before)
    # A retry is told once Redis has it; with a short backoff its next run may have begun by then.
    begun = F.last(F.when(event == "active", F.col("attempt")), ignorenulls=True).over(before)
    # Events in order, so a double comes right behind its first: the one sort that the windows need finds it, too.
    same = F.struct("turn", "turn_seq", "e")
    double = F.lag(same).over(in_order) == same
    once = events.withColumn("_double", F.coalesce(double, F.lit(False))).where(~F.col("_double")).drop("_double")
    story = once.withColumn("_seen", seen).withColumn("_begun", begun)
    running = F.coalesce(F.col("_seen") == "active", F.lit(False))
    headless = event.isin(*ENDS) & ~running
    begins = (event == "active") | (headless & ~event.isin(*_NEEDS_A_BEGINNING))
    over = F.coalesce(F.col("_seen").isin("completed", "cancelled"), F.lit(False)) & (F.col("room") != WORK)
    # Runs twice at once (a lost lease) end twice: the second end is no new life. A life begins with something that starts.
    reborn = over & event.isin("active", "waiting", "delayed", "stalled")
    # `waiting` belongs to the run it leads to; ChasquiMQ may write it after `active`, then it belongs to that one.
    ahead = event.isin("waiting", "delayed", "stalled") & ~running
    behind = (event == "retry-scheduled") & running & F.coalesce(F.col("_begun") == F.col("attempt"), F.lit(False))
    return (
        story.withColumn("_running", running)
        .withColumn("_closes", event.isin(*CLOSING) | ((event == "cancelled") & ~running))
        .withColumn("_ends", event.isin(*ENDS) & ~(headless & event.isin(*_NEEDS_A_BEGINNING)))
        .withColumn("_reborn", reborn.cast("int"))
        .withColumn("_begins", begins.cast("int"))
        .withColumn("_first", F.coalesce(F.lag("_reborn").over(in_order), F.lit(0)))
        .withColumn("_number", F.sum("_begins").over(upto))
        .withColumn("run", F.col("_number") + ahead.cast("int") - behind.cast("int"))
        .withColumn("incarnation", F.sum(_rises(F.col("_reborn"), F.col("_first"))).over(upto))
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

    turn = F.struct("turn", "turn_seq")
    first_end = F.min(F.when(F.col("_ends"), F.struct("turn", "turn_seq", "e", "at_ms")))
    told = story.groupBy(*LANE, "incarnation", "run").agg(
        F.max("room").alias("room"),
        F.max("name").alias("name"),
        F.max("correlation_id").alias("correlation_id"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.max(F.when(F.col("e").isin(*LIFECYCLE), F.col("attempt"))).alias("attempt"),
        at("waiting").alias("waiting_ms"),
        of("ready_ms", "active").alias("_claimable"),
        at("active").alias("active_ms"),
        F.min(F.when(F.col("_ends"), F.col("at_ms"))).alias("ended_ms"),
        of("duration_us", "completed", "failed").alias("duration_us"),
        first_end["e"].alias("_end"),
        F.max(F.when((F.col("e") == "reclaimed") & F.col("_running"), F.col("at_ms"))).alias("_reclaimed_ms"),
        of("reason", "failed").alias("reason"),
        F.min(F.when(F.col("e") == "retry-scheduled", F.struct("at_ms", "pause_ms"))).alias("_retry"),
        F.min(F.when(F.col("e") == "rate-limited", F.struct("at_ms", "pause_ms"))).alias("_parked"),
        at("dlq").alias("dead_ms"),
        of("reason", "dlq").alias("dead_reason"),
        F.max(F.when(F.col("_closes"), F.struct("turn", "turn_seq", "e", "at_ms"))).alias("closed"),
        F.max(F.when(F.col("e").isin("waiting", "delayed", "active"), turn)).alias("opened"),
        F.sum((F.col("e") == "review_needed").cast("int")).alias("reviews"),
        at("review_needed").alias("review_ms"),
        of("at_ms", "review_decided").alias("decided_ms"),
        F.max(F.when(F.col("e") == "review_decided", F.col("decision"))).alias("decision"),
        F.max("worker").alias("worker"),
        F.max("skewed").alias("skewed"),
    )
    return _placed(told)


def _placed(told: DataFrame) -> DataFrame:
    in_turn = Window.partitionBy(*LANE, "incarnation").orderBy("run")
    started = F.coalesce(
        "active_ms", F.col("ended_ms") - F.floor(F.coalesce("duration_us", F.lit(0)) / 1000).cast("bigint")
    )
    due = F.coalesce(
        F.col("_retry.at_ms") + F.col("_retry.pause_ms"), F.col("_parked.at_ms") + F.col("_parked.pause_ms")
    )
    minted = minted_ms(F.col("job_id"))
    framed = (
        told.withColumn("started_ms", started)
        .withColumn("_due", due)
        .withColumn("_previous_due", F.lag("_due").over(in_turn))
        .withColumn("_place", F.row_number().over(in_turn))
        .withColumn("_later", F.lead("started_ms").over(in_turn))
        .withColumn("_minted", minted)
    )
    # Since when it could have run: as the claim says, promoted, due again after a retry, or, for a job added at once, since it
    # was made.
    since = F.coalesce(
        "_claimable",
        "waiting_ms",
        "_previous_due",
        F.when(
            (F.col("_place") == 1)
            & (F.col("incarnation") == 0)
            & (F.coalesce("attempt", F.lit(1)) <= 1)
            & (F.col("_minted") <= F.col("started_ms") + _MAX_AHEAD_MS),
            F.col("_minted"),
        ),
    )
    gone = F.col("_later").isNotNull() | F.col("dead_ms").isNotNull() | F.col("_reclaimed_ms").isNotNull()
    outcome = (
        F.when(F.col("_end") == "completed", "done")
        .when(F.col("_end") == "failed", "failed")
        .when(F.col("_end") == "cancelled", "cancelled")
        .when(F.col("_end") == "released", "released")
        .when(F.col("_end").isin("rate-limited", "refused"), "parked")
        .when(F.col("active_ms").isNotNull() & gone, "lost")
        .when(F.col("active_ms").isNotNull(), "running")
    )
    return framed.select(
        *LANE,
        "incarnation",
        "run",
        "room",
        "name",
        "correlation_id",
        "attempt",
        "first_ms",
        "last_ms",
        "waiting_ms",
        since.alias("ready_ms"),
        "started_ms",
        "ended_ms",
        "duration_us",
        outcome.alias("outcome"),
        "reason",
        F.coalesce(F.col("_retry.pause_ms"), F.col("_parked.pause_ms")).alias("backoff_ms"),
        "dead_ms",
        "dead_reason",
        "closed",
        "opened",
        "reviews",
        "review_ms",
        "decided_ms",
        "decision",
        "worker",
        "skewed",
    )
