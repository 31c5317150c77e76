"""The data source in Spark itself: a few ends joined, after the parts were tried alone."""

import asyncio
import gc
import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from relevo import Queue
from relevo.pipeline.session import log_of, session
from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.servers.server import Redis86, Server
from tests.spark.connector.filled import add_events, add_jobs, send
from tests.spark.queries import finish


def events(spark: SparkSession, url: str, queues: str, **options: str) -> Any:
    return spark.read.format("relevo").options(url=url, queues=queues, **options).load()


def followed(spark: SparkSession, url: str, queues: str, **options: str) -> Any:
    return spark.readStream.format("relevo").options(url=url, queues=queues, **options).load()


def test_one_stream_is_read_by_many_tasks(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    ids = add_events(redis86.url, queue_name, 5000)
    frame = events(spark, redis86.url, queue_name, rowsPerPartition="1000")
    assert frame.rdd.getNumPartitions() > 2
    rows = frame.select("_id", "e", "attempt", "_ts").collect()
    assert sorted(row["_id"] for row in rows) == sorted(ids)
    assert Counter(row["e"] for row in rows) == dict.fromkeys(("waiting", "active", "completed", "drained"), 1250)


def test_every_table_can_be_read(spark: SparkSession, cluster: Server, queue_name: str) -> None:
    add_events(cluster.url, queue_name, 4)
    add_jobs(cluster.url, queue_name, 3)
    keys = QueueKeys(queue_name)
    send(
        cluster.url, keys.dead, [("XADD", keys.dead, "*", "d", b"\xc1", "source_id", "1-0", "reason", "decode_failed")]
    )
    send(cluster.url, keys.delayed, [("ZADD", keys.delayed, 5, b"\0")])
    found = {what: events(spark, cluster.url, queue_name, what=what).collect() for what in ("stream", "dlq", "delayed")}
    assert [row["data"] for row in found["stream"]] == ['{"i":0}', '{"i":1}', '{"i":2}']
    assert "not a job envelope" in found["dlq"][0]["bad"]
    assert "delayed member" in found["delayed"][0]["bad"]
    raw = events(spark, cluster.url, queue_name, what="stream", payload="raw").collect()
    assert bytes(raw[1]["data"]) == b"\x81\xa1i\x01"


def test_fewer_columns_may_be_asked_for(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 4)
    reader = spark.read.format("relevo").options(url=redis86.url, queues=queue_name).schema("e string, _ts timestamp")
    assert [row["e"] for row in reader.load().collect()] == ["waiting", "active", "completed", "drained"]


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters_give_the_same_rows_pushed_down_or_not(
    spark: SparkSession, redis86: Server, queue_name: str, pushed: str
) -> None:
    add_events(redis86.url, queue_name, 5, ids=[f"{ms}-0" for ms in (1000, 2000, 3000, 4000, 5000)])
    usual = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    try:
        frame = events(spark, redis86.url, queue_name)
        between = "_ts >= timestamp'1970-01-01 00:00:02' and _ts < timestamp'1970-01-01 00:00:05'"
        assert [row["_id"] for row in frame.where(between).collect()] == ["2000-0", "3000-0", "4000-0"]
        some = frame.where("e in ('active', 'drained') and n = 'mail'")
        assert [row["_id"] for row in some.collect()] == ["2000-0", "4000-0"]
        assert frame.where("n = 'post'").count() == 0
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", usual or "false")


def test_what_is_available_is_ingested_once_over_many_runs(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    table, ids = str(tmp_path / "table"), list[str]()
    for _ in range(2):
        ids += add_events(redis86.url, queue_name, 1000)
        frame = followed(spark, redis86.url, queue_name, maxRowsPerTrigger="600")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = finish(partial(writer.trigger(availableNow=True).start, table))
        assert all(progress["numInputRows"] <= 600 for progress in map(_plain, query.recentProgress))
    assert sorted(row["_id"] for row in spark.read.parquet(table).select("_id").collect()) == sorted(ids)


def _plain(progress: Any) -> dict[str, Any]:
    return json.loads(progress.json) if hasattr(progress, "json") else progress


def test_a_trimmed_stream_stops_the_query_with_a_clear_message(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    def run(**options: str) -> None:
        frame = followed(spark, redis86.url, queue_name, **options)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        finish(partial(writer.trigger(availableNow=True).start, str(tmp_path / "table")))

    add_events(redis86.url, queue_name, 10)
    run()
    add_events(redis86.url, queue_name, 20)
    key = QueueKeys(queue_name).events
    send(redis86.url, key, [("XTRIM", key, "MAXLEN", 5)])
    with pytest.raises(StreamingQueryException, match="trimmed before Spark read them"):
        run()
    run(failOnDataLoss="false")
    assert spark.read.parquet(str(tmp_path / "table")).count() == 15


def test_rows_of_every_kind_become_jobs(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    frame = spark.sql(
        """select 'mail' as name, named_struct('to', 'ada', 'tags', array('a', 'b'), 'n', 7) as data,
           cast(null as bigint) as delay, 'order-1' as job_id, 3 as retry
           union all select 'late', named_struct('to', 'eve', 'tags', array(), 'n', 8), 60000L, null, null"""
    )
    writer = frame.write.format("relevo").options(url=redis86.url, queue=queue_name)
    writer.mode("append").save()
    writer.mode("append").save()  # another write: the job without an id of its own comes again
    jobs = events(spark, redis86.url, queue_name, what="stream").collect()
    assert [(row["job_id"], row["name"], json.loads(row["data"]), row["retry"]["max_attempts"]) for row in jobs] == [
        ("order-1", "mail", {"to": "ada", "tags": ["a", "b"], "n": 7}, 3)
    ]
    assert events(spark, redis86.url, queue_name, what="delayed").count() == 2


def test_a_write_with_a_name_can_be_run_again(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    for _ in range(2):
        rows = spark.range(0, 3000, 1, 3).selectExpr("'mail' as name", "cast(id as string) as data")
        rows.write.format("relevo").options(url=redis86.url, queue=queue_name, writeId="load-1").mode("append").save()
    jobs = events(spark, redis86.url, queue_name, what="stream")
    assert sorted(int(row["data"]) for row in jobs.collect()) == list(range(3000))


@pytest.mark.whole  # its command is tested in test_pipeline_commands.py
def test_dead_letters_picked_by_sql_go_back_to_work(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    async def bury() -> None:
        async with Queue(queue_name, redis_url=redis86.url) as queue:
            for number in range(4):
                await queue.add("mail", {"i": number}, attempts=7)

    asyncio.run(bury())
    jobs = events(spark, redis86.url, queue_name, what="stream")
    picked = jobs.where("get_json_object(data, '$.i') % 2 = 0").select("name", "data", "retry")
    picked.write.format("relevo").options(url=redis86.url, queue=f"{queue_name}-again").mode("append").save()
    again = events(spark, redis86.url, f"{queue_name}-again", what="stream").collect()
    assert [(row["data"], row["retry"]["max_attempts"]) for row in again] == [('{"i":0}', 7), ('{"i":2}', 7)]


@pytest.mark.whole  # source and sink are each tested here
def test_a_stream_of_events_becomes_a_stream_of_jobs(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    for _ in range(2):
        add_events(redis86.url, queue_name, 400)
        jobs = (
            followed(spark, redis86.url, queue_name)
            .where("e = 'completed'")
            .selectExpr("'thank' as name", "_id as data")
        )
        writer = jobs.writeStream.format("relevo").options(
            url=redis86.url, queue=f"{queue_name}-next", dataFormat="text"
        )
        finish(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)
    done = events(spark, redis86.url, queue_name).where("e = 'completed'").select("_id").collect()
    found = events(spark, redis86.url, f"{queue_name}-next", what="stream").collect()
    assert Counter(json.loads(row["data"]) for row in found) == Counter(row["_id"] for row in done)


def test_a_thread_that_has_asked_for_the_session_can_write(
    spark: SparkSession, redis86: Server, queue_name: str
) -> None:
    rows = spark.range(3).selectExpr("'mail' as name", "id as data")

    def write() -> bool:
        mine = session()  # Spark looks a data source up in the session of the thread that writes
        rows.write.format("relevo").options(url=redis86.url, queue=queue_name).mode("append").save()
        return mine.sparkContext is spark.sparkContext

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(write).result()
    assert redis86.call("XLEN", QueueKeys(queue_name).stream) == 3


def test_wrong_uses_are_told_before_anything_runs(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    rows = spark.range(3).selectExpr("'mail' as name", "id as number")
    writer = rows.write.format("relevo").options(url=redis86.url, queue=queue_name)
    with pytest.raises(PySparkException, match="jobs have no such column"):
        writer.mode("append").save()
    with pytest.raises(PySparkException, match="a queue holds work of others"):
        rows.select("name").write.format("relevo").options(url=redis86.url, queue=queue_name).mode("overwrite").save()
    with pytest.raises(AnalysisException, match="there is none of that name"):
        events(spark, redis86.url, queue_name, qeues="x")
    with pytest.raises(PySparkException, match="No Redis answers at"):
        events(spark, "redis://127.0.0.1:1", queue_name, timeoutSeconds="1").collect()


def test_no_plan_log_or_event_holds_a_secret(
    spark: SparkSession, launch: Launch, queue_name: str, tmp_path: Path
) -> None:
    server, secret = launch(Redis86), "sesame-4711"
    server.call("ACL", "SETUSER", "spark", "on", f">{secret}", "~*", "+@all")
    url = server.url.replace("redis://", f"redis://spark:{secret}@")
    add_events(url, queue_name, 10)
    frame = events(spark, url, queue_name).where("e = 'active'").selectExpr("'x' as name")
    frame.write.format("relevo").options(url=url, queue=f"{queue_name}-next").mode("append").save()
    stream = followed(spark, url, queue_name).selectExpr("'x' as name")
    writer = stream.writeStream.format("relevo").options(url=url, queue=f"{queue_name}-next")
    query = finish(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)
    wrong = events(spark, f"redis://spark:{secret}@127.0.0.1:1", queue_name, timeoutSeconds="1")
    with pytest.raises(PySparkException, match="No Redis answers") as caught:
        wrong.collect()
    logs = [log_of(spark), *tmp_path.rglob("*"), *Path(str(spark.conf.get("spark.eventLog.dir"))).rglob("*")]
    written = b"".join(file.read_bytes() for file in logs if file.is_file())
    assert queue_name.encode() in written  # the offsets, at least: we looked where something is
    plans = str(frame._jdf.queryExecution().toString())
    assert "relevo" in plans
    assert secret not in plans + str(query.lastProgress) + str(caught.value)
    assert secret.encode() not in written


def test_text_that_is_no_json_is_named_by_its_row(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    rows = spark.sql("select 'mail' as name, '{oops' as data")
    with pytest.raises(PySparkException, match="data of row 0") as caught:
        rows.write.format("relevo").options(url=redis86.url, queue=queue_name).mode("append").save()
    assert "oops" not in str(caught.value).split("Driver stacktrace")[0]


def test_python_workers_come_from_a_process_that_has_imported_what_they_need(spark: SparkSession) -> None:
    def seen(_: int) -> tuple[bytes, bool]:
        imported = "relevo.pipeline.connector.source" in sys.modules
        # Spark collects garbage behind every task: what was imported is no part of that.
        return Path(f"/proc/{os.getppid()}/cmdline").read_bytes(), imported and gc.get_freeze_count() > len(
            gc.get_objects()
        )

    ((command, frozen),) = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    assert b"relevo.pipeline.worker_daemon" in command
    assert frozen


def test_a_queue_is_a_view_of_sql(spark: SparkSession, redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 8)
    view = queue_name.replace("-", "_")
    spark.sql(f"CREATE TEMPORARY VIEW {view} USING relevo OPTIONS (url '{redis86.url}', queues '{queue_name}')")
    found = spark.sql(f"SELECT e, count(*) AS number FROM {view} GROUP BY e").collect()  # noqa: S608
    assert {row["e"]: row["number"] for row in found} == dict.fromkeys(("waiting", "active", "completed", "drained"), 2)
    spark.catalog.dropTempView(view)
