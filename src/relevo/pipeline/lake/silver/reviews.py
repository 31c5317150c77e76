"""silver.reviews: one row a human decision: how long it waited, how long it was held, who decided what."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.lake.instant_columns import moment

CASE = (
    "struct<opened_at:bigint,"
    "votes:array<struct<person:string,at:bigint,corrected_body:string>>,"
    "notes:array<struct<at:bigint,person:string,did:string,text:string>>>"
)


def reviews(cases: DataFrame) -> DataFrame:
    """From bronze.reviews: finished reviews as the work room keeps them, the whole case as JSON (work/review/case.py).

    A review of a stream queue's dead letter has no queue and no message of the work room: both are empty.
    """
    place = (
        F.col("tenant_id").cast("string").alias("tenant"),
        F.coalesce(F.col("queue_id").cast("string"), F.lit("")).alias("queue"),
        F.coalesce("message_id", F.lit("")).alias("message_id"),
        F.col("id").alias("review_id"),
        F.col("finished_at").alias("finished_ms"),
    )
    votes = cases.select(*place, F.from_json("document", CASE).alias("case")).select(
        "*", F.posexplode("case.votes").alias("place", "vote")
    )
    # One note for each vote, in the same order, says what was decided.
    decided = F.filter("case.notes", lambda note: note["did"] == "decided")
    mine = F.filter(
        "case.notes",
        lambda note: (
            (note["did"] == "claimed") & (note["person"] == F.col("vote.person")) & (note["at"] <= F.col("vote.at"))
        ),
    )
    told = votes.withColumn("claimed_ms", F.try_element_at(F.transform(mine, lambda note: note["at"]), F.lit(-1)))
    return told.select(
        "tenant",
        "queue",
        "message_id",
        "review_id",
        F.col("place").alias("vote"),
        moment(F.col("case.opened_at")).alias("opened_at"),
        moment(F.col("vote.at")).alias("decided_at"),
        moment(F.col("finished_ms")).alias("finished_at"),
        (F.coalesce("claimed_ms", "vote.at") - F.col("case.opened_at")).alias("waiting_ms"),
        (F.col("vote.at") - F.col("claimed_ms")).alias("held_ms"),
        F.col("vote.person").alias("decided_by"),
        F.get(decided, F.col("place"))["text"].alias("decision"),
        F.col("vote.corrected_body").isNotNull().alias("corrected"),
    )
