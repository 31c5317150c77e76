"""The jobs on real queues: events of real workers of both libraries into bronze, dead letters back, rows into a queue."""

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relevo import Queue, UnrecoverableError
from relevo.errors import BadArgument, IngestFailed
from relevo.pipeline.commands import load as loading
from relevo.pipeline.commands.build import build
from relevo.pipeline.commands.ingest import Batch, Ingest
from relevo.pipeline.commands.replay import replay
from relevo.pipeline.lake.lake import Lake
from relevo.wire.keys import QueueKeys
from tests.pace import limit
from tests.servers.server import Server
from tests.spark.connector.filled import add_events
from tests.spark.lake import plain
from tests.spark.lake.happenings import Row
from tests.support.side import Side

pytestmark = pytest.mark.timeout(300)


async def work(side: Side, server: Server, queue: str, number: int) -> None:
    """`number` jobs by one library: most are done, some fail once, one is dead."""
    failed: set[str] = set()

    async def handle(job: Any) -> None:
        if job.data["n"] == 3:
            raise side.module.UnrecoverableError("bad template 17")
        if job.data["n"] % 5 == 0 and job.id not in failed:
            failed.add(job.id)
            raise RuntimeError(f"no route to 10.0.0.{job.data['n']}")

    producer = side.queue()
    async with side.worker(handle):
        for number_of_job in range(number):
            await producer.add("send", {"n": number_of_job})
        async with asyncio.timeout(limit(40)):
            await side.events_until(_all_ended(number))


def _all_ended(number: int) -> Any:
    ended: set[str] = set()

    def last(event: Any) -> bool:
        if event.name in ("completed", "dlq"):
            ended.add(event.job_id)
        return len(ended) == number

    return last


def taken(lake: Lake) -> list[Row]:
    rows: Any = lake.arrow("bronze.events")
    return [] if rows is None else rows.to_pylist()


@pytest.mark.whole  # a day of both rooms is added up in test_build.py, and events of ChasquiMQ are read in tests/interop
async def test_events_of_real_workers_of_both_libraries_give_the_numbers_of_a_plain_recomputation(
    spark: SparkSession, redis86: Server, tmp_path: Path
) -> None:
    names = {"relevo": "lake-ours", "chasquimq": "lake-theirs"}
    for library, queue in names.items():
        side = Side(library, redis86.url, queue)
        try:
            await work(side, redis86, queue, 20)
        finally:
            await side.close()
    lake = Lake(tmp_path)
    new = await asyncio.to_thread(Ingest(lake, spark).once, {"url": redis86.url, "queues": "lake-*"})
    written = sum(redis86.call("XLEN", QueueKeys(queue).events) for queue in names.values())
    assert (new, len(taken(lake))) == (written, written)

    rows = sorted(taken(lake), key=lambda row: tuple(map(int, row["_id"].split("-"))))
    ours = plain.jobs_of([row for row in rows if row["e"] != "drained"])
    built = await asyncio.to_thread(build, lake, spark)
    assert built.broken == ()
    silver = Counter(
        (row["queue"], row["job_id"], row["outcome"], row["attempts"]) for row in lake.arrow("silver.jobs").to_pylist()
    )
    assert silver == Counter((job.queue, job.id, job.outcome, job.attempts) for job in ours)
    assert Counter((key[0], key[2]) for key in silver) == {
        (queue, outcome): number for queue in names.values() for outcome, number in (("done", 19), ("dead", 1))
    }
    counted = ("arrived", "started", "done", "failed", "retried", "dead")
    gold = {
        (round(row["minute"].timestamp() * 1000), row["source"], row["queue"], row["name"]): Counter(
            {name: row[name] for name in counted if row[name]}
        )
        for row in lake.arrow("gold.throughput").to_pylist()
    }
    assert {place: counts for place, counts in gold.items() if counts} == plain.minutes_of(ours)
    failures: list[Row] = lake.arrow("gold.failures").to_pylist()
    said = {queue: {row["reason"] for row in failures if row["queue"] == queue} for queue in names.values()}
    assert said[names["chasquimq"]] >= {"bad template <n>", "no route to <address>"}
    assert said[names["relevo"]] >= {
        "relevo.errors.UnrecoverableError: bad template <n>",
        "RuntimeError: no route to <address>",
    }


