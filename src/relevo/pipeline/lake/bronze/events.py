"""From events as they came (bronze.events) to events one can reckon with, and to rows that cannot be used, with a reason."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LIFECYCLE = ("active", "completed", "failed", "cancelled", "rate-limited", "refused")
"""What begins or ends a run."""

TOLD = (*LIFECYCLE, "waiting", "delayed", "retry-scheduled", "stalled", "dlq")
"""The events a job's story is made of. Others (drained, progress, and what later engines may add) stay in bronze."""

MAX_AHEAD_MS = 5_000
MAX_BEHIND_MS = 3_600_000
"""A writer's clock may lag by as long as Redis was out of reach; ahead of Redis' own clock it is simply wrong."""

_CROCKFORD, _HEX32 = "JKMNPQRSTVWXYZ", "IJKLMNOPQRSTUV"
_FIRST_MS, _LAST_MS = 1_577_836_800_000, 4_102_444_800_000  # the years 2020 to 2099


def minted_ms(job: Column) -> Column:
    """When a job's id was minted, if it is a ULID of this century; null for an id of a caller's own making."""
    digits = F.translate(F.substring(job, 1, 10), _CROCKFORD, _HEX32)
    ms = F.when(job.rlike("^[0-7][0-9A-HJKMNP-TV-Z]{25}$"), F.conv(digits, 32, 10).cast("bigint"))
    return F.when(ms.between(_FIRST_MS, _LAST_MS), ms)


def checked(events: DataFrame) -> DataFrame:
    """bronze.events with `wrong`: why a row cannot be used, null for a good one."""
    has_id = F.coalesce(F.col("id"), F.lit("")) != ""
    wrong = (
        F.when(F.col("bad").isNotNull(), F.col("bad"))
        .when(F.coalesce(F.col("e"), F.lit("")) == "", F.lit("no event name"))
        .when(F.coalesce(F.col("queue"), F.lit("")) == "", F.lit("no queue"))
        .when(F.col("_id").isNull() | F.col("_ts").isNull(), F.lit("no entry id"))
        .when(F.col("e").isin(*TOLD) & (F.col("e") != "dlq") & ~has_id, F.lit("no job id"))
        .when(F.col("duration_us") < 0, F.lit("duration_us is negative"))
        .when((F.col("backoff_ms") < 0) | (F.col("wait_ms") < 0), F.lit("a wait is negative"))
        .when(F.col("attempt") < 0, F.lit("attempt is negative"))
    )
    return events.withColumn("wrong", wrong)


def quarantined(events: DataFrame) -> DataFrame:
    """The rows of bronze.events that cannot be used, whole, each with its reason."""
    bad = checked(events).where(F.col("wrong").isNotNull())
    return bad.select(
        F.col("wrong").alias("reason"), "_stream", "_id", "_ts", F.to_json(F.struct(*events.columns)).alias("row")
    )


def clean(events: DataFrame) -> DataFrame:
    """The usable events of jobs. `at_ms` is the writer's time, or the server's where the writer's clock cannot be right."""
    good = checked(events).where(F.col("wrong").isNull() & F.col("e").isin(*TOLD))
    server_ms = F.unix_millis("_ts")
    lag = server_ms - F.col("ts")
    trusted = F.coalesce(lag.between(-MAX_AHEAD_MS, MAX_BEHIND_MS), F.lit(False))
    # A dead letter that was no job at all has no id: its entry's is as good, and no two of them become one.
    job = F.when(F.coalesce(F.col("id"), F.lit("")) == "", F.concat(F.lit("~"), "_id")).otherwise(F.col("id"))
    return good.select(
        "queue",
        job.alias("job"),
        F.coalesce("n", F.lit("")).alias("name"),
        "e",
        F.when(trusted, F.col("ts")).otherwise(server_ms).alias("at_ms"),
        F.split_part("_id", F.lit("-"), F.lit(1)).cast("bigint").alias("id_ms"),
        F.split_part("_id", F.lit("-"), F.lit(2)).cast("decimal(20,0)").alias("id_seq"),
        "attempt",
        "reason",
        "duration_us",
        F.coalesce("backoff_ms", "wait_ms", "delay_ms").alias("pause_ms"),
        F.element_at("rest", "worker").alias("worker"),
        (~trusted).alias("skewed"),
    )
