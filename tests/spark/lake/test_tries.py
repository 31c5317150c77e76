"""Python workers that do not connect or die: a job tries again, every event and every row is there once, and it is said."""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql.types import StructType

from relevo.errors import IngestFailed, WorkersFailed
from relevo.pipeline.commands.ingest import Batch, Ingest
from relevo.pipeline.commands.load import load
from relevo.pipeline.commands.replay import replay
from relevo.pipeline.commands.tries import Tries
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.source import RelevoSource
from relevo.pipeline.connector.stream_reader import StreamReader
from relevo.pipeline.lake.lake import Lake
from relevo.wire.keys import QueueKeys
from tests.servers.server import Server
from tests.spark.connector.filled import add_events, add_letters
from tests.spark.connector.test_exactly_once import fed
from tests.spark.refusing import STREAM_READER, TASKS, refusing


def never() -> bool:
    return False


SOON = Tries(limit=3, pause_s=0.01, busy=never)


def taken(lake: Lake) -> Counter[str]:
    rows: Any = lake.arrow("bronze.events", columns=["_id"])
    return Counter(rows["_id"].to_pylist())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        each.message for each in caplog.records if each.name == "relevo.pipeline" and each.levelno == logging.WARNING
    ]


def test_an_ingest_whose_reader_does_not_connect_tries_again_and_takes_every_event_once(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = add_events(redis86.url, queue_name, 300)
    lake = Lake(tmp_path / "lake")
    with refusing(spark, tmp_path, STREAM_READER, starts=1) as python:
        assert Ingest(lake, spark, tries=SOON).once({"url": redis86.url, "queues": queue_name}) == 300
    assert python.starts == 2
    assert taken(lake) == Counter(ids)
    (said,) = warnings(caplog)
    assert "the ingest: Python worker failed to connect back" in said
    assert "try 1 of 3" in said


@pytest.mark.whole
def test_pauses_grow_from_try_to_try(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = add_events(redis86.url, queue_name, 20)
    lake = Lake(tmp_path / "lake")
    began = time.monotonic()
    with refusing(spark, tmp_path, TASKS, starts=2):
        Ingest(lake, spark, tries=Tries(limit=3, pause_s=0.5, busy=never)).once(
            {"url": redis86.url, "queues": queue_name}
        )
    assert time.monotonic() - began >= 1.5
    assert taken(lake) == Counter(ids)
    assert [said.partition("try ")[2] for said in warnings(caplog)] == [
        "1 of 3 failed; the next one begins in 0.5 s",
        "2 of 3 failed; the next one begins in 1.0 s",
    ]


@pytest.mark.whole
def test_an_ingest_that_never_gets_a_worker_ends_with_what_to_do(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    add_events(redis86.url, queue_name, 20)
    with refusing(spark, tmp_path, TASKS, starts=1000), pytest.raises(IngestFailed) as failed:
        Ingest(Lake(tmp_path / "lake"), spark, tries=SOON).once({"url": redis86.url, "queues": queue_name})
    assert "3 times in a row" in str(failed.value)
    assert "local[1]" in str(failed.value)
    assert "memory" in str(failed.value)


class Dying(StreamReader):
    """Its first task after there is a file `now` dies as if the system had killed it for its memory: once."""

    folder: Path

    def read(self, partition: Any) -> Iterator[Any]:
        if (self.folder / "now").exists() and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os._exit(137)
        return super().read(partition)


def dying(folder: Path) -> type[RelevoSource]:
    class Source(RelevoSource):
        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            reader = Dying(SourceOptions.parse(self.options), to_arrow_schema(schema, timezone="UTC"))
            reader.folder = folder
            return reader

    return Source


@pytest.mark.whole  # a killed driver is tested in test_exactly_once.py
def test_a_worker_that_dies_in_the_middle_of_following_doubles_and_loses_nothing(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = add_events(redis86.url, queue_name, 500)
    lake, batches = Lake(tmp_path / "lake"), list[Batch]()

    def told(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 2:
            (tmp_path / "now").touch()

    job = Ingest(lake, spark, taken=told, tries=SOON)
    options = {"url": redis86.url, "queues": queue_name, "maxRowsPerTrigger": "100"}
    spark.dataSource.register(dying(tmp_path))
    try:
        job.follow(options, every_s=0.1, stop=lambda: job.rows >= 500)
    finally:
        spark.dataSource.register(RelevoSource)
    assert (tmp_path / "died").exists()
    assert taken(lake) == Counter(ids)
    (said,) = warnings(caplog)
    assert "Python worker exited unexpectedly; try 1 of 3" in said


@pytest.mark.whole  # a session of its own
def test_a_cause_that_stays_is_told_at_once(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = add_events(redis86.url, queue_name, 40)
    lake, options = Lake(tmp_path / "lake"), {"url": redis86.url, "queues": queue_name, "maxRowsPerTrigger": "10"}
    Ingest(lake, spark).once(options)
    add_events(redis86.url, queue_name, 40)
    redis86.call("XTRIM", QueueKeys(queue_name).events, "MAXLEN", 5)
    with pytest.raises(IngestFailed, match="were trimmed before"):
        Ingest(lake, spark).once(options)
    assert taken(lake) == Counter(ids)
    assert warnings(caplog) == []


@pytest.mark.whole  # as the ingest above
def test_a_load_whose_workers_do_not_start_at_first_sends_every_row_once(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = spark.range(200).selectExpr("'mail' as name", "cast(id as string) as data")
    with refusing(spark, tmp_path, TASKS, starts=1):
        done = load(rows, queue_name, options={"url": redis86.url, "dataFormat": "text"}, tries=SOON)
    assert done.sent == 200
    assert Counter(fed(redis86, queue_name)) == Counter(str(number) for number in range(200))
    assert len(warnings(caplog)) == 1


@pytest.mark.whole
def test_a_replay_whose_workers_do_not_start_at_first_sends_every_letter_once(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_letters(redis86, queue_name)
    with refusing(spark, tmp_path, TASKS, starts=1):
        done = replay(spark, queue_name, options={"url": redis86.url}, tries=SOON)
    assert done.sent == done.chosen == len(fed(redis86, queue_name)) > 0
    assert len(warnings(caplog)) == 1


@pytest.mark.whole  # as the ingest above
def test_a_load_that_never_gets_a_worker_ends_with_what_to_do(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    rows = spark.range(2).selectExpr("'mail' as name", "cast(id as string) as data")
    with refusing(spark, tmp_path, TASKS, starts=1000), pytest.raises(WorkersFailed, match=r"local\[1\]"):
        load(rows, queue_name, options={"url": redis86.url}, tries=SOON)
