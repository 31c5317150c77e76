"""The tables of the work queues as DataFrames, from every database."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from sqlalchemy import Engine, create_engine, delete, event, insert, update

from relevo.api.service import prepare
from relevo.errors import BadArgument, DataLost, ServerRefused
from relevo.pipeline.connector.audit_stream import AuditStream
from relevo.pipeline.connector.spark_api import ReadAllAvailable, ReadMaxRows
from relevo.pipeline.connector.work_source import WorkReader, WorkSource
from relevo.work.store.tables import audit, audit_chains
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
    engine = with_tables(url)
    fill(engine, 250)
    engine.dispose()
    return url


def with_tables(url: str) -> Engine:
    asyncio.run(prepare(url, upgrade=True))
    return create_engine(url)


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


def test_a_plan_takes_as_many_queries_for_many_parts_as_for_few(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    engine = with_tables(url)
    fill(engine, 250)
    engine.dispose()
    asked: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        asked.append(statement)

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        counts = [len(reader(url, rowsPerPartition=rows_each).partitions()) for rows_each in ("2", "200")]
    finally:
        event.remove(Engine, "before_cursor_execute", hear)
    assert counts == [125, 2]
    own = [statement for statement in asked if "audit" in statement]
    assert len(own) == 4
    assert not any("OFFSET" in statement for statement in own)


def test_rows_that_come_after_the_plan_are_not_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    engine = with_tables(url)
    found = reader(url)
    assert rows(found) == []
    fill(engine, 10)
    planned = found.partitions()
    fill(engine, 10)
    assert sum(batch.num_rows for part in planned for batch in found.read(part)) == 10
    engine.dispose()


def test_spark_reads_a_table(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/work.db"
    engine = with_tables(url.replace("+aiosqlite", ""))
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


# --- the audit as a stream -------------------------------------------------------------------------------------------------


def audited(url: str, *entries: tuple[int, str, int]) -> None:
    """Entries as a transaction writes them: an id, a chain, a number in it; and the head of the chain."""
    engine = create_engine(url)
    with engine.begin() as connection:
        for key, chain, number in entries:
            row = {"tenant_id": 1, "at": 1, "actor": "ada", "action": f"{chain}-{number}", "target": "t"}
            linked = {"id": key, "request_id": "r", "after": "{}", "chain": chain * 26, "chain_no": number, "hash": ""}
            connection.execute(insert(audit), [row | linked])
            connection.execute(delete(audit_chains).where(audit_chains.c.chain == chain * 26))
            head = {"chain": chain * 26, "began_after": "{}", "last_no": number, "last_hash": ""}
            connection.execute(insert(audit_chains), [head])
    engine.dispose()


def follow(url: str, **options: str) -> AuditStream:
    found = WorkSource({"url": url, "table": "audit", **options}).streamReader(SOME)
    assert isinstance(found, AuditStream)
    return found


def told(stream: AuditStream, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    parts = stream.partitions(start, end)
    return [row["action"] for part in parts for batch in stream.read(part) for row in batch.to_pylist()]


def test_every_entry_of_the_audit_is_streamed_once_also_one_that_commits_late(database: str) -> None:
    stream = follow(database)
    begun = stream.initialOffset()
    audited(database, (1001, "A", 1), (1003, "B", 1))
    first = stream.latestOffset(begun, ReadAllAvailable())
    assert told(stream, begun, first) == ["A-1", "B-1"]
    audited(database, (1002, "C", 1), (1004, "A", 2))  # the first of them has an id from before
    second = stream.latestOffset(first, ReadAllAvailable())
    assert told(stream, first, second) == ["C-1", "A-2"]
    assert stream.latestOffset(second, ReadAllAvailable()) == second
    assert told(follow(database), begun, first) == ["A-1", "B-1"]  # a batch that is planned again is the same


def test_a_batch_of_the_audit_has_as_many_rows_as_asked_for_and_loses_none(database: str) -> None:
    stream = follow(database)
    audited(database, *((1000 + n, "AB"[n % 2], n // 2 + 1) for n in range(7)))
    at, seen = stream.initialOffset(), list[str]()
    stream.prepareForTriggerAvailableNow()
    audited(database, (2000, "A", 5))  # too late for a query of what is there now
    while (end := stream.latestOffset(at, ReadMaxRows(3))) != at:
        batch = told(stream, at, end)
        assert 0 < len(batch) <= 3
        seen += batch
        at = end
    assert sorted(seen) == ["A-1", "A-2", "A-3", "A-4", "B-1", "B-2", "B-3"]


def test_entries_that_were_deleted_before_they_were_read_stop_the_stream(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/work.db"
    engine = with_tables(url)
    audited(url, (1, "A", 1), (2, "A", 2))
    with engine.begin() as connection:
        connection.execute(update(audit_chains).values(cut_no=1))
        connection.execute(delete(audit).where(audit.c.id == 1))
    stream = follow(url)
    with pytest.raises(DataLost, match="audit chain"):
        stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    lossy = follow(url, failOnDataLoss="false")
    begun = lossy.initialOffset()
    assert told(lossy, begun, lossy.latestOffset(begun, ReadAllAvailable())) == ["A-2"]
    latest = follow(url, startingOffsets="latest", failOnDataLoss="false")
    begun = latest.initialOffset()
    assert latest.latestOffset(begun, ReadAllAvailable()) == begun
    engine.dispose()
