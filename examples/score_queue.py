"""Spark as a worker: a query takes jobs from a queue by the batch, scores a model over them, and tells which failed.

relevo up                                # or any Redis
RELEVO_REDIS_URL=redis://127.0.0.1:6390 python examples/score_queue.py

Run it under spark-submit for a cluster. Kill it at any time: what was not settled runs again, here or in another worker.
"""

import asyncio
import math
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo import Queue
from relevo.spark import session

URL = os.environ.get("RELEVO_REDIS_URL", "redis://127.0.0.1:6379")
WEIGHTS = {"amount": 0.004, "country_risk": 1.5}
BIAS = -4.0


def score(parts: Iterator[Any]) -> Iterator[Any]:
    """The model, over a pandas frame of many jobs at once. A job that it cannot score says so in `error`."""
    for jobs in parts:
        odds = BIAS + WEIGHTS["amount"] * jobs["amount"] + WEIGHTS["country_risk"] * jobs["country_risk"]
        chance = 1 / (1 + math.e**-odds)
        error = jobs["amount"].isna().map({True: "the amount is no number", False: None})
        yield jobs.assign(chance=chance, error=error)[["_id", "_taken_by", "job_id", "chance", "error"]]


def keep_and_settle(rows: DataFrame, _batch: int) -> None:
    """Results first, the settle last: a crash in between brings the jobs back, and loses none."""
    rows.persist()
    for row in rows.where("error IS NULL").orderBy("job_id").collect():  # write them to a table here
        print(f"scored: {row['chance']:.3f}")
    told = rows.select("_id", "_taken_by", "error", F.lit(True).alias("final"))
    told.write.format("relevo").options(mode="settle", url=URL, queue="payments").mode("append").save()
    rows.unpersist()


async def some_payments() -> None:
    async with Queue("payments", redis_url=URL) as queue:
        for amount, risk in ((20, 0.1), (900, 0.8), ("a lot", 0.5)):
            await queue.add("score", {"amount": amount, "country_risk": risk})


async def dead_letters() -> None:
    async with Queue("payments", redis_url=URL) as queue:
        for letter in await queue.peek_dlq(10):
            print("dead:", letter["detail"])


def main() -> None:
    asyncio.run(some_payments())
    spark = session()
    jobs = spark.readStream.format("relevo").options(mode="consume", url=URL, queue="payments").load()
    payments = jobs.select(
        "_id", "_taken_by", "job_id", F.from_json("data", "amount double, country_risk double").alias("p")
    )
    scored = payments.select("_id", "_taken_by", "job_id", "p.*").mapInPandas(
        score, "_id string, _taken_by string, job_id string, chance double, error string"
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = scored.writeStream.foreachBatch(keep_and_settle).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()
    asyncio.run(dead_letters())


if __name__ == "__main__":
    main()
