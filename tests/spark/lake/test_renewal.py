"""Storage and renewal: half-written files are invisible, broken tables keep their last good version, small files become one."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relevo.pipeline.jobs.progress import Step
from relevo.pipeline.jobs.renewal import Renewal
from relevo.pipeline.lake.lake import Lake, Staged

USAGE = "day timestamp, tenant string, queue string, messages bigint, bytes bigint, handler_s double, reviews bigint"


def usage(spark: SparkSession, messages: int, day: int = 20_000, queue: str = "emails") -> DataFrame:
    row = f"timestamp_millis({day * 86_400_000}) day, '' tenant, '{queue}' queue, {messages}L messages"
    return spark.sql(f"SELECT {row}, 0L bytes, 1.5D handler_s, 0L reviews")


def stage(lake: Lake, rows: DataFrame) -> Staged:
    return lake.stage("gold.usage", rows, F.floor(F.unix_millis("day") / 86_400_000))


def told(lake: Lake) -> list[int]:
    rows: Any = lake.arrow("gold.usage")
    return [] if rows is None else sorted(rows["messages"].to_pylist())


def test_staged_files_are_invisible_until_they_are_committed_and_garbage_always_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    staged = stage(lake, usage(spark, 5))
    (tmp_path / "gold/usage/2024-10-04/half-written.parquet").write_bytes(b"PAR1 and then a crash")
    assert told(lake) == []
    assert lake.read(spark, "gold.usage") is None
    lake.commit(staged, instead=True)
    assert told(lake) == [5]
    found = lake.read(spark, "gold.usage")
    assert found is not None
    assert found.count() == 1


def test_a_broken_table_keeps_its_last_good_version_says_why_and_stops_what_is_built_from_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, said = Lake(tmp_path), list[Step]()
    assert Renewal(lake, spark, said.append).renew("gold.usage", lambda: stage(lake, usage(spark, 5)))
    work = Renewal(lake, spark, said.append)
    doubled = usage(spark, -1).unionByName(usage(spark, -1))
    assert not work.renew("gold.usage", lambda: stage(lake, doubled))
    assert told(lake) == [5]
    assert said[-1].state == "broken"
    assert "messages is not negative: not so for 2 rows" in said[-1].reason
    assert "no two rows have the same day, tenant, queue: not so for 1 row" in said[-1].reason
    assert "Version 1 is still there" in " ".join(said[-1].reason.split())
    complaint = lake.complaint("gold.usage")
    assert complaint is not None
    assert complaint["kept_version"] == 1

    assert work.stopped("gold.forecast", "gold.usage")
    assert not work.stopped("gold.latency", "silver.sketches")
    assert (said[-1].table, said[-1].state) == ("gold.forecast", "skipped")

    assert Renewal(lake, spark).renew("gold.usage", lambda: stage(lake, usage(spark, 7)))
    assert (told(lake), lake.complaint("gold.usage")) == ([7], None)


def test_compaction_makes_one_file_of_many_and_leaves_alone_what_readers_have_not_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    rows = usage(spark, 1).coalesce(1)
    for _ in range(4):
        lake.commit(stage(lake, rows), instead=False)
    assert lake.compact(spark, "gold.usage", upto=3, least=3) == 3
    manifest = lake.manifest("gold.usage")
    assert sorted((file.rows, file.added_in) for file in manifest.files()) == [(1, 4), (3, 3)]
    assert manifest.changed(4) == set()
    assert told(lake) == [1, 1, 1, 1]


def test_vacuum_deletes_what_no_kept_version_names_once_it_is_old(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for messages in (1, 2, 3):
        lake.commit(stage(lake, usage(spark, messages)), instead=True)
    (orphan := tmp_path / "gold/usage/2024-10-04/orphan.parquet").write_bytes(b"")
    assert lake.vacuum("gold.usage", keep=2) == 0  # too young to be sure that nobody is about to commit it
    for file in (tmp_path / "gold/usage/2024-10-04").iterdir():
        os.utime(file, (time.time() - 7200, time.time() - 7200))
    assert lake.vacuum("gold.usage", keep=2) == 2
    assert not orphan.exists()
    assert told(lake) == [3]


@pytest.mark.parametrize("keys", [["2024-10-04"], ["2024-10-05"]])
def test_partitions_are_read_apart(keys: list[str], spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(stage(lake, usage(spark, 4).unionByName(usage(spark, 5, day=20_001))), instead=True)
    rows = lake.read(spark, "gold.usage", keys)
    assert rows is not None
    assert [row["messages"] for row in rows.collect()] == [4 if keys == ["2024-10-04"] else 5]
