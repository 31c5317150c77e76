"""The option `landing`: tasks write events to Parquet themselves, and hand out the files."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false, reportMissingTypeStubs=false

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from relevo.errors import BadArgument, DataLost, FilesNotShared
from relevo.pipeline.connector import landing
from relevo.pipeline.connector.landing import events_schema
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.source import RelevoSource
from relevo.pipeline.lake.files import Written
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.source_columns import LANDED
from relevo.wire.keys import QueueKeys
from tests.servers.server import Server
from tests.spark.connector.filled import add_events, send, spark_schema

DAY_MS = 86_400_000
_TYPES = {"string": StringType(), "bigint": LongType(), "map<string,string>": MapType(StringType(), StringType())}
FILES = StructType([StructField(column.name, _TYPES[column.type]) for column in LANDED])


def landed(server: Server, folder: Path, queue: str, **options: str) -> list[dict[str, Any]]:
    """The files of a queue's events, as tasks tell them."""
    given = {"url": server.url, "queues": queue, "landing": str(folder), **options}
    reader = RelevoSource(given).reader(FILES)
    told = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return [row | {"path": str(folder / row["path"])} for row in told]


def events(path: str) -> list[dict[str, Any]]:
    table: Any = pq.ParquetFile(path).read()
    return table.to_pylist()


def test_the_files_hold_the_rows_that_would_have_been_handed_out(
    server: Server, queue_name: str, tmp_path: Path
) -> None:
    add_events(server.url, queue_name, 2000)
    key = QueueKeys(queue_name).events
    send(server.url, key, [("XADD", key, "*", "e", "sung", "id", "x", "ts", "soon", "tune", "allegro")])
    reader = RelevoSource({"url": server.url, "queues": queue_name}).reader(spark_schema("events"))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    files = landed(server, tmp_path, queue_name, rowsPerPartition="700", pageRows="300")
    assert len(files) > 1
    assert [row for file in files for row in events(file["path"])] == rows


def test_a_file_is_told_with_its_day_its_size_and_its_newest_entry(
    redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    ids = [f"{20_000 * DAY_MS + hour * 3_600_000}-7" for hour in range(30)]
    add_events(redis86.url, queue_name, 30, ids=ids)
    first, second = landed(redis86, tmp_path, queue_name)
    stream = QueueKeys(queue_name).events.decode()
    assert [(file["day"], file["rows"], file["last_ids"]) for file in (first, second)] == [
        (20_000, 24, [(stream, ids[23])]),
        (20_001, 6, [(stream, ids[29])]),
    ]
    assert [file["bytes"] for file in (first, second)] == [
        Path(file["path"]).stat().st_size for file in (first, second)
    ]
    assert {file["source"] for file in (first, second)} == {SourceOptions.parse({"url": redis86.url}).source}


def test_many_small_queues_share_a_task_and_a_file(server: Server, queue_name: str, tmp_path: Path) -> None:
    ids = {f"{queue_name}-{number:02}": add_events(server.url, f"{queue_name}-{number:02}", 5) for number in range(40)}
    (file,) = landed(server, tmp_path, f"{queue_name}-*", rowsPerPartition="1000")
    assert file["rows"] == 200
    assert dict(file["last_ids"]) == {QueueKeys(queue).events.decode(): own[-1] for queue, own in ids.items()}
    assert {(row["queue"], row["_id"]) for row in events(file["path"])} == {
        (queue, entry) for queue, own in ids.items() for entry in own
    }


def test_an_entry_beyond_all_dates_is_put_to_the_first_day(redis86: Server, queue_name: str, tmp_path: Path) -> None:
    add_events(redis86.url, queue_name, 1, ids=["9999999999999999-0"])
    (file,) = landed(redis86, tmp_path, queue_name)
    assert (file["day"], file["rows"]) == (0, 1)


def test_a_range_without_events_leaves_no_file(redis86: Server, queue_name: str, tmp_path: Path) -> None:
    assert landed(redis86, tmp_path, queue_name) == []
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_task_that_fails_are_not_told(tmp_path: Path) -> None:
    def batches() -> Iterator[Any]:
        row = dict.fromkeys(events_schema().names) | {"_id": "5-0", "_stream": "a"}
        yield pa.RecordBatch.from_pylist([row], events_schema())
        raise DataLost(stream="a", after="5-0", start="5-0", end="9-0", oldest="9-0")

    told = landing.landed(batches(), str(tmp_path), "a")
    with pytest.raises(DataLost):
        next(told)


def test_spark_reads_the_files_with_the_columns_of_the_source(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path
) -> None:
    ids = add_events(redis86.url, queue_name, 3000)
    source = spark.read.format("relevo").options(url=redis86.url, queues=queue_name, rowsPerPartition="1000")
    folder = tmp_path / "landed"
    files = [str(folder / row["path"]) for row in source.option("landing", str(folder)).load().collect()]
    rows = spark.read.parquet(*files)
    by_rows = spark.read.format("relevo").options(url=redis86.url, queues=queue_name).load()
    assert rows.schema == by_rows.schema
    assert sorted(row["_id"] for row in rows.collect()) == sorted(ids)


@pytest.mark.parametrize("what", ["stream", "dlq", "delayed"])
def test_only_events_land(what: str, tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match=f"it is for events, not for what={what}"):
        SourceOptions.parse({"what": what, "landing": str(tmp_path)})


def test_files_that_the_driver_does_not_see_are_told_with_the_remedy(tmp_path: Path) -> None:
    elsewhere = Written("of an executor.parquet", 20_000, None, 1, 1, "{}")
    with pytest.raises(FilesNotShared, match=r"(?s)of an executor\.parquet.*reach by the same path"):
        Lake(tmp_path / "lake").stage_files("bronze.events", [elsewhere])
