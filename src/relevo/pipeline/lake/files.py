# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportUnknownParameterType=false
# pyarrow comes without types.
"""Data files: written by Spark's tasks or by the driver with pyarrow, on any storage, one for each partition they have rows of.

A file counts once a commit names it. What a task leaves behind that failed, or was slower than its twin, nobody names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relevo.pipeline.lake.instants import Span, part_key, values_of
from relevo.pipeline.lake.storage import Storage

PART, DAY = "_part", "_day"
WRITTEN = "path string, part bigint, day bigint, rows bigint, bytes bigint, stats string"
_MOST_WAITING = 64 << 20
_GROUP_BYTES = 32 << 20
_PLAIN = (int, float)


class Written(NamedTuple):
    """A file that is there now. `part` and `day` are the numbers of its partition."""

    path: str
    part: int
    day: int | None
    rows: int
    bytes: int
    stats: str


@dataclass
class _Open:
    path: str
    sink: Any
    writer: Any
    footer: list[Any]
    rows: int = 0


class PartFiles:
    """Writes rows into a file for each partition; holds back a little of each, so that row groups are not small."""

    def __init__(self, storage: Storage, span: Span, schema: Any) -> None:
        self._storage = storage
        self._span: Span = span
        self._schema = schema
        self._token = uuid.uuid4().hex[:16]
        self._open: dict[tuple[int, int | None], _Open] = {}
        self._waiting: dict[tuple[int, int | None], list[Any]] = {}
        self._bytes: dict[tuple[int, int | None], int] = {}

    def add(self, part: int, day: int | None, rows: Any) -> None:
        place = (part, day)
        self._waiting.setdefault(place, []).append(rows)
        self._bytes[place] = self._bytes.get(place, 0) + rows.nbytes
        if self._bytes[place] >= _GROUP_BYTES:
            self._write(place)
        while sum(self._bytes.values()) > _MOST_WAITING:
            self._write(max(self._bytes, key=self._bytes.__getitem__))

    def close(self) -> list[Written]:
        """Ends all files, and tells of them."""
        for place in list(self._waiting):
            self._write(place)
        told: list[Written] = []
        for (part, day), file in self._open.items():
            file.writer.close()
            size = file.sink.tell()
            file.sink.close()
            told.append(Written(file.path, part, day, file.rows, size, stats_of(file.footer[0])))
        self._open = {}
        return told

    def _write(self, place: tuple[int, int | None]) -> None:
        rows = pa.concat_tables(self._waiting.pop(place))
        del self._bytes[place]
        file = self._open.get(place)
        if file is None:
            file = self._open[place] = self._opened(*place)
        file.rows += rows.num_rows
        file.writer.write_table(rows, row_group_size=rows.num_rows)

    def _opened(self, part: int, day: int | None) -> _Open:
        values = values_of(part_key(part, self._span), self._span, day)
        folders = "".join(f"{name}={value}/" for name, value in values.items())
        path = f"{folders}{self._token}-{len(self._open)}.parquet"
        sink, footer = self._storage.writer(path), list[Any]()
        writer = pq.ParquetWriter(sink, self._schema, compression="zstd", metadata_collector=footer)
        return _Open(path, sink, writer, footer)


def writing(storage: Storage, span: Span, schema: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For `DataFrame.mapInArrow`: a task that writes its rows and hands out a row for each file (`WRITTEN`)."""

    def write(batches: Iterable[Any]) -> Iterator[Any]:
        files = PartFiles(storage, span, schema)
        for batch in batches:
            for part, day, rows in _apart(pa.Table.from_batches([batch])):
                files.add(part, day, fitted(rows, schema))
        told = files.close()
        if told:
            columns = {name: [getattr(file, name) for file in told] for name in Written._fields}
            yield pa.RecordBatch.from_pydict(columns, _written_schema())

    return write


def _written_schema() -> Any:
    kinds = {"string": pa.string(), "bigint": pa.int64()}
    return pa.schema([(name, kinds[kind]) for name, kind in (part.split() for part in WRITTEN.split(", "))])


