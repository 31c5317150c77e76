"""Spark as a worker, whole: queries that consume a queue, one of them killed with SIGKILL again and again."""

import asyncio
import math
import os
import random
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from relevo import Queue
from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.servers.child import Child
from tests.servers.leaks import KeyLeaks
from tests.servers.server import Redis86, Server
from tests.spark.connector.batch_worker import BATCH
from tests.spark.connector.filled import send
from tests.spark.queries import finish


async def add(url: str, name: str, count: int) -> set[str]:
    async with Queue(name, redis_url=url) as queue:
        added = await queue.add_bulk([{"name": "score", "data": each} for each in range(count)])
        return {job.id for job in added}


async def dead(url: str, name: str) -> set[str]:
    async with Queue(name, redis_url=url) as queue:
        return {letter["detail"] for letter in await queue.peek_dlq(10)}


def test_a_query_takes_jobs_and_tells_which_failed(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    asyncio.run(add(redis86.url, queue_name, 30))
    source = {"url": redis86.url, "queue": queue_name}
    jobs = spark.readStream.format("relevo").options(**source, mode="consume", maxRowsPerTrigger="12").load()
    odd = F.when(F.col("data").cast("int") % 10 == 3, "no model for it")
    told = jobs.select("_id", "_taken_by", odd.alias("error"), F.lit(True).alias("final"))
    settling = told.writeStream.format("relevo").options(**source, mode="settle")
    finish(settling.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)
    keys = QueueKeys(queue_name)
    length, letters = send(redis86.url, keys.stream, [("XLEN", keys.stream), ("XLEN", keys.dead)])
    assert (length, letters) == (0, 3)
    assert asyncio.run(dead(redis86.url, queue_name)) == {"relevo.errors.UnrecoverableError: no model for it"}


def killed_rounds(server: Server, queue: str, folder: Path, key_leaks: KeyLeaks, *, jobs: int, rounds: int) -> None:
    """Every job runs, and none runs again that was settled: a kill brings back one batch at most."""
    ids = asyncio.run(add(server.url, queue, jobs))
    keys, runs = QueueKeys(queue), QueueKeys(queue).tag + b":runs"
    key_leaks.allow(runs.decode())
    command = (sys.executable, "-m", "tests.spark.connector.batch_worker", server.url, queue, runs.decode(), folder)
    for round_ in range(rounds + 1):
        environment = {**os.environ, "TMPDIR": str(folder)}
        with Child(*command, env=environment, logs=[folder / "spark.log"], group=True) as driver:
            assert driver.line(timeout=120) == "running"
            began = counted(server, runs)
            target = min(jobs, len(began) + (jobs // (rounds + 1)) // 2) if round_ < rounds else None
            driver.wait_until(partial(over, server, queue, runs, target), "jobs to run", timeout=240)
            if target is not None:
                time.sleep(random.uniform(0, 0.5))  # and then any moment: there is none to wait for
    found = counted(server, runs)
    assert ids == found.keys()
    failed = math.ceil(jobs / 10)  # run twice by intention
    assert sum(found.values()) <= jobs + failed + rounds * BATCH
    (letters,) = send(server.url, keys.dead, [("XLEN", keys.dead)])
    assert letters == 0


def counted(server: Server, runs: bytes) -> dict[str, int]:
    (flat,) = cast("list[Any]", send(server.url, runs, [("HGETALL", runs)]))
    return {key.decode(): int(value) for key, value in zip(flat[::2], flat[1::2], strict=True)}


def over(server: Server, queue: str, runs: bytes, target: int | None) -> bool:
    if target is not None:
        return len(counted(server, runs)) >= target
    keys = QueueKeys(queue)
    return send(server.url, keys.stream, [("XLEN", keys.stream), ("ZCARD", keys.delayed)]) == [0, 0]


@pytest.mark.whole  # it starts a JVM twice; test_consume.py tells the same of its parts, without one
@pytest.mark.timeout(600)
def test_a_query_that_is_killed_loses_no_job_and_runs_none_again_that_was_settled(
    launch: Launch, queue_name: str, tmp_path: Path, key_leaks: KeyLeaks
) -> None:
    killed_rounds(launch(Redis86), queue_name, tmp_path, key_leaks, jobs=600, rounds=1)


@pytest.mark.scale
@pytest.mark.timeout(1800)
def test_a_query_that_is_killed_ten_times_loses_no_job(
    launch: Launch, queue_name: str, tmp_path: Path, key_leaks: KeyLeaks
) -> None:
    killed_rounds(launch(Redis86), queue_name, tmp_path, key_leaks, jobs=10_000, rounds=10)
