"""The connector's story, as one would write it in a notebook: what happened becomes rows, and rows become work."""

import asyncio
from pathlib import Path

from pyspark.sql import SparkSession

from relevo import Job, Queue, Worker
from relevo.pipeline.connector.source import RelevoSource
from tests.servers.server import Server


def test_what_happened_becomes_rows_and_rows_become_work(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    asyncio.run(run_some_jobs(redis86.url, queue_name, ["ada", "grace", "edsger"]))

    spark.dataSource.register(RelevoSource)
    events = spark.read.format("relevo").option("url", redis86.url).option("queues", queue_name).load()
    done = events.where("e = 'completed'")
    assert sorted(row.n for row in done.collect()) == ["mail"] * 3

    letters = done.selectExpr("'thank' as name", "to_json(named_struct('job', id)) as data")
    follow = f"{queue_name}-next"
    letters.write.format("relevo").option("url", redis86.url).option("queue", follow).mode("append").save()

    jobs = spark.read.format("relevo").options(url=redis86.url, queues=follow, what="stream").load()
    finished = {row.id for row in done.collect()}
    assert {row.data for row in jobs.collect()} == {f'{{"job":"{job_id}"}}' for job_id in finished}
    assert asyncio.run(run_all(redis86.url, follow, 3)) == {("thank", job_id) for job_id in finished}


async def run_some_jobs(url: str, name: str, people: list[str]) -> None:
    done = asyncio.Queue[str]()

    async def handle(job: Job) -> None:
        done.put_nowait("")

    async with Queue(name, redis_url=url) as queue, Worker(name, handle, redis_url=url):
        for person in people:
            await queue.add("mail", {"to": person})
        for _ in people:
            await done.get()


async def run_all(url: str, name: str, count: int) -> set[tuple[str, str]]:
    done = asyncio.Queue[tuple[str, str]]()

    async def handle(job: Job) -> None:
        done.put_nowait((job.name, job.data["job"]))

    async with Worker(name, handle, redis_url=url):
        return {await done.get() for _ in range(count)}
