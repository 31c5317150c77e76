"""`spark.read.format("relevo-work")`: messages, archive and audit of the work queues as DataFrames, from any of the databases.

No jar is needed: tasks read through SQLAlchemy, each a range of the primary key, page by page in the order of the key. The
columns are those of `relevo.work.store.views`; times are milliseconds since 1970, documents are JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType
from sqlalchemy import BigInteger, Integer, Table, func, select
from sqlalchemy.engine import URL

from relevo.errors import BadArgument
from relevo.pipeline.connector.audit_stream import AuditStream
from relevo.pipeline.connector.message_changes import MessageChanges
from relevo.pipeline.connector.spark_api import arrow_schema
from relevo.pipeline.connector.work_database import opened, url_of
from relevo.pipeline.connector.work_sink import BatchWorkSink, StreamWorkSink
from relevo.work.store.views import archive, audit, messages

TABLES = {"messages": messages, "archive": archive, "audit": audit}
_KNOWN = ("url", "urlenv", "urlfile", "table", "rowsperpartition")
_SPARK = ("path", "checkpointlocation", "queryname", "outputmode")
_STREAMED = ("startingoffsets", "maxrowspertrigger", "failondataloss")
_PAGE = 5000


class WorkSource(DataSource):
    """Options: `url` (or `urlEnv`, `urlFile`) as for the work queues, `table`, and `rowsPerPartition`."""

    @classmethod
    def name(cls) -> str:
        return "relevo-work"

    def schema(self) -> str:
        _, table, _ = _parsed(self.options)
        return ", ".join(f"`{name}` {kind}" for name, kind in _types(table).items())

    def reader(self, schema: StructType) -> DataSourceReader:
        url, table, rows = _parsed(self.options)
        return WorkReader(url, table.name, _checked(schema, table), rows)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise BadArgument(
                argument="mode", value="overwrite", reason="a queue holds work of others", remedy='Use mode("append").'
            )
        return BatchWorkSink(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        return StreamWorkSink(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        url, table, _ = _parsed(self.options)
        if table is archive:
            reason = "its rows are put there in no order"
            remedy = (
                'Follow .option("table", "messages"): it has every change of a message, also after it was archived.'
            )
            raise BadArgument(argument="table", value="archive", reason=reason, remedy=remedy)
        given = {key.lower(): value for key, value in self.options.items()}
        most = given.get("maxrowspertrigger")
        if most is not None and not (most.isdecimal() and most.isascii() and int(most) > 0):
            remedy = "Write digits."
            raise BadArgument(argument="maxRowsPerTrigger", value=most, reason="must be greater than 0", remedy=remedy)
        return (AuditStream if table is audit else MessageChanges)(
            url,
            _checked(schema, table),
            from_latest=_one_of(given, "startingOffsets", ("earliest", "latest")) == "latest",
            max_rows=None if most is None else int(most),
            fails_on_loss=_one_of(given, "failOnDataLoss", ("true", "false")) == "true",
        )


class KeyRange(InputPartition):
    """Rows after one key, up to and with another; None is before all of them."""

    def __init__(self, after: Any, until: Any) -> None:
        self.after = after
        self.until = until


class WorkReader(DataSourceReader):
    """Reads one table. The end is fixed when it is planned: rows that come later are not read."""

    def __init__(self, url: URL, table: str, schema: Any, rows: int) -> None:
        self._url = url
        self._table = table
        self._schema = schema
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        key = self._source().c.id
        with opened(self._url) as connection:
            last = connection.execute(select(func.max(key))).scalar_one()
            # One walk along the key's index, whatever the number of parts.
            numbered = select(key.label("id"), func.row_number().over(order_by=key).label("place")).subquery()
            every = select(numbered.c.id).where(numbered.c.place % self._rows == 0).order_by(numbered.c.id)
            cuts = connection.execute(every).scalars().all()
        if last is None:
            return []
        places = [None, *(cut for cut in cuts if cut < last), last]
        return [KeyRange(after, until) for after, until in pairwise(places)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, KeyRange):  # Spark's own stand-in for "no partitions"
            return
        table = self._source()
        columns: list[Any] = [table.c[name] for name in self._schema.names]
        at = partition.after
        with opened(self._url) as connection:
            while True:
                query = (
                    select(table.c.id, *columns).where(table.c.id <= partition.until).order_by(table.c.id).limit(_PAGE)
                )
                page = connection.execute(query if at is None else query.where(table.c.id > at)).all()
                if page:
                    at = page[-1][0]
                    values = list(zip(*page, strict=True))[1:]
                    arrays = [pa.array(each, field.type) for each, field in zip(values, self._schema, strict=True)]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)  # pyright: ignore[reportUnknownMemberType]
                if len(page) < _PAGE:
                    return

    def _source(self) -> Table:
        return next(table for table in TABLES.values() if table.name == self._table)


def _checked(schema: StructType, table: Table) -> Any:
    """The Arrow schema of what is asked for: some or all of the columns there are, of the types they have."""
    there = _types(table)
    for field in schema.fields:
        if there.get(field.name) != field.dataType.simpleString():
            shown = f"{field.name} {field.dataType.simpleString()}"
            remedy = f"There are: {', '.join(there)}."
            raise BadArgument(argument="schema", value=shown, reason="there is no such column", remedy=remedy)
    return arrow_schema(schema)


def _one_of(given: Mapping[str, str], name: str, words: tuple[str, str]) -> str:
    """One of two words; the first is the default."""
    text = given.get(name.lower(), words[0]).lower()
    if text not in words:
        raise BadArgument(argument=name, value=text, reason="unknown", remedy=f"Write {' or '.join(words)}.")
    return text


def _types(table: Table) -> dict[str, str]:
    """Spark's type of each column."""
    found: dict[str, str] = {}
    for column in table.columns:
        kind = "string"
        if isinstance(column.type, Integer):  # and BigInteger and SmallInteger, which are its children
            kind = "bigint" if isinstance(column.type, BigInteger) else "int"
        found[column.name] = kind
    return found


def _parsed(options: Mapping[str, str]) -> tuple[URL, Table, int]:
    given = {key.lower(): value for key, value in options.items()}
    for name in given:
        if name not in (*_KNOWN, *_STREAMED, *_SPARK):
            remedy = (
                "There are: url, urlEnv, urlFile, table, rowsPerPartition; "
                "for a stream startingOffsets, maxRowsPerTrigger, failOnDataLoss."
            )
            raise BadArgument(argument="option", value=name, reason="there is none of that name", remedy=remedy)
    table = TABLES.get(given.get("table", "messages"))
    if table is None:
        remedy = f"Write {' or '.join(TABLES)}."
        raise BadArgument(argument="table", value=given["table"], reason="unknown", remedy=remedy)
    rows = given.get("rowsperpartition", "100000")
    if not (rows.isdecimal() and rows.isascii() and int(rows) > 0):
        raise BadArgument(
            argument="rowsPerPartition", value=rows, reason="must be greater than 0", remedy="Write digits."
        )
    return url_of(given), table, int(rows)
