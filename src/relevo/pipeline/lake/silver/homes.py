"""Where a job lives in the lake: one hour for all its events, so that its story is retold from one partition alone.

A ULID tells its hour itself. Any other id lives where it was first heard of; whether it was heard of before is looked up.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from relevo.pipeline.lake.bronze.events import minted_ms
from relevo.pipeline.lake.instants import part_of


def housed(events: DataFrame, known: DataFrame | None, *, others: bool = True) -> DataFrame:
    """Events with their `home`. `known` has queue, job and home of jobs whose ids are no ULIDs, as far as there are any.

    Without `others` every id is a ULID, and the events need not be read once more to look for the rest.
    """
    minted = minted_ms(F.col("job"))
    told = events.withColumn("home", part_of(minted, "hour"))
    if not others:
        return told
    unknown = told.where(F.col("home").isNull())
    first = part_of(F.min("at_ms").over(Window.partitionBy("queue", "job")), "hour")
    if known is None:
        found = unknown.withColumn("home", first)
    else:
        seen = known.groupBy("queue", "job").agg(F.min("home").alias("_home"))
        found = (
            unknown.join(seen, ["queue", "job"], "left")
            .withColumn("home", F.coalesce("_home", first))
            .drop("_home")
            .select(*told.columns)
        )
    return told.where(F.col("home").isNotNull()).unionByName(found)


def gathered(events: DataFrame, slots: int) -> DataFrame:
    """Events with their `slot`, shuffled so that all events of a job, and of a home and slot, lie together."""
    slot = F.pmod(F.xxhash64("queue", "job"), F.lit(slots))
    return events.withColumn("slot", slot).repartition("home", "slot")
