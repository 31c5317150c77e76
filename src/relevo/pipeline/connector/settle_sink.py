"""`df.write.format("relevo").option("mode", "settle")`: tells what became of jobs that a query has taken.

Without it the jobs of a micro-batch are done when the batch is committed. With it each row settles its job at once: done,
or, where `error` is not null, tried again after its backoff, or dead when `final` is true or no attempts are left. A row that
comes again (a task that runs twice) finds its job settled, and does nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BooleanType, StringType, StructType

from relevo.engine.batch_consumer import BatchConsumer, Ended
from relevo.errors import BadArgument
from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.consume import TAKEN_BY, ask
from relevo.pipeline.connector.options import ConnectionOptions, Given, connection_names, connection_of
from relevo.pipeline.connector.spark_api import StreamArrowWriter, record_batches
from relevo.wire.keys import QueueKeys

COLUMNS = {"_id": StringType, TAKEN_BY: StringType, "error": StringType, "final": BooleanType}
_NEEDED = ("_id", TAKEN_BY)


@dataclass(frozen=True)
class SettleOptions:
    """Whose jobs are settled, and how often a failed one runs in all."""

    connection: ConnectionOptions
    queue: str
    group: str = "default"
    max_attempts: int = 25

    @staticmethod
    def parse(options: Mapping[str, str]) -> SettleOptions:
        given = Given(options, (*connection_names(), "mode", "queue", "group", "maxAttempts"))
        queue = given.text("queue", "")
        if not queue:
            raise given.bad("queue", "jobs are settled in one queue", 'Write .option("queue", "emails").')
        return SettleOptions(
            connection_of(given), queue, given.text("group", "default"), given.number("maxAttempts") or 25
        )


class Settled(WriterCommitMessage):
    """What one task settled, and what was no longer held."""

    def __init__(self, done: int, retried: int, dead: int, lost: int) -> None:
        self.done = done
        self.retried = retried
        self.dead = dead
        self.lost = lost


class BatchSettle(DataSourceArrowWriter):
    """For `foreachBatch`, and for batches."""

    def __init__(self, options: SettleOptions, schema: StructType) -> None:
        self._options = options
        self._schema = checked(schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return settle(self._options, iterator)


class StreamSettle(StreamArrowWriter):
    """As the sink of the query that takes the jobs."""

    def __init__(self, options: SettleOptions, schema: StructType) -> None:
        self._options = options
        self._schema = checked(schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return settle(self._options, record_batches(iterator, self._schema))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: every row has settled its job."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch runs again with what is left of it."""


def checked(schema: StructType) -> StructType:
    """A schema that says what became of which job."""
    types = {field.name: field.dataType for field in schema.fields}
    for name in _NEEDED:
        if name not in types:
            remedy = 'Keep the columns _id and _taken_by of what mode="consume" gave.'
            raise BadArgument(argument="column", value=name, reason="it is missing", remedy=remedy)
    for name, kind in types.items():
        if name not in COLUMNS:
            remedy = f"Select some of {', '.join(COLUMNS)}."
            raise BadArgument(argument="column", value=name, reason="a settle has no such column", remedy=remedy)
        if not isinstance(kind, COLUMNS[name]):
            remedy = f"Cast it to {COLUMNS[name]().simpleString()}."
            raise BadArgument(argument="column", value=name, reason=f"it is {kind.simpleString()}", remedy=remedy)
    return schema


def settle(options: SettleOptions, batches: Iterator[Any]) -> Settled:
    """What one task does."""
    connection = options.connection
    directory = Directory(connection.address(), timeout_s=connection.timeout_s)
    total = Settled(0, 0, 0, 0)
    try:
        for batch in batches:
            columns: dict[str, list[Any]] = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            none: list[Any] = [None] * batch.num_rows
            rows = zip(*(columns.get(name, none) for name in COLUMNS), strict=True)
            by_consumer: defaultdict[str, list[Ended]] = defaultdict(list)
            for entry_id, taken_by, error, final in rows:
                by_consumer[taken_by].append(Ended(entry_id.encode(), error, bool(final)))
            for name, ended in by_consumer.items():
                result = _consumer(options, directory, name).settle(ended)
                total.done += result.done
                total.retried += result.retried
                total.dead += result.dead
                total.lost += len(ended) - result.done - result.retried - result.dead
    finally:
        directory.close()
    return total


def _consumer(options: SettleOptions, directory: Directory, name: str) -> BatchConsumer:
    stream = QueueKeys(options.queue).stream
    return BatchConsumer(
        lambda data, count: ask(directory, stream, data, count),
        options.queue,
        group=options.group,
        consumer=name,
        max_attempts=options.max_attempts,
    )