def test_every_event_is_taken_once_also_when_a_batch_comes_again_or_the_checkpoint_is_lost(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    options = {"url": redis86.url, "queues": queue_name}
    ids = add_events(redis86.url, queue_name, 1000)
    assert Ingest(lake, spark).once(options) == 1000
    assert Ingest(lake, spark).once(options) == 0

    def die(batch: Batch) -> None:
        raise RuntimeError("killed after the rows became visible, before Spark wrote it down")

    ids += add_events(redis86.url, queue_name, 500)
    with pytest.raises(IngestFailed, match="Run it again"):
        Ingest(lake, spark, taken=die).once(options)
    assert Ingest(lake, spark).once(options) == 0
    shutil.rmtree(tmp_path / "bronze" / "_checkpoint")
    ids += add_events(redis86.url, queue_name, 100)
    assert Ingest(lake, spark).once({**options, "maxRowsPerTrigger": "400"}) == 100
    assert Counter(row["_id"] for row in taken(lake)) == Counter(ids)


@pytest.mark.whole  # events of one server are taken by the test above
def test_events_of_two_servers_all_arrive_in_one_lake(
    spark: SparkSession, redis86: Server, valkey: Server, queue_name: str, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    servers = {"eu": redis86, "us": valkey}
    ids = {name: add_events(server.url, queue_name, 40) for name, server in servers.items()}
    for name, server in servers.items():
        options = {"url": server.url, "queues": queue_name, "source": name}
        assert [Ingest(lake, spark).once(options) for _ in range(2)] == [40, 0]
    assert Counter((row["source"], row["_id"]) for row in taken(lake)) == Counter(
        (name, entry) for name, own in ids.items() for entry in own
    )


@pytest.mark.whole  # its command is tested in test_pipeline_commands.py
async def test_dead_letters_that_sql_picks_and_changes_go_back_once(
    spark: SparkSession, redis86: Server, queue_name: str
) -> None:
    async def broken(job: Any) -> None:
        raise UnrecoverableError(f"no template {job.data['id']}")

    side = Side("relevo", redis86.url, queue_name)
    async with side.worker(broken):
        for number in range(6):
            await side.queue().add("print", {"id": number})
        async with asyncio.timeout(limit(30)):
            await side.events_until(_all_ended(6))
    await side.close()
    given: dict[str, Any] = {
        "where": "get_json_object(data, '$.id') < 4",
        "change": {"data": """to_json(named_struct('id', cast(get_json_object(data, '$.id') as int), 'copies', 1))"""},
        "options": {"url": redis86.url},
    }
    meant = await asyncio.to_thread(lambda: replay(spark, queue_name, dry_run=True, **given))
    assert (meant.letters, meant.chosen, meant.sent, meant.reasons) == (6, 4, 0, {"unrecoverable": 4})
    done = await asyncio.to_thread(lambda: replay(spark, queue_name, **given))
    again = await asyncio.to_thread(lambda: replay(spark, queue_name, **given))
    assert (done.sent, again.chosen) == (4, 0)
    async with Queue(queue_name, redis_url=redis86.url) as queue:
        waiting = await queue.get_jobs("waiting")
        assert sorted(job.data["id"] for job in waiting) == [0, 1, 2, 3]
        assert all(job.data["copies"] == 1 for job in waiting)
        assert await queue.dead_letters.count() == 2


def test_a_condition_that_is_no_sql_is_told_before_anything_is_sent(
    spark: SparkSession, redis86: Server, queue_name: str
) -> None:
    with pytest.raises(BadArgument, match="retries_exhausted"):
        replay(spark, queue_name, where="reson = 'stalled'", options={"url": redis86.url})


@pytest.mark.whole  # its command is tested in test_pipeline_commands.py
async def test_rows_of_a_csv_file_become_jobs_and_a_second_run_adds_none(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    file.write_text("name,age\nada,36\nalan,41\ngrace,85\n")

    def go(dry_run: bool = False) -> loading.Loaded:
        sql = "SELECT name AS who, age FROM rows WHERE age < 80"
        rows = loading.query(spark, loading.table(spark, file), sql)
        options = {"url": redis86.url}
        again = loading.write_id_of(file, queue_name, sql)
        return loading.load(rows, queue_name, name="greet", write_id=again, dry_run=dry_run, options=options)

    meant = await asyncio.to_thread(go, True)
    assert (meant.rows, meant.sent, json.loads(meant.sample[0]["data"])) == (2, 0, {"who": "ada", "age": 36})
    for _ in range(2):
        await asyncio.to_thread(go)
    async with Queue(queue_name, redis_url=redis86.url) as queue:
        waiting = await queue.get_jobs("waiting")
    assert sorted((job.name, job.data["who"]) for job in waiting) == [("greet", "ada"), ("greet", "alan")]
