"""`df.write.format("relevo")` and `df.writeStream.format("relevo")`: rows become jobs, each once."""

from __future__ import annotations

import gc
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from relevo.errors import BadArgument
from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.feed import Feed
from relevo.pipeline.connector.job_parcels import JobParcels
from relevo.pipeline.connector.options import SinkOptions
from relevo.pipeline.connector.spark_api import StreamArrowWriter, record_batches
from relevo.pipeline.connector.streams import register

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
_QUEUE = "queue"


class Fed(WriterCommitMessage):
    """What one task did."""

    def __init__(self, written: int, passed_over: int) -> None:
        self.written = written
        self.passed_over = passed_over


class BatchSink(DataSourceArrowWriter):
    """One write: tasks that run again go on where they stopped. With `writeId` so does the same write run again."""

    def __init__(self, sink: SinkOptions, schema: StructType) -> None:
        self._sink = sink
        self._schema = schema
        self._write = sink.write_id or str(uuid.uuid4())
        JobParcels(_of_jobs(schema), sink)  # columns that cannot become jobs are told before anything runs

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return feed(self._sink, self._schema, iterator, write=self._write, epoch=0)


class StreamSink(StreamArrowWriter):
    """One streaming query. The query's id and the batch's number come with every task, also after a restart."""

    def __init__(self, sink: SinkOptions, schema: StructType) -> None:
        self._sink = sink
        self._schema = schema
        JobParcels(_of_jobs(schema), sink)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        query, epoch = batch_of(TaskContext.get())
        return feed(self._sink, self._schema, record_batches(iterator, self._schema), write=query, epoch=epoch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: every row is in the queue already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch will run again, and goes on where it stopped."""


def batch_of(task: TaskContext | None) -> tuple[str, int]:
    """The id of the streaming query that a task belongs to, and the number of the batch."""
    assert task is not None
    query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
    assert query is not None
    assert batch is not None
    return query, int(batch)


def names_queues(schema: StructType) -> bool:
    """Whether each row says which queue it goes to."""
    named = next((field for field in schema.fields if field.name == _QUEUE), None)
    if named is not None and not isinstance(named.dataType, StringType):
        reason = f"it is {named.dataType.simpleString()}"
        raise BadArgument(argument="column", value=_QUEUE, reason=reason, remedy="Cast it to string.")
    return named is not None


def feed(sink: SinkOptions, schema: StructType, batches: Iterator[Any], *, write: str, epoch: int) -> Fed:
    """What one task does."""
    task = TaskContext.get()
    partition = task.partitionId() if task is not None else 0
    directory = Directory(sink.connection.address(), timeout_s=sink.connection.timeout_s)
    collecting = gc.isenabled()
    gc.disable()  # rows hold no cycles
    alone = not names_queues(schema)

    def made(queue: str) -> Feed:
        own = replace(sink, queue=queue)
        register(directory, queue)
        return Feed(directory, own, write=write, partition=partition, epoch=epoch, alone=alone)

    try:
        parcels = JobParcels(_of_jobs(schema), sink)
        if alone:
            feeds = [made(sink.queue)]
            feeds[0].write(parcels.rows(batches))
        else:
            feeds = _feed_by_row(sink, parcels, batches, made)
    finally:
        directory.close()
        if collecting:
            gc.enable()
    return Fed(sum(each.written for each in feeds), sum(each.passed_over for each in feeds))


def _feed_by_row(
    sink: SinkOptions, parcels: JobParcels, batches: Iterator[Any], made: Callable[[str], Feed]
) -> list[Feed]:
    """Each row to the queue that it names, else to that of the options. Every queue keeps its own marks."""
    queues: deque[str | None] = deque()

    def without_queues() -> Iterator[Any]:
        for batch in batches:
            queues.extend(batch.column(_QUEUE).to_pylist())
            yield batch.drop_columns([_QUEUE])

    feeds: dict[str, Feed] = {}
    for row in parcels.rows(without_queues()):
        queue = queues.popleft() or sink.queue
        if queue not in feeds:
            if not queue:
                remedy = 'Name one for all rows without: .option("queue", "emails").'
                raise BadArgument(argument=_QUEUE, value=None, reason="a row names no queue", remedy=remedy)
            feeds[queue] = made(queue)
            feeds[queue].begin()
        feeds[queue].add(row)
    for each in feeds.values():
        each.end()
    return list(feeds.values())


def _of_jobs(schema: StructType) -> StructType:
    return StructType([field for field in schema.fields if field.name != _QUEUE])