def _apart(rows: Any) -> Iterator[tuple[int, int | None, Any]]:
    """Rows by the numbers of their partition."""
    if not rows.num_rows:
        return
    places = rows.select([PART, DAY]).group_by([PART, DAY]).aggregate([]).to_pylist()
    if len(places) == 1:
        yield places[0][PART], places[0][DAY], rows
        return
    for place in places:
        mine = pc.equal(rows[PART], place[PART])
        if place[DAY] is not None:
            mine = pc.and_(mine, pc.equal(rows[DAY], place[DAY]))
        yield place[PART], place[DAY], rows.filter(mine)


def fitted(rows: Any, schema: Any) -> Any:
    """Rows with just these columns, in this order and of these types; null where a file does not have one.

    >>> fitted(pa.table({"a": [1]}), pa.schema([("b", pa.string()), ("a", pa.int32())])).to_pylist()
    [{'b': None, 'a': 1}]
    """
    arrays: list[Any] = []
    for column in schema:
        place = rows.schema.get_field_index(column.name)
        if place < 0:
            arrays.append(pa.nulls(rows.num_rows, column.type))
        elif rows.schema.field(place).type == column.type:
            arrays.append(rows.column(place))
        else:
            arrays.append(rows.column(place).cast(column.type))
    return pa.table(arrays, schema=schema)


def read(storage: Storage, path: str, columns: list[str] | None = None) -> Any:
    """One file as it was written, or those of some columns that it has. Times that Spark wrote as INT96 are like others."""
    with storage.reader(path) as file:
        opened = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
        there = None if columns is None else [name for name in columns if name in opened.schema_arrow.names]
        return opened.read(columns=there)


def batches(storage: Storage, path: str, schema: Any) -> Iterator[Any]:
    """The rows of one file in pieces, with just these columns."""
    with storage.reader(path) as file:
        opened = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
        there = [name for name in schema.names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(columns=there):
            yield from fitted(pa.Table.from_batches([batch]), schema).to_batches()


def reading(storage: Storage, schema: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For `DataFrame.mapInArrow` over a column `path`: the rows of those files, read by the task itself."""

    def rows(given: Iterable[Any]) -> Iterator[Any]:
        for batch in given:
            for path in batch.column("path").to_pylist():
                yield from batches(storage, path, schema)

    return rows


def write(storage: Storage, path: str, rows: Any, part: int, day: int | None) -> Written:
    """One file of this name."""
    sink, footer = storage.writer(path), list[Any]()
    with pq.ParquetWriter(sink, rows.schema, compression="zstd", metadata_collector=footer) as writer:
        writer.write_table(rows)
    size = sink.tell()
    sink.close()
    return Written(path, part, day, rows.num_rows, size, stats_of(footer[0]))


def merged(storage: Storage, paths: list[str], part: int, day: int | None, span: Span, schema: Any) -> Written:
    """Writes the rows of several files of a partition into one, a piece at a time."""
    files = PartFiles(storage, span, schema)
    for path in paths:
        for batch in batches(storage, path, schema):
            files.add(part, day, pa.Table.from_batches([batch]))
    (file,) = files.close()
    return file


# --- statistics ----------------------------------------------------------------------------------------------------------


def stats_of(footer: Any) -> str:
    """What Delta's log says of a file, so that readers can pass over it: the number of rows, and least and most of numbers, of
    times and of queues. Of no other text: the log is kept longer than what was erased from the files."""
    least, most, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    for place in range(footer.num_columns):
        name = footer.schema.column(place).path
        parts = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
        if "." in name or any(one is None or not one.has_null_count for one in parts):
            continue
        nulls[name] = sum(one.null_count for one in parts)
        bounds = [one for one in parts if one.has_min_max]
        if bounds and len(bounds) == len(parts) and _is_told(name, bounds[0].min):
            least[name] = _told(min(one.min for one in bounds), up=False)
            most[name] = _told(max(one.max for one in bounds), up=True)
    return json.dumps({"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls})


def _is_told(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return name == "queue"
    return isinstance(value, (*_PLAIN, datetime)) and not isinstance(value, bool) and value == value


def _told(value: Any, *, up: bool) -> Any:
    """As JSON has it. Delta keeps milliseconds of a time: what is cut off must not make the bounds too narrow."""
    if not isinstance(value, datetime):
        return value.isoformat() if isinstance(value, date) else value
    whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if up and whole != value:
        whole += timedelta(milliseconds=1)
    return whole.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{whole.microsecond // 1000:03d}Z"
