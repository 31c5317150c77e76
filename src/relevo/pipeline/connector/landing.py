# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyarrow comes without types.
"""Events that go straight to Parquet: a task writes the files itself, and hands Spark a row for each.

Rows that pass through the JVM are made of Arrow's columns there, and columns of rows again, which is half of what an ingest
costs. A file counts once the task that wrote it has ended well and Spark has handed out its row: a task that failed, or was
slower than its twin, leaves files that nobody names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relevo.pipeline.connector.event_columns import MOMENT
from relevo.pipeline.lake.files import stats_of
from relevo.pipeline.lake.instants import part_key
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.source_columns import EVENTS, LANDED

_DAY_US = 86_400_000_000
_GROUP_ROWS = 100_000
_REPEATED = (
    *("queue", "e", "n", "attempt", "reason", "backoff_ms", "delay_ms", "wait_ms", "prev", "bad", "source", "_stream"),
)
"""Columns whose values come again: written once each. Of the others nearly every value is another."""

# Spark reads such types with its JVM only, and a task has none.
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "timestamp": MOMENT}
_ARROW["map<string,string>"] = pa.map_(pa.string(), pa.string())
_SPARK: dict[str, Any] = {"string": "string", "bigint": "long", "timestamp": "timestamp"}
_SPARK["map<string,string>"] = {
    "type": "map",
    "keyType": "string",
    "valueType": "string",
    "valueContainsNull": True,
}
_TOLD = b"org.apache.spark.sql.parquet.row.metadata"
"""Where Spark writes a file's columns in its footer, so that nobody has to guess them."""


def events_schema() -> Any:
    """The columns of events, for Arrow, with what Spark wants to know of them.

    >>> events_schema().names[:3]
    ['queue', 'e', 'id']
    """
    fields = [{"name": column.name, "type": _SPARK[column.type], "nullable": True, "metadata": {}} for column in EVENTS]
    told = json.dumps({"type": "struct", "fields": fields})
    return pa.schema([(column.name, _ARROW[column.type]) for column in EVENTS], metadata={_TOLD: told.encode()})


def landed(batches: Iterable[Any], folder: str, source: str) -> Iterator[Any]:
    """Writes the events of a task, a file for each day that they came on; tells of the files when all are written."""
    task, files, storage = uuid.uuid4().hex, dict[int, _File](), Storage.at(folder)
    try:
        for batch in batches:
            for day, rows in _by_day(batch):
                if day not in files:
                    path = f"date={part_key(day, 'day')}/{task}-{day}.parquet"
                    files[day] = _File(storage, path, batch.schema)
                files[day].add(rows)
    finally:
        for file in files.values():
            file.close()
    if files:
        yield _told(source, files)


@dataclass
class _File:
    storage: Storage
    path: str
    schema: Any
    rows: int = 0
    bytes: int = 0
    last_ids: dict[str, str] = field(default_factory=dict[str, str])
    _waiting: list[Any] = field(default_factory=list[Any])
    _rows_waiting: int = 0

    def __post_init__(self) -> None:
        self._sink, self._footer = self.storage.writer(self.path), list[Any]()
        self._writer = pq.ParquetWriter(
            self._sink,
            self.schema,
            compression="snappy",
            use_dictionary=list(_REPEATED),
            metadata_collector=self._footer,
        )

    def add(self, rows: Any) -> None:
        self.rows += rows.num_rows
        streams = pc.run_end_encode(rows["_stream"])  # one stream after the other, each in order
        lasts = rows["_id"].take(pc.subtract(streams.run_ends, 1))
        self.last_ids.update(zip(streams.values.to_pylist(), lasts.to_pylist(), strict=True))
        self._waiting.append(rows)
        self._rows_waiting += rows.num_rows
        if self._rows_waiting >= _GROUP_ROWS:
            self._write()

    def close(self) -> None:
        if self._waiting:
            self._write()
        self._writer.close()
        self.bytes = self._sink.tell()
        self._sink.close()

    @property
    def stats(self) -> str:
        return stats_of(self._footer[0])

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self.schema), row_group_size=self._rows_waiting)
        self._waiting, self._rows_waiting = [], 0


def _by_day(batch: Any) -> Iterator[tuple[int, Any]]:
    """The rows of each day by their `_ts`; what has none (an id beyond the year 9999) is put to day 0."""
    us = pc.fill_null(batch["_ts"].cast(pa.int64()), 0)
    bounds = pc.min_max(us).as_py()
    first, last = bounds["min"] // _DAY_US, bounds["max"] // _DAY_US
    if first == last:
        yield first, batch
        return
    days = pc.divide(us, _DAY_US)
    for day in pc.unique(days).to_pylist():
        yield day, batch.filter(pc.equal(days, day))


def _told(source: str, files: dict[int, _File]) -> Any:
    columns = {
        "path": [file.path for file in files.values()],
        "day": list(files),
        "rows": [file.rows for file in files.values()],
        "bytes": [file.bytes for file in files.values()],
        "stats": [file.stats for file in files.values()],
        "source": [source] * len(files),
        "last_ids": [list(file.last_ids.items()) for file in files.values()],
    }
    schema = pa.schema([(column.name, _ARROW[column.type]) for column in LANDED])
    return pa.RecordBatch.from_pydict(columns, schema)
