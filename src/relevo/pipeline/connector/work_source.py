"""`spark.read.format("relevo-work")`: messages, archive and audit of the work queues as DataFrames, from any of the databases.

No jar is needed: tasks read through SQLAlchemy, each a range of the primary key, page by page in the order of the key. The
columns are those of `relevo.work.store.tables`; times are milliseconds since 1970, documents are JSON text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sqlalchemy import BigInteger, Engine, Integer, Table, create_engine, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from relevo.errors import BadArgument, ServerRefused
from relevo.pipeline.connector.spark_api import arrow_schema
from relevo.work.store.tables import archive, audit, messages

TABLES = {"messages": messages, "archive": archive, "audit": audit}
_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
_KNOWN = ("url", "urlenv", "urlfile", "table", "rowsperpartition")
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
        there = _types(table)
        for field in schema.fields:
            if there.get(field.name) != field.dataType.simpleString():
                shown = f"{field.name} {field.dataType.simpleString()}"
                remedy = f"There are: {', '.join(there)}."
                raise BadArgument(argument="schema", value=shown, reason="there is no such column", remedy=remedy)
        return WorkReader(url, table.name, arrow_schema(schema), rows)


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
        with _engine(self._url) as engine, _reading(engine) as connection:
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
        with _engine(self._url) as engine, _reading(engine) as connection:
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


class _engine:  # noqa: N801 - used as a statement
    """An engine for the length of a block."""

    def __init__(self, url: URL) -> None:
        self._engine = create_engine(url)

    def __enter__(self) -> Engine:
        return self._engine

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()


class _reading:  # noqa: N801 - used as a statement
    """A connection whose errors name the database and no password."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Any:
        try:
            self._connection = self._engine.connect()
        except DBAPIError as error:
            where = self._engine.url.render_as_string(hide_password=True)
            raise ServerRefused(command=f"a connection to {where}", reason=str(error.orig)) from None
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


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
        if name not in (*_KNOWN, "path"):
            remedy = "There are: url, urlEnv, urlFile, table, rowsPerPartition."
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
    return _url(given), table, int(rows)


def _url(given: Mapping[str, str]) -> URL:
    """The address with a driver that waits: the work queues' own are for asyncio."""
    text = given.get("url", "") or os.environ.get(given.get("urlenv", ""), "")
    if not text and (file := given.get("urlfile")):
        text = Path(file).read_text().strip()
    try:
        url = make_url(text)
    except ArgumentError:
        remedy = "Write sqlite:///file, postgresql://host/name or mariadb://host/name in `url`, `urlEnv` or `urlFile`."
        raise BadArgument(
            argument="url", value="...", reason="it is not the address of a database", remedy=remedy
        ) from None
    driver = _DRIVERS.get(url.get_backend_name())
    if driver is None:
        remedy = f"Use one of {', '.join(_DRIVERS)}."
        raise BadArgument(argument="url", value=url.get_backend_name(), reason="unknown database", remedy=remedy)
    return url.set(drivername=driver)
