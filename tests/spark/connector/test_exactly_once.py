"""The driver killed with SIGKILL at any moment: every event once in the table and in the lake, every row once in the queue."""

import math
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relevo.pipeline.lake.lake import Lake
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.payload import decode_payload
from tests.conftest import Launch
from tests.servers.child import Child
from tests.servers.server import Redis7, Redis86, Server
from tests.spark.connector.driver import BATCH
from tests.spark.connector.filled import add_events, send


def killed_rounds(spark: SparkSession, server: Server, queue: str, folder: Path, *, events: int, rounds: int) -> None:
    ids = add_events(server.url, queue, events)
    command = (sys.executable, "-m", "tests.spark.connector.driver", server.url, queue, folder)
    batches = 3 * math.ceil(events / BATCH)  # of the three queries together
    for round_ in range(rounds + 1):
        killed_at = min(_committed(folder) + random.randint(0, 5), batches - 1)
        # A group, so that its JVM and the Python workers die with it; and who is killed cannot tidy up.
        environment = {**os.environ, "TMPDIR": str(folder)}
        with Child(*command, env=environment, logs=[folder / "spark.log"], group=True) as driver:
            assert driver.line(timeout=120) == "running"
            if round_ < rounds:
                _until_committed(driver, folder, killed_at)
                time.sleep(random.uniform(0, 2))  # and then any moment: there is none to wait for
            else:
                assert driver.line(timeout=240) == "done"
    found = [row["_id"] for row in spark.read.parquet(str(folder / "table")).select("_id").collect()]
    assert Counter(found) == Counter(ids)
    bronze: Any = Lake(folder / "lake").arrow("bronze.events", columns=["_id"])
    assert Counter(bronze["_id"].to_pylist()) == Counter(ids)
    assert Counter(fed(server, f"{queue}-next")) == Counter(ids)


def _until_committed(driver: Child, folder: Path, batches: int) -> None:
    """Batches, not seconds: so that kills lie over the whole of the work on a slow machine and on a fast one. A driver that has
    done all its work meanwhile has ended by itself, and the next one finds nothing to do."""

    def reached() -> bool:
        return _committed(folder) >= batches or driver.process.poll() == 0

    driver.wait_until(reached, f"{batches} batches", timeout=240)


def _committed(folder: Path) -> int:
    """Of the three queries together: each writes a file for a batch that is over."""
    queries = ("ingested", "fed", "lake/bronze/_checkpoint")
    return sum(1 for query in queries for _ in (folder / query).glob("commits/[0-9]*"))


def fed(server: Server, queue: str) -> list[str]:
    key, after, found = QueueKeys(queue).stream, "-", list[str]()
    while True:
        (page,) = send(server.url, key, [("XRANGE", key, after, "+", "COUNT", 5000)])
        assert isinstance(page, list)
        found += [decode_payload(Envelope.decode(entry[1][1]).payload) for entry in page]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if not page:
            return found
        after = f"({page[-1][0].decode()}"  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.whole  # two JVMs more; a batch that comes again is taken once in tests/spark/lake/test_real_queues.py
@pytest.mark.timeout(300)
def test_a_driver_killed_at_any_moment_loses_and_doubles_nothing(
    spark: SparkSession, launch: Launch, queue_name: str, tmp_path: Path
) -> None:
    """Every round starts a JVM, which takes most of its time: one kill here, twenty where time is no matter."""
    killed_rounds(spark, launch(Redis86), queue_name, tmp_path, events=6_000, rounds=1)


@pytest.mark.scale
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [Redis86, Redis7], ids=["redis86", "redis7"])
def test_a_driver_killed_twenty_times_loses_and_doubles_nothing(
    spark: SparkSession, launch: Launch, queue_name: str, tmp_path: Path, kind: type[Redis86 | Redis7]
) -> None:
    killed_rounds(spark, launch(kind), queue_name, tmp_path, events=200_000, rounds=20)
