"""Storage and renewal: half-written files are invisible, broken tables keep their last good version, of two builds one wins."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relevo.errors import LakeChanged
from relevo.pipeline.commands.progress import Step
from relevo.pipeline.commands.renewal import Renewal
from relevo.pipeline.lake.lake import Lake, Staged

USAGE = "day timestamp, tenant string, queue string, messages bigint, bytes bigint, handler_s double, reviews bigint"


def usage(spark: SparkSession, messages: int, day: int = 20_000, queue: str = "emails") -> DataFrame:
    row = f"timestamp_millis({day * 86_400_000}) day, '' source, '' tenant, '{queue}' queue, {messages}L messages"
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
    (tmp_path / "gold/usage/date=2024-10-04/half-written.parquet").write_bytes(b"PAR1 and then a crash")
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
    assert "no two rows have the same day, source, tenant, queue: not so for 1 row" in said[-1].reason
    assert "Version 1 is still there" in " ".join(said[-1].reason.split())
    complaint = lake.complaint("gold.usage")
    assert complaint is not None
    assert complaint["kept_version"] == 1

    assert work.stopped("gold.forecast", "gold.usage")
    assert not work.stopped("gold.latency", "silver.sketches")
    assert (said[-1].table, said[-1].state) == ("gold.forecast", "skipped")

    assert Renewal(lake, spark).renew("gold.usage", lambda: stage(lake, usage(spark, 7)))
    assert (told(lake), lake.complaint("gold.usage")) == ([7], None)


def test_a_build_that_began_before_another_one_ended_is_told_and_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    first, second = Renewal(lake, spark), Renewal(lake, spark)
    assert second.renew("gold.usage", lambda: stage(lake, usage(spark, 7)), built_from={"silver.counts": 2})
    with pytest.raises(LakeChanged, match="Two builds of one lake"):
        first.renew("gold.usage", lambda: stage(lake, usage(spark, 5)), built_from={"silver.counts": 1})
    assert (told(lake), lake.taken("gold.usage", "silver.counts")) == ([7], 2)


def test_spark_reads_old_and_new_files_side_by_side_with_all_columns(spark: SparkSession, tmp_path: Path) -> None:
    """INT96 and MICROS, with a column more: as two sessions with other settings and other releases write them."""
    lake = Lake(tmp_path)
    lake.commit(stage(lake, usage(spark, 1)), instead=False)
    (old,) = (tmp_path / "gold/usage").rglob("*.parquet")
    written: Any = pq.ParquetFile(old).read()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    pq.write_table(written, old, use_deprecated_int96_timestamps=True)  # pyright: ignore[reportUnknownMemberType]
    lake.commit(stage(lake, usage(spark, 2).withColumn("colour", F.lit("red"))), instead=False)
    rows = lake.read(spark, "gold.usage")
    assert rows is not None
    found = sorted((row["messages"], row["colour"], row["day"].day) for row in rows.collect())
    assert found == [(1, None, 4), (2, "red", 4)]


@pytest.mark.parametrize("keys", [["2024-10-04"], ["2024-10-05"]])
def test_partitions_are_read_apart(keys: list[str], spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.commit(stage(lake, usage(spark, 4).unionByName(usage(spark, 5, day=20_001))), instead=True)
    rows = lake.read(spark, "gold.usage", keys)
    assert rows is not None
    assert [row["messages"] for row in rows.collect()] == [4 if keys == ["2024-10-04"] else 5]
