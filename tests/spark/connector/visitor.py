"""A user's own Spark program, which knows of relevo only what `pip install relevo[spark]` brings. Tells what it saw as JSON.

`spark-submit visitor.py submitted <url> <queue>`, or
`python visitor.py connected|built|built_here|plain <url> <queue> <folder>`.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession


def submitted(url: str, queue: str) -> dict[str, Any]:
    """Under spark-submit: what `session()` makes of its command line."""
    from relevo.spark import session

    spark = session()

    def starter(_: Iterable[Any]) -> Iterator[str]:
        yield os.environ.get("STARTED_BY", "")

    return {
        "events": spark.read.format("relevo").options(url=url, queues=queue).load().count(),
        "master": spark.sparkContext.master,
        "name": spark.sparkContext.appName,
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "zone": spark.conf.get("spark.sql.session.timeZone"),
        "workers started by": spark.sparkContext.parallelize([1], 1).mapPartitions(starter).collect(),
    }


def plain(url: str, queue: str, folder: str) -> dict[str, Any]:
    """A session that Spark made, with nothing registered: reads, writes, and follows."""
    spark = _patient(SparkSession.builder.master("local[1]")).getOrCreate()
    return {"version": pyspark.__version__, **_used(spark, url, queue, Path(folder))}


def connected(url: str, queue: str, folder: str) -> dict[str, Any]:
    """A session of Spark Connect: the data source without a word from us, then `session()`."""
    spark: Any = _patient(SparkSession.builder.remote("local[1]")).getOrCreate()
    seen = _used(spark, url, queue, Path(folder))
    from relevo.spark import session

    return {"version": pyspark.__version__, **seen, "same session": session() is spark}


def built(url: str, queue: str, folder: str) -> dict[str, Any]:
    """The whole pipeline in a session of Spark Connect."""
    return _built(_patient(SparkSession.builder.remote("local[1]")).getOrCreate(), url, queue, folder)


def built_here(url: str, queue: str, folder: str) -> dict[str, Any]:
    """As `built`, in a session that Spark made."""
    return _built(_patient(SparkSession.builder.master("local[1]")).getOrCreate(), url, queue, folder)


def _built(spark: Any, url: str, queue: str, folder: str) -> dict[str, Any]:
    from relevo.spark import Lake, build, ingest

    lake = Lake(Path(folder) / "lake")
    return {
        "ingested": ingest(lake, spark, url=url, queues=queue),
        "broken": [step.table for step in build(lake, spark).broken],
    }


def _patient(builder: Any) -> Any:
    """With a machine that is busy with other tests."""
    settings = {"spark.ui.enabled": "false", "spark.python.authenticate.socketTimeout": "120s"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _used(spark: SparkSession, url: str, queue: str, folder: Path) -> dict[str, Any]:
    events = spark.read.format("relevo").options(url=url, queues=queue).load()
    jobs = events.where("e = 'completed'").selectExpr("'thank' as name", "_id as data")
    jobs.write.format("relevo").options(url=url, queue=f"{queue}-batch", dataFormat="text").mode("append").save()
    follow = spark.readStream.format("relevo").options(url=url, queues=queue, maxRowsPerTrigger="5").load()
    stream = follow.where("e = 'completed'").selectExpr("'thank' as name", "_id as data").writeStream.format("relevo")
    query = stream.options(url=url, queue=f"{queue}-stream", dataFormat="text", checkpointLocation=str(folder / "fed"))
    query.trigger(availableNow=True).start().awaitTermination()
    read = spark.read.format("relevo").options(url=url, what="stream")
    return {
        "events": events.count(),
        "batch": read.options(queues=f"{queue}-batch").load().count(),
        "stream": read.options(queues=f"{queue}-stream").load().count(),
        "work": spark.read.format("relevo-work").options(url=f"sqlite:///{folder}/work.db").load().columns[:1],
    }


if __name__ == "__main__":
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    modes = (submitted, plain, connected, built, built_here)
    told = json.dumps({mode.__name__: mode for mode in modes}[sys.argv[1]](*sys.argv[2:]))
    sys.stdout.write(f"told {told}\n")
    sys.stdout.flush()
