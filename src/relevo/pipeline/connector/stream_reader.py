"""`spark.readStream.format("relevo")`: micro-batches whose ends are fixed when they are planned.

Spark keeps each end in the checkpoint before it reads, and asks for the same range again after a crash. Nothing is written
to Redis, and no consumer group is touched: workers do not notice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from relevo.errors import BadArgument, DataLost
from relevo.pipeline.connector.batch_reader import RangePartition, begins
from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.offsets import EntryId, Offset
from relevo.pipeline.connector.options import SourceOptions, just_before
from relevo.pipeline.connector.ranges import ranges, tasks
from relevo.pipeline.connector.ranks import Walk, even_cuts, sampled_cuts
from relevo.pipeline.connector.spark_api import (
    HAS_READ_LIMITS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from relevo.pipeline.connector.streams import NamedStreams, StreamState, encoded, states, witnesses
from relevo.pipeline.connector.task import read_parts

log = logging.getLogger("relevo.spark")

_ALL = 1 << 62


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of one streaming query; lives on the driver for as long as the query."""

    def __init__(self, source: SourceOptions, schema: Any) -> None:
        self.source = source
        self._schema = schema
        self._directory: Directory | None = None
        self._target: dict[str, StreamState] | None = None
        """Where a query that reads what is available now ends."""
        self._reached: dict[str, Any] = Offset({}, source=source.source).json()
        self._streams = NamedStreams(source)
        self._waits_since: float | None = None
        """Since when too few rows for a batch have waited."""
        if source.max_rows is not None and not HAS_READ_LIMITS:
            log.warning("maxRowsPerTrigger needs Spark 4.2: a batch takes all there is")

    # --- on the driver ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Streams that appear later are read from their beginning, so only those that are there now need a place."""
        found, starting = self._states(), self.source.starting
        named: dict[str, EntryId] = {}
        for stream, place in starting.items() if isinstance(starting, Mapping) else ():
            if isinstance(place, EntryId | datetime):  # also of a stream that is not there yet
                named[stream] = just_before(place) if isinstance(place, datetime) else place
        ids = {state.key: begins(starting, state) for state in found}
        added: dict[str, int] = {}
        for state in found:  # where all of a stream is ahead, or none, it is known how much lies before
            if ids[state.key] >= state.last:
                added[state.key] = state.added
            elif ids[state.key] < state.first:
                added[state.key] = state.added - state.length
        return Offset({**named, **ids}, source=self.source.source, added=added).json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.source.max_rows is None else ReadMaxRows(self.source.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {state.key: state for state in self._states()}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """What Spark tells beside the end of a batch: how far the streams are."""
        found = self._states()
        added = {state.key: state.added for state in found}
        return Offset({state.key: state.last for state in found}, source=self.source.source, added=added).json()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next batch; `start` itself when there is nothing new, or too little. Before Spark 4.2 neither is
        given, and the next batch begins where the last one that we told of ended."""
        self._reached = self._next(self._reached if start is None else start, limit)
        return self._reached

    def _next(self, start: dict[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        begun = self._checked(Offset.parse(start))
        found = [self._available(state) for state in self._states()]
        for state in found:
            self._check_replaced(state, begun)
        behind = [state for state in found if state.last > begun.of(state.key)]
        rows = sum(unread(state, begun) for state in behind)
        if not behind or self._waits(rows):
            return start
        end = self._planned(begun, behind, limit.max_rows if isinstance(limit, ReadMaxRows) else _ALL)
        if end.ids == begun.ids:
            return start
        taken = sum(end.rows.values())
        left = max(0, rows - taken)
        log.info("%s: a batch of about %d rows of %d streams; %d are behind", end.source, taken, len(end.rows), left)
        return end.json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        plan = Offset.parse(end)
        found = tasks(ranges(Offset.parse(start), plan), plan)
        return cast("Sequence[InputPartition]", [RangePartition(parts) for parts in found])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: what was read stays where it is."""

    def stop(self) -> None:
        if self._directory is not None:
            self._directory.close()

    # --- in a task -------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_parts(self.source, partition.parts, self._schema, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_directory": None}  # sockets stay here

    # --- how far ---------------------------------------------------------------------------------------------------

    def _states(self) -> list[StreamState]:
        directory = self._open()
        return states(directory, self._streams.keys(directory))

    def _open(self) -> Directory:
        if self._directory is None:
            connection = self.source.connection
            self._directory = Directory(connection.address(), timeout_s=connection.timeout_s)
        return self._directory

    def _available(self, state: StreamState) -> StreamState:
        """The stream, or what was available of it; one that came later has nothing."""
        if self._target is None:
            return state
        then = self._target.get(state.key, state._replace(last=EntryId(0), added=0))
        return state._replace(last=then.last, added=then.added) if then.last < state.last else state

    def _checked(self, begun: Offset) -> Offset:
        if begun.source not in ("", self.source.source):
            raise BadArgument(
                argument="source",
                value=self.source.source,
                reason=f"the checkpoint is of {begun.source}",
                remedy="Give each source a checkpoint of its own; if the same server has moved, name it with the option "
                f"source={begun.source}.",
            )
        return begun

    def _waits(self, rows: int) -> bool:
        """Whether these rows are too few for a batch, and may wait for more."""
        least = self.source.min_rows
        if least is None or rows >= least or self._target is not None:
            self._waits_since = None
            return False
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        if time.monotonic() - self._waits_since < self.source.max_delay_s:
            return True
        self._waits_since = None
        return False

    def _check_replaced(self, state: StreamState, begun: Offset) -> None:
        """A stream whose newest entry is older than what was read is another one under the same name."""
        at = begun.of(state.key)
        replaced = state.length and state.last < at and self.source.what == "events"
        if replaced and self.source.fail_on_data_loss and at.seq < (1 << 64) - 1 and self._target is None:
            raise DataLost(stream=state.key, after=at, start=at, end="the end", oldest=state.first)

    def _planned(self, begun: Offset, behind: list[StreamState], rows: int) -> Offset:
        """At most `rows` in all. The streams share them evenly; what one does not need the next ones may have."""
        ids, added, guessed = dict(begun.ids), dict(begun.added), set(begun.guessed)
        cuts, taken = dict[str, tuple[EntryId, ...]](), dict[str, int]()
        left = rows
        # Shortest first: what a short one leaves over goes to the longer ones. The first in line changes with what was read.
        order = sorted(behind, key=lambda state: (unread(state, begun), state.key))
        for place, state in enumerate(order):
            share = max(1, left // (len(order) - place))
            if left <= 0:
                break
            key, there = state.key, unread(state, begun)
            if there <= share and (key not in guessed or state.length <= share):  # it has no more: nothing to count
                ids[key], taken[key], added[key] = state.last, there, state.added
                guessed.discard(key)
                parts = -(-there // self.source.rows_per_partition)
                cut = sampled_cuts(self._open(), encoded(key), begun.of(key), state.last, parts)
            else:
                walk = Walk(self._open(), encoded(key), begun.of(key), state.last)
                ids[key] = walk.go(share)
                taken[key] = walk.rows
                if key in added:
                    added[key] += walk.rows
                if not walk.counted:
                    guessed.add(key)
                cut = even_cuts(walk.marks, -(-walk.rows // self.source.rows_per_partition))
            left -= taken[key]
            if cut:
                cuts[key] = cut
        there_now = [(state, begun.of(state.key)) for state in behind if state.key in taken]
        return Offset(
            ids,
            cuts,
            source=self.source.source,
            witnesses=witnesses(self._open(), there_now) if self.source.what == "events" else {},
            rows=taken,
            added=added,
            guessed=frozenset(guessed),
            task_rows=self.source.rows_per_partition,
        )


def unread(state: StreamState, begun: Offset) -> int:
    """How many entries lie ahead of an offset, as far as it is known what was added since; at most all that there are."""
    since = state.added - begun.added[state.key] if state.key in begun.added else state.length
    return min(state.length, since) if since >= 0 else state.length
