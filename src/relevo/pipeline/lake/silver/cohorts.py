"""Where a job lives in the lake: one hour for all its events, its cohort, so that its story is retold from one partition alone.

A ULID tells its hour itself, and so does an id that begins with one: a message and the jobs made of it are one cohort. Any
other id lives where it was first heard of; whether it was heard of before is looked up.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.bronze.events import message_of, minted_ms
from relevo.pipeline.lake.instant_columns import part_of

LOOK_BACK_HOURS = 35 * 24
"""An id of a caller's making that was not heard of for longer is another job's: no refresh reads all jobs there ever were."""


def housed(events: DataFrame, known: DataFrame | None, *, others: bool = True) -> DataFrame:
    """Events with their `cohort_hour`. `known` has source, queue, job_id and cohort_hour of jobs whose ids are no ULIDs, as far
    as there are any.

    Without `others` every id is a ULID, and the events need not be read once more to look for the rest.
    """
    minted = minted_ms(F.col("job_id"))
    told = events.withColumn("cohort_hour", part_of(minted, "hour"))
    if not others:
        return told
    job = ("source", "queue", "job_id")
    unknown = told.where(F.col("cohort_hour").isNull())
    first = part_of(F.min("at_ms").over(Window.partitionBy(*job)), "hour")
    if known is None:
        found = unknown.withColumn("cohort_hour", first)
    else:
        seen = known.groupBy(*job).agg(F.min("cohort_hour").alias("_known"))
        found = (
            unknown.join(seen, [*job], "left")
            .withColumn("cohort_hour", F.coalesce("_known", first))
            .drop("_known")
            .select(*told.columns)
        )
    return told.where(F.col("cohort_hour").isNotNull()).unionByName(found)


def gathered(events: DataFrame, buckets: int) -> DataFrame:
    """Events with their `bucket`, shuffled so that all events of a job, of the message it was made of, and of a cohort and
    bucket, lie together."""
    bucket = F.pmod(F.xxhash64("source", message_of(F.col("job_id"))), F.lit(buckets))
    return events.withColumn("bucket", bucket).repartition("cohort_hour", "bucket")
