"""A Spark driver in a process of its own, to be killed, or to work on a cluster: `python -m tests.spark.connector.driver`."""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from relevo.pipeline.commands.ingest import Ingest
from relevo.pipeline.commands.tries import Tries
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.session import activated, session
from tests.spark.standalone import executors, on_cluster

BATCH = 3000
"""Events that a query takes at once."""


def ingest_and_feed(url: str, queue: str, folder: Path) -> None:
    """Three streaming queries at once, until all is done: events to a table, events to jobs, and events to a lake."""
    spark = session("local[2]", log=folder / "spark.log", settings={"spark.driver.memory": "1g"})
    source = spark.readStream.format("relevo").options(
        url=url, queues=queue, maxRowsPerTrigger=str(BATCH), rowsPerPartition="1200"
    )
    table = source.load().writeStream.format("parquet").option("checkpointLocation", str(folder / "ingested"))
    jobs = source.load().selectExpr("'thank' as name", "_id as data").writeStream.format("relevo")
    jobs = jobs.options(url=url, queue=f"{queue}-next", dataFormat="text").option(
        "checkpointLocation", str(folder / "fed")
    )
    with ThreadPoolExecutor(2, initializer=activated, initargs=(spark,)) as threads:
        beside = [
            threads.submit(_run, "the table", lambda: table.trigger(availableNow=True).start(str(folder / "table"))),
            threads.submit(_run, "the jobs", lambda: jobs.trigger(availableNow=True).start()),
        ]
        _say("running")
        options = {"url": url, "queues": queue, "maxRowsPerTrigger": str(BATCH), "rowsPerPartition": "1200"}
        Ingest(Lake(folder / "lake"), spark).once(options)
        for each in beside:
            each.result()
    _say("done")
    spark.stop()


def _run(what: str, start: Callable[[], StreamingQuery]) -> None:
    """As patient with a busy machine as an ingest is."""
    Tries().run(lambda: start().awaitTermination(), what)


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def on_a_cluster(url: str, queue: str, folder: Path, master: str) -> None:
    """Reads, writes a table and feeds a queue on executors elsewhere; tells what it saw as JSON."""
    spark = on_cluster(master, folder / "spark.log")
    frame = spark.read.format("relevo").options(url=url, queues=queue, rowsPerPartition="1000").load()
    frame.write.parquet(str(folder / "table"))
    jobs = frame.selectExpr("'thank' as name", "_id as data").write.format("relevo").mode("append")
    jobs.options(url=url, queue=f"{queue}-next", dataFormat="text").save()
    ids = [row["_id"] for row in spark.read.parquet(str(folder / "table")).collect()]
    sys.stdout.write(json.dumps({"partitions": frame.rdd.getNumPartitions(), "ids": ids, "seen": executors(spark)}))
    spark.stop()


if __name__ == "__main__":
    url, queue, folder, *master = sys.argv[1:]
    if master:
        on_a_cluster(url, queue, Path(folder), master[0])
    else:
        ingest_and_feed(url, queue, Path(folder))
