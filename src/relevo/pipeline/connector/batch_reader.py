"""`spark.read.format("relevo")`: what is there now, planned once and read by many tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.filters import Wanted, wanted
from relevo.pipeline.connector.offsets import NOTHING, EntryId, Offset
from relevo.pipeline.connector.options import Position, SourceOptions, just_before
from relevo.pipeline.connector.ranges import IdRange, ranges
from relevo.pipeline.connector.ranks import sampled_cuts
from relevo.pipeline.connector.streams import StreamState, encoded, named_keys, states
from relevo.pipeline.connector.task import read_delayed, read_part


class RangePartition(InputPartition):
    """One range of one stream, for one task."""

    def __init__(self, part: IdRange, wanted: Wanted | None = None) -> None:
        self.part = part
        self.wanted = wanted

    def __repr__(self) -> str:
        return f"RangePartition({self.part.stream}, {self.part.start}, {self.part.end})"


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in tasks."""

    def __init__(self, source: SourceOptions, schema: Any) -> None:
        self.source = source
        self._schema = schema
        self._wanted = Wanted()
        # Spark refuses a reader that takes filters where `spark.sql.python.filterPushdown.enabled` is off, which is its
        # default, and it knows one by this method's function. Ours works in every session, and reads less where it may.
        self.pushFilters = _Push(self)  # pyright: ignore[reportAttributeAccessIssue]

    def narrow(self, filters: list[Filter]) -> None:
        self._wanted = wanted(filters, self.source.what)

    def partitions(self) -> Sequence[InputPartition]:
        directory = Directory(self.source.connection.address(), timeout_s=self.source.connection.timeout_s)
        try:
            keys = named_keys(directory, self.source)
            if self.source.what == "delayed":
                parts = [IdRange(key, NOTHING, NOTHING) for key in keys]
                streams = self._wanted.streams
                return [
                    RangePartition(part, self._wanted) for part in parts if streams is None or part.stream in streams
                ]
            found = [part for state in states(directory, keys) for part in self._planned(directory, state)]
        finally:
            directory.close()
        return cast("Sequence[InputPartition]", [RangePartition(part, self._wanted) for part in found])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):  # Spark's own stand-in for "no partitions"
            return iter(())
        if self.source.what == "delayed":
            return read_delayed(self.source, partition.part.stream, self._schema, partition.wanted)
        return read_part(self.source, partition.part, self._schema, partition.wanted)

    def _planned(self, directory: Directory, state: StreamState) -> Iterator[IdRange]:
        start = begins(self.source.starting, state)
        end = min(ends(self.source.ending, state), state.last)
        whole = self._wanted.clip(IdRange(state.key, start, end)) if start < end else None
        if whole is None or not state.length:
            return
        parts = -(-state.length // self.source.rows_per_partition)
        cuts = sampled_cuts(directory, encoded(state.key), whole.start, whole.end, parts)
        yield from ranges(Offset({state.key: whole.start}), Offset({state.key: whole.end}, {state.key: cuts}))


class _Push:
    """`BatchReader.pushFilters`; see there for `__func__`."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.narrow(filters)
        return filters  # Spark applies them again: ours only spare it rows


def begins(position: Position, state: StreamState) -> EntryId:
    """The offset at which reading begins."""
    if isinstance(position, Offset):
        return position.of(state.key)
    if isinstance(position, datetime):
        return just_before(position)
    return NOTHING if position == "earliest" else state.last


def ends(position: Position, state: StreamState) -> EntryId:
    """The offset up to which is read."""
    if isinstance(position, Offset):
        return position.ids.get(state.key, state.last)
    if isinstance(position, datetime):
        return just_before(position)
    return NOTHING if position == "earliest" else state.last
