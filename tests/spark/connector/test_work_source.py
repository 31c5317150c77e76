"""The tables of the work queues as DataFrames, from every database."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from sqlalchemy import Engine, create_engine, insert

from relevo.errors import BadArgument, ServerRefused
from relevo.pipeline.connector.work_source import WorkReader, WorkSource
from relevo.work.store.tables import audit, metadata
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgres import PostgresServer

SOME = StructType([StructField("id", LongType()), StructField("action", StringType()), StructField("at", LongType())])


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database with the tables, as the work queues would write it."""
    name = f"spark_{uuid.uuid4().hex[:12]}"
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/work.db"
    elif request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        postgres.create(name)
        url = postgres.url("psycopg", name)
    else:
        mariadb: MariaDbServer = request.getfixturevalue("mariadb")
        mariadb.create(name)
        url = mariadb.url("pymysql", name)
    engine = create_engine(url)
    metadata.create_all(engine)
    fill(engine, 250)
    engine.dispose()
    return url


def fill(engine: Engine, count: int) -> None:
    rows = [
        {
            "tenant_id": 1,
            "at": 1000 + n,
            "actor": "ada",
            "action": f"a-{n}",
            "target": "t",
            "request_id": "r",
            "after": "{}",
        }
        for n in range(count)
    ]
    with engine.begin() as connection:
        connection.execute(insert(audit), rows)


def reader(url: str, schema: StructType = SOME, **options: str) -> WorkReader:
    found = WorkSource({"url": url, "table": "audit", **options}).reader(schema)
    assert isinstance(found, WorkReader)
    return found


def rows(found: WorkReader) -> list[dict[str, Any]]:
    return [row for part in found.partitions() for batch in found.read(part) for row in batch.to_pylist()]


def test_a_table_is_read_in_ranges_of_its_key(database: str) -> None:
    found = reader(database, rowsPerPartition="60")
    assert len(found.partitions()) == 5
    assert [row["action"] for row in rows(found)] == [f"a-{n}" for n in range(250)]


def test_rows_that_come_after_the_plan_are_not_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    engine = create_engine(url)
    metadata.create_all(engine)
    found = reader(url)
    assert rows(found) == []
    fill(engine, 10)
    planned = found.partitions()
    fill(engine, 10)
    assert sum(batch.num_rows for part in planned for batch in found.read(part)) == 10
    engine.dispose()


def test_spark_reads_a_table(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/work.db"
    engine = create_engine(url.replace("+aiosqlite", ""))
    metadata.create_all(engine)
    fill(engine, 100)
    engine.dispose()
    frame = spark.read.format("relevo-work").options(url=url, table="audit", rowsPerPartition="30").load()
    assert frame.where("at >= 1050").agg({"at": "max"}).collect()[0][0] == 1099
    assert spark.read.format("relevo-work").options(url=url).load().count() == 0


def test_wrong_uses_are_named(tmp_path: Path) -> None:
    for options in (
        {"table": "nothing"},
        {"url": ""},
        {"url": "oracle://x"},
        {"rowsPerPartition": "0"},
        {"tabel": "x"},
    ):
        with pytest.raises(BadArgument):
            WorkSource({"url": "sqlite://", **options}).schema()
    with pytest.raises(BadArgument, match="no such column"):
        reader("sqlite://", StructType([StructField("id", IntegerType())]))


def test_a_database_that_is_away_is_told_without_its_password() -> None:
    with pytest.raises(ServerRefused) as caught:
        reader("postgresql://ada:sesame@127.0.0.1:1/work").partitions()
    assert "127.0.0.1:1" in str(caught.value)
    assert "sesame" not in str(caught.value)
