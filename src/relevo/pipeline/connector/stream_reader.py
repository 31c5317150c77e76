"""`spark.readStream.format("relevo")`: micro-batches whose ends are fixed when they are planned.

Spark keeps each end in the checkpoint before it reads, and asks for the same range again after a crash. Nothing is written
to Redis, and no consumer group is touched: workers do not notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from relevo.errors import DataLost
from relevo.pipeline.connector.batch_reader import RangePartition, begins
from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.offsets import EntryId, Offset
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.ranges import ranges
from relevo.pipeline.connector.ranks import Walk, even_cuts, sampled_cuts
from relevo.pipeline.connector.streams import StreamState, encoded, named_keys, states
from relevo.pipeline.connector.task import read_part


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of one streaming query; lives on the driver for as long as the query."""

    def __init__(self, source: SourceOptions, schema: Any) -> None:
        self.source = source
        self._schema = schema
        self._directory: Directory | None = None
        self._target: dict[str, EntryId] | None = None
        """Where a query that reads what is available now ends."""

    # --- on the driver ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Streams that appear later are read from their beginning, so only those that are there now need a place."""
        found = {state.key: begins(self.source.starting, state) for state in self._states()}
        given = self.source.starting if isinstance(self.source.starting, Offset) else Offset({})
        return Offset({**given.ids, **found}).json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.source.max_rows is None else ReadMaxRows(self.source.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {state.key: state.last for state in self._states()}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offset({state.key: state.last for state in self._states()}).json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` itself when there is nothing new."""
        begun = Offset.parse(start)
        found = [(state, self._available(state)) for state in self._states()]
        behind = [(state, end) for state, end in found if end > begun.of(state.key)]
        for state, _ in found:
            self._check_replaced(state, begun)
        if not behind:
            return start
        limited = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = self._all(begun, behind) if limited is None else self._some(begun, behind, limited)
        return start if end.ids == begun.ids else end.json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return cast(
            "Sequence[InputPartition]",
            [RangePartition(part) for part in ranges(Offset.parse(start), Offset.parse(end))],
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: what was read stays where it is."""

    def stop(self) -> None:
        if self._directory is not None:
            self._directory.close()

    # --- in a task -------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_part(self.source, partition.part, self._schema, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_directory": None}  # sockets stay here

    # --- how far ---------------------------------------------------------------------------------------------------

    def _states(self) -> list[StreamState]:
        directory = self._open()
        return states(directory, named_keys(directory, self.source))

    def _open(self) -> Directory:
        if self._directory is None:
            connection = self.source.connection
            self._directory = Directory(connection.address(), timeout_s=connection.timeout_s)
        return self._directory

    def _available(self, state: StreamState) -> EntryId:
        """The newest entry, or the end of a query that reads what was available; a stream that came later has none."""
        if self._target is None:
            return state.last
        return min(self._target.get(state.key, EntryId(0)), state.last)

    def _check_replaced(self, state: StreamState, begun: Offset) -> None:
        """A stream whose newest entry is older than what was read is another one under the same name."""
        at = begun.of(state.key)
        replaced = state.length and state.last < at and self.source.what == "events"
        if replaced and self.source.fail_on_data_loss and at.seq < (1 << 64) - 1 and self._target is None:
            raise DataLost(stream=state.key, after=at, oldest=state.first)

    def _all(self, begun: Offset, behind: list[tuple[StreamState, EntryId]]) -> Offset:
        ids, cuts = dict(begun.ids), dict[str, tuple[EntryId, ...]]()
        for state, end in behind:
            ids[state.key] = end
            if cut := self._cut(begun, state, end):
                cuts[state.key] = cut
        return Offset(ids, cuts)

    def _cut(self, begun: Offset, state: StreamState, end: EntryId) -> tuple[EntryId, ...]:
        parts = -(-state.length // self.source.rows_per_partition)
        return sampled_cuts(self._open(), encoded(state.key), begun.of(state.key), end, parts)

    def _some(self, begun: Offset, behind: list[tuple[StreamState, EntryId]], rows: int) -> Offset:
        """At most `rows` in all. The streams share them evenly; what one does not need the next ones may have."""
        ids, cuts = dict(begun.ids), dict[str, tuple[EntryId, ...]]()
        left = rows
        # Shortest first: what a short one leaves over goes to the longer ones. The first in line changes with what was read.
        order = sorted(behind, key=lambda each: (each[0].length, each[0].key))
        for place, (state, end) in enumerate(order):
            share = max(1, left // (len(order) - place))
            if left <= 0:
                break
            if state.length <= share:  # the whole stream has no more: nothing to count
                ids[state.key], cut = end, self._cut(begun, state, end)
                left -= state.length
            else:
                walk = Walk(self._open(), encoded(state.key), begun.of(state.key), end)
                ids[state.key] = walk.go(share)
                left -= walk.rows
                cut = even_cuts(walk.marks, -(-walk.rows // self.source.rows_per_partition))
            if cut:
                cuts[state.key] = cut
        return Offset(ids, cuts)
