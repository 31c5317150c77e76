"""Rows that become jobs: checked as `Queue.add` checks, before anything is written. No JVM is needed."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from relevo.errors import BadArgument, DelayTooLong, NameTooLong, PayloadTooLarge
from relevo.pipeline.connector.feed import Row
from relevo.pipeline.connector.job_parcels import JobParcels
from relevo.pipeline.connector.options import SinkOptions
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.notes import Notes

BACKOFF = StructType(
    [
        StructField("kind", StringType()),
        StructField("delay_ms", LongType()),
        StructField("max_delay_ms", LongType()),
        StructField("multiplier", LongType()),
        StructField("jitter_ms", LongType()),
    ]
)
TYPES: dict[str, DataType] = {
    "name": StringType(),
    "data": StringType(),
    "job_id": StringType(),
    "delay": LongType(),
    "retry": IntegerType(),
}


def rows_of(columns: Mapping[str, list[Any]], types: Mapping[str, DataType] = TYPES, **options: str) -> list[Row]:
    sink = SinkOptions.parse({"url": "redis://127.0.0.1:1", "queue": "q", **options})
    schema = StructType([StructField(name, types[name]) for name in columns])
    return list(JobParcels(schema, sink).rows([pa.RecordBatch.from_pydict(dict(columns))]))


def test_a_plain_row_is_an_envelope_and_a_name() -> None:
    first, second = rows_of({"name": ["mail", None], "data": ['{"i": 1}', "null"]})
    envelope = Envelope.decode(first.envelope)
    assert (envelope.payload, envelope.attempt, envelope.retry, first.name) == (b"\x81\xa1i\x01", 0, None, b"mail")
    assert second.name == b""
    assert Envelope.decode(second.envelope).id > envelope.id


def test_a_delay_an_id_and_a_number_of_attempts_travel() -> None:
    (row,) = rows_of({"name": ["mail"], "data": ["1"], "delay": [5000], "job_id": ["order-1"], "retry": [3]})
    envelope = Envelope.decode(row.envelope)
    assert envelope.id == row.job_id == "order-1"
    assert envelope.retry is not None
    assert envelope.retry.max_attempts == 3
    assert row.run_at_ms == envelope.created_at_ms + 5000
    assert DelayedMember.decode(row.member) == DelayedMember("mail", row.envelope)


def test_the_struct_of_the_source_travels() -> None:
    types = TYPES | {"retry": StructType([StructField("max_attempts", LongType()), StructField("backoff", BACKOFF)])}
    backoff = {"kind": "fixed", "delay_ms": 250, "max_delay_ms": None, "multiplier": None, "jitter_ms": 7}
    (row,) = rows_of({"data": ["1"], "retry": [{"max_attempts": 5, "backoff": backoff}]}, types)
    retry = Envelope.decode(row.envelope).retry
    assert retry is not None
    assert retry.backoff is not None
    assert (retry.max_attempts, retry.backoff.kind, retry.backoff.delay_ms, retry.backoff.jitter_ms) == (
        5,
        "fixed",
        250,
        7,
    )


def test_a_time_that_has_passed_is_now() -> None:
    types = TYPES | {"delay": TimestampType()}
    past = datetime.now(UTC) - timedelta(hours=1)
    (row,) = rows_of({"data": ["1"], "delay": pa.array([past], pa.timestamp("us", "UTC"))}, types)
    assert row.run_at_ms is None


@pytest.mark.parametrize(
    ("column", "value", "refusal", "said"),
    [
        ("retry", -1, BadArgument, "attempts"),
        ("retry", 0, BadArgument, "the job would never run"),
        ("delay", -1, BadArgument, "delay_ms"),
        ("delay", 31 * 86_400_000, DelayTooLong, "2592000"),
        ("job_id", "  ", BadArgument, "must not be blank"),
        ("name", "n" * 257, NameTooLong, "257"),
        ("data", '"' + "d" * 100 + '"', PayloadTooLarge, "100"),
    ],
)
def test_what_the_queue_refuses_is_refused(column: str, value: object, refusal: type[Exception], said: str) -> None:
    with pytest.raises(refusal, match=said):
        rows_of({"data": ["1"]} | {column: [value]}, maxPayloadBytes="100")


def test_a_backoff_that_no_worker_knows_is_refused() -> None:
    types = TYPES | {"retry": StructType([StructField("max_attempts", LongType()), StructField("backoff", BACKOFF)])}
    backoff = {"kind": "hourly", "delay_ms": 1, "max_delay_ms": None, "multiplier": None, "jitter_ms": None}
    with pytest.raises(BadArgument, match="hourly"):
        rows_of({"data": ["1"], "retry": [{"max_attempts": None, "backoff": backoff}]}, types)


def test_a_row_with_a_lane_is_due_at_once_in_the_order_of_the_rows() -> None:
    names, ids = ["long-name", "a", "a", "b", "a"], [None, None, None, "z", "y"]
    types = {**TYPES, "lane": StringType()}
    columns = {"name": names, "data": ["1"] * 5, "job_id": ids, "lane": ["t7", "t7", None, "t7", "t7"]}
    rows = rows_of(columns, types)
    assert [Notes.decode(row.notes).lane if row.notes else None for row in rows] == ["t7", "t7", None, "t7", "t7"]
    laned = [row for row in rows if row.notes]
    assert [row.noted for row in laned] == [Envelope.decode(row.envelope).id for row in laned]
    # As the delayed set keeps them: by time, and by their bytes where that is one.
    assert sorted(laned, key=lambda row: (row.run_at_ms, row.member)) == laned
    assert max(row.run_at_ms or 0 for row in laned) <= time.time_ns() // 1_000_000
    assert rows[0].content != rows_of({**columns, "lane": ["t8"] * 5}, types)[0].content
    with pytest.raises(BadArgument, match="not a valid name"):
        rows_of({"data": ["1"], "lane": ["*"]}, types)


def test_a_lane_is_text() -> None:
    with pytest.raises(BadArgument, match="Cast it to string"):
        rows_of({"data": ["1"], "lane": [7]}, {**TYPES, "lane": LongType()})
