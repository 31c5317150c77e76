"""What older versions of Spark lack, made up for here. `test_spark_versions.py` runs on each of them."""

from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from relevo.pipeline.connector.spark_api import record_batches

INNER = StructType([StructField("at", TimestampType()), StructField("counts", MapType(StringType(), LongType()))])
SCHEMA = StructType(
    [
        StructField("name", StringType()),
        StructField("data", BinaryType()),
        StructField("delay", TimestampType()),
        StructField("more", ArrayType(INNER)),
    ]
)


def test_rows_become_the_record_batches_that_newer_versions_hand_out() -> None:
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    here = noon.astimezone().replace(tzinfo=None)  # as Spark gives it
    row = Row(name="a", data=bytearray(b"\x01"), delay=here, more=[Row(at=here, counts={"x": 1})])
    nothing = Row(name=None, data=None, delay=None, more=None)
    batches: list[Any] = list(record_batches(iter([row, nothing] * 600), SCHEMA))
    assert [batch.num_rows for batch in batches] == [1000, 200]
    assert batches[0].slice(0, 2).to_pylist(maps_as_pydicts="strict") == [
        {"name": "a", "data": b"\x01", "delay": noon, "more": [{"at": noon, "counts": {"x": 1}}]},
        {"name": None, "data": None, "delay": None, "more": None},
    ]


def test_record_batches_pass_as_they_are() -> None:
    batch = cast("Any", pa.RecordBatch.from_pydict({"name": ["a"]}))  # pyright: ignore[reportUnknownMemberType]
    given: list[Any] = [batch, batch]
    assert list(record_batches(iter(given), SCHEMA)) == given
    assert list(record_batches(iter([]), SCHEMA)) == []
