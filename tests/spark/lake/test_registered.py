"""The lake's tables by name in Spark SQL, also those that nobody has written yet."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from pathlib import Path

import duckdb
import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from relevo.errors import NoLake
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.tables import ALL
from tests.spark.lake.test_table_commands import OLD_DAY, rows


def test_a_table_without_rows_answers_with_its_declared_columns(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with pytest.raises(NoLake):
        lake.register(spark)
    lake.commit(lake.stage_arrow("gold.usage", {OLD_DAY: rows(OLD_DAY, 1, 2)}), instead=False)
    assert lake.register(spark) == [f"relevo_{spec.name}" for spec in ALL]
    for spec in ALL:
        if spec.name in (
            "bronze.events",
            "silver.reasons",
            "gold.latency",
        ):  # a map, a struct and bytes among their columns
            found = spark.table(f"relevo_{spec.name}")
            assert found.columns == [*(column.name for column in spec.columns), *spec.partition_columns]
            assert found.collect() == []
    (total,) = spark.sql("SELECT sum(messages) AS n FROM relevo_gold.usage").collect()
    assert total["n"] == 3
    # What is written later is found under the same name.
    lake.commit(lake.stage_arrow("gold.failures", {OLD_DAY: _failure()}), instead=False)
    assert spark.table("relevo_gold.failures").count() == 1


def test_no_column_is_a_reserved_word_of_spark_or_duckdb(spark: SparkSession) -> None:
    names = sorted({name for spec in ALL for name in (*(each.name for each in spec.columns), *spec.partition_columns)})
    strict = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.enforceReservedKeywords": "true"}
    before = {name: spark.conf.get(name) for name in strict}
    try:
        for name, value in strict.items():
            spark.conf.set(name, value)
        with pytest.raises(ParseException):
            spark.sql("SELECT 1 AS in")
        assert spark.sql(f"SELECT {', '.join(f'1 AS {name}' for name in names)}").columns == names
    finally:
        for name, value in before.items():
            spark.conf.set(name, value or "")
    asked = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
    reserved = {word for (word,) in duckdb.connect().execute(asked).fetchall()}
    assert "in" in reserved
    assert reserved & set(names) == set()


def _failure() -> object:
    import pyarrow as pa

    return pa.table({"queue": ["emails"], "reason": ["no such user"], "count": pa.array([1], pa.int64())})
