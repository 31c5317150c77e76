"""The data source itself: `spark.dataSource.register(RelevoSource)`, then `format("relevo")`."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from relevo.errors import BadArgument
from relevo.pipeline.connector.batch_reader import BatchReader
from relevo.pipeline.connector.consume import ConsumeOptions, ConsumeReader
from relevo.pipeline.connector.options import SinkOptions, SourceOptions
from relevo.pipeline.connector.settle_sink import BatchSettle, SettleOptions, StreamSettle
from relevo.pipeline.connector.sink import BatchSink, StreamSink, names_queues
from relevo.pipeline.connector.spark_api import arrow_schema
from relevo.pipeline.connector.stream_reader import StreamReader
from relevo.pipeline.source_columns import ddl


class RelevoSource(DataSource):
    """Queues as DataFrames, and rows as jobs. docs/how-to/spark.md lists the options."""

    @classmethod
    def name(cls) -> str:
        return "relevo"

    @property
    def _mode(self) -> str:
        """What the query does with the queue: `consume` takes its jobs, `settle` tells what became of them."""
        mode = self.options.get("mode", "")
        if mode not in ("", "consume", "settle"):
            remedy = 'Write "consume" or "settle", or leave it out.'
            raise BadArgument(argument="mode", value=mode, reason="unknown", remedy=remedy)
        return mode

    def schema(self) -> str:
        if self._mode == "consume":
            return ConsumeOptions.parse(self.options).ddl
        source = SourceOptions.parse(self.options)
        return ddl(source.columns, raw_payload=source.raw_payload)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._mode == "consume":
            remedy = "Use readStream, with trigger(availableNow=True) for what is there now."
            raise BadArgument(
                argument="mode", value="consume", reason="a batch has no commit to settle at", remedy=remedy
            )
        source = SourceOptions.parse(self.options)
        return BatchReader(source, _arrow(source, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if self._mode == "consume":
            return ConsumeReader(ConsumeOptions.parse(self.options), arrow_schema(schema))
        source = SourceOptions.parse(self.options)
        if source.what == "delayed":
            raise BadArgument(
                argument="what",
                value=source.what,
                reason="a delayed set has no order of arrival to follow",
                remedy="Read it as a batch, or follow its events.",
            )
        return StreamReader(source, _arrow(source, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise BadArgument(
                argument="mode", value="overwrite", reason="a queue holds work of others", remedy='Use mode("append").'
            )
        if self._mode == "settle":
            return BatchSettle(SettleOptions.parse(self.options), schema)
        return BatchSink(SinkOptions.parse(self.options, queue_by_row=names_queues(schema)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        if self._mode == "settle":
            return StreamSettle(SettleOptions.parse(self.options), schema)
        return StreamSink(SinkOptions.parse(self.options, queue_by_row=names_queues(schema)), schema)


def _arrow(source: SourceOptions, schema: StructType) -> Any:
    """The Arrow schema of what is asked for: some or all of the columns there are, of the types they have."""
    there = {column.name: column.type for column in source.columns}
    if source.raw_payload and "data" in there:
        there["data"] = "binary"
    for field in schema.fields:
        if there.get(field.name) != field.dataType.simpleString():
            raise BadArgument(
                argument="schema",
                value=f"{field.name} {field.dataType.simpleString()}",
                reason=f"what={source.what} has no such column"
                if source.landing is None
                else "landing has no such column",
                remedy=f"There are: {', '.join(f'{name} {kind}' for name, kind in there.items())}.",
            )
    return arrow_schema(schema)
