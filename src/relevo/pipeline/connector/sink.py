"""`df.write.format("relevo")` and `df.writeStream.format("relevo")`: rows become jobs, each once."""

from __future__ import annotations

import gc
import uuid
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from relevo.pipeline.connector.connection import Directory
from relevo.pipeline.connector.feed import Feed
from relevo.pipeline.connector.job_parcels import JobParcels
from relevo.pipeline.connector.options import SinkOptions
from relevo.pipeline.connector.spark_api import StreamArrowWriter, record_batches

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


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
        JobParcels(schema, sink)  # columns that cannot become jobs are told before anything runs

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return feed(self._sink, self._schema, iterator, write=self._write, epoch=0)


class StreamSink(StreamArrowWriter):
    """One streaming query. The query's id and the batch's number come with every task, also after a restart."""

    def __init__(self, sink: SinkOptions, schema: StructType) -> None:
        self._sink = sink
        self._schema = schema
        JobParcels(schema, sink)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        assert query is not None
        assert batch is not None
        batches = record_batches(iterator, self._schema)
        return feed(self._sink, self._schema, batches, write=query, epoch=int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: every row is in the queue already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the batch will run again, and goes on where it stopped."""


def feed(sink: SinkOptions, schema: StructType, batches: Iterator[Any], *, write: str, epoch: int) -> Fed:
    """What one task does."""
    task = TaskContext.get()
    partition = task.partitionId() if task is not None else 0
    directory = Directory(sink.connection.address(), timeout_s=sink.connection.timeout_s)
    collecting = gc.isenabled()
    gc.disable()  # rows hold no cycles
    try:
        feeding = Feed(directory, sink, write=write, partition=partition, epoch=epoch)
        written = feeding.write(JobParcels(schema, sink).rows(batches))
    finally:
        directory.close()
        if collecting:
            gc.enable()
    return Fed(written, feeding.passed_over)
