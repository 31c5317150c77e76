"""`spark.read.format("relevo")`: what is there now, planned once and read by many tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.filters import Wanted, wanted
from relevo.pipeline.connector.offsets import NOTHING, EntryId, Offset
from relevo.pipeline.connector.options import Place, Position, SourceOptions, just_before
from relevo.pipeline.connector.ranges import IdRange, ranges, tasks
from relevo.pipeline.connector.ranks import sampled_cuts
from relevo.pipeline.connector.spark_api import Filter
from relevo.pipeline.connector.streams import NamedStreams, StreamState, encoded, states, witnesses
from relevo.pipeline.connector.task import read_delayed, read_parts


class RangePartition(InputPartition):
    """What one task reads: a range of one stream, or of each of many small ones."""

    def __init__(self, parts: tuple[IdRange, ...], wanted: Wanted | None = None) -> None:
        self.parts = parts
        self.wanted = wanted

    def __repr__(self) -> str:
        return f"RangePartition({', '.join(f'{part.stream} {part.start} {part.end}' for part in self.parts)})"


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
            keys = NamedStreams(self.source).keys(directory)
            if self.source.what == "delayed":
                parts = [IdRange(key, NOTHING, NOTHING) for key in keys]
                streams = self._wanted.streams
                return [
                    RangePartition((part,), self._wanted) for part in parts if streams is None or part.stream in streams
                ]
            start, end = self._planned(directory, states(directory, keys))
        finally:
            directory.close()
        found = tasks(ranges(start, end), end)
        return cast("Sequence[InputPartition]", [RangePartition(parts, self._wanted) for parts in found])

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):  # Spark's own stand-in for "no partitions"
            return iter(())
        if self.source.what == "delayed":
            return read_delayed(self.source, partition.parts[0].stream, self._schema, partition.wanted)
        return read_parts(self.source, partition.parts, self._schema, partition.wanted)

    def _planned(self, directory: Directory, found: list[StreamState]) -> tuple[Offset, Offset]:
        begun: list[tuple[StreamState, EntryId]] = []
        ids: dict[str, EntryId] = {}
        cuts: dict[str, tuple[EntryId, ...]] = {}
        for state in found:
            start = begins(self.source.starting, state)
            end = min(ends(self.source.ending, state), state.last)
            whole = self._wanted.clip(IdRange(state.key, start, end)) if start < end and state.length else None
            if whole is None:
                continue
            begun.append((state, whole.start))
            ids[state.key] = whole.end
            parts = -(-state.length // self.source.rows_per_partition)
            if cut := sampled_cuts(directory, encoded(state.key), whole.start, whole.end, parts):
                cuts[state.key] = cut
        rows = {state.key: state.length for state, _ in begun}
        there = witnesses(directory, begun) if self.source.what == "events" else {}
        end = Offset(ids, cuts, witnesses=there, rows=rows, task_rows=self.source.rows_per_partition)
        return Offset({state.key: start for state, start in begun}), end


class _Push:
    """`BatchReader.pushFilters`; see there for `__func__`."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)  # Spark 4.0 has none

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.narrow(filters)
        return filters  # Spark applies them again: ours only spare it rows


def begins(position: Position, state: StreamState) -> EntryId:
    """The offset at which reading begins: for a stream that is not named, at the beginning."""
    return _at(position.get(state.key, "earliest") if isinstance(position, Mapping) else position, state)


def ends(position: Position, state: StreamState) -> EntryId:
    """The offset up to which is read: for a stream that is not named, up to its end."""
    return _at(position.get(state.key, "latest") if isinstance(position, Mapping) else position, state)


def _at(place: Place, state: StreamState) -> EntryId:
    if isinstance(place, EntryId):
        return place
    if isinstance(place, datetime):
        return just_before(place)
    return NOTHING if place == "earliest" else state.last
