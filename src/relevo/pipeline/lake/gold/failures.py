"""gold.failures: why runs fail and jobs die, by what the texts have in common once their numbers and names are taken out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.instant_columns import floor_to, moment
from relevo.pipeline.lake.instants import DAY_MS

LONGEST = 160

# In this order: what is most telling first, so that an address is not taken for a number with dots.
_PLACEHOLDERS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b", "<ulid>"),
    (r"[\w.+-]+@[\w-]+(\.[\w-]+)+", "<email>"),
    (r"\b[a-z][a-z0-9+.-]*://[^\s'\",)]+", "<url>"),
    (r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?\b", "<time>"),
    (r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b", "<address>"),
    (r"'[^']*'|\"[^\"]*\"", "<text>"),
    (r"(?<![\w<])(/[\w.@-]+){2,}", "<path>"),
    (r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{12,}\b", "<hex>"),
    (r"\d+([.,]\d+)*", "<n>"),
)


def normalised(text: Column) -> Column:
    """A reason without what differs from case to case."""
    plain = F.coalesce(text, F.lit("no reason given"))
    for pattern, placeholder in _PLACEHOLDERS:
        plain = F.regexp_replace(plain, pattern, placeholder)
    return F.substring(F.trim(F.regexp_replace(plain, r"\s+", " ")), 1, LONGEST)


def reasons(attempts: DataFrame, jobs: DataFrame) -> DataFrame:
    """The partial of one cohort (silver.reasons): a row a day, source, queue, name, kind and normalised reason.

    Kinds: `failed`, a run that failed or was lost; `dead`, a job that was dead-lettered, also if it was replayed since.
    """
    lost = F.lit("the worker died, or lost its lease")
    ran = attempts.where(F.col("outcome").isin("failed", "lost")).select(
        "cohort_hour",
        "source",
        F.coalesce("ended_at", "started_at").alias("at"),
        "queue",
        "name",
        F.lit("failed").alias("kind"),
        F.when(F.col("outcome") == "lost", lost).otherwise(F.col("reason")).alias("text"),
        "job_id",
    )
    died = jobs.where(F.col("dead_at").isNotNull()).select(
        "cohort_hour",
        "source",
        F.col("dead_at").alias("at"),
        "queue",
        "name",
        F.lit("dead").alias("kind"),
        F.concat_ws(": ", F.coalesce("last_dead_reason", F.lit("dead")), "reason").alias("text"),
        "job_id",
    )
    rows = ran.unionByName(died).withColumn("reason", normalised(F.col("text")))
    day = (floor_to(F.unix_millis("at"), DAY_MS) * DAY_MS).alias("day_ms")
    first = F.struct("at", "job_id")
    return rows.groupBy("cohort_hour", day, "source", "queue", "name", "kind", "reason").agg(
        F.count(F.lit(1)).alias("count"),
        F.min("at").alias("first_seen_at"),
        F.max("at").alias("last_seen_at"),
        F.min_by(F.struct(F.substring("text", 1, 500).alias("text"), "job_id"), first).alias("example"),
    )


def failures(partials: DataFrame) -> DataFrame:
    """From silver.reasons: a row a day and cluster. `share` is of all of its kind in the queue that day."""
    clusters = partials.groupBy("day_ms", "source", "queue", "name", "kind", "reason").agg(
        F.sum("count").alias("count"),
        F.min("first_seen_at").alias("first_seen_at"),
        F.max("last_seen_at").alias("last_seen_at"),
        F.min_by("example", F.struct("first_seen_at", "example.job_id")).alias("example"),
    )
    of_kind = Window.partitionBy("day_ms", "source", "queue", "kind")
    return clusters.select(
        moment(F.col("day_ms")).alias("day"),
        "source",
        "queue",
        "name",
        "kind",
        "reason",
        "count",
        (F.col("count") / F.sum("count").over(of_kind)).alias("share"),
        "first_seen_at",
        "last_seen_at",
        F.col("example.text").alias("example"),
        F.col("example.job_id").alias("example_job_id"),
    )
