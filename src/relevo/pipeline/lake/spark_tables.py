# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow comes without types.
"""The lake's tables in Spark SQL, without Delta's jars: `format("relevo-lake")`, and names such as `relevo_gold.latency`.

A query reads the newest version at the moment it is planned (or `versionAsOf`), file by file, with pyarrow in the tasks: so it
works on any storage for which Python has credentials. Where Delta's jars are in the session, `format("delta")` reads the same
folders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from relevo.errors import BadArgument
from relevo.pipeline.lake import files
from relevo.pipeline.lake.delta import DeltaLog
from relevo.pipeline.lake.files import fitted
from relevo.pipeline.lake.instants import values_of
from relevo.pipeline.lake.own import own_specs
from relevo.pipeline.lake.storage import Storage
from relevo.pipeline.lake.tables import ALL, BY_NAME, OWN, spec_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "relevo-lake"


class LakeSource(DataSource):
    """Options: `lake`, its path or address; `table`, such as gold.latency; `versionAsOf`, an older version."""

    called: ClassVar[str] = FORMAT
    given: ClassVar[dict[str, str]] = {}
    """What stands in for options that are not given."""

    @classmethod
    def name(cls) -> str:
        return cls.called

    def schema(self) -> StructType:
        return from_arrow_schema(_schema(self._log()))

    def reader(self, schema: StructType) -> DataSourceReader:
        log = self._log()
        version = self.options.get("versionAsOf")
        found = log.newest() if version is None else log.at(int(version))
        spec = spec_named(found.table)
        parts = [FilePart(file.path, values_of(file.key, spec.span, file.day)) for file in found.files() if file.rows]
        # What Spark was told when the table got its name: it may have got columns since.
        return LakeReader(log.storage, parts, to_arrow_schema(schema, timezone="UTC"))

    def _log(self) -> DeltaLog:
        options = {**self.given, **self.options}
        table = options.get("table", "")
        if table not in BY_NAME and not table.startswith(f"{OWN}."):
            remedy = f"Name one of {', '.join(BY_NAME)}."
            raise BadArgument(argument="table", value=table, reason="there is no such table", remedy=remedy)
        return DeltaLog.of(Storage.at(options.get("lake", "lake")), spec_named(table))


class FilePart(InputPartition):
    """One file, and the values of the columns it is partitioned by."""

    def __init__(self, path: str, values: dict[str, str]) -> None:
        super().__init__(None)
        self.path = path
        self.values = values


class LakeReader(DataSourceReader):
    """Reads the files that were the table when the query was planned."""

    def __init__(self, storage: Storage, parts: list[FilePart], schema: Any) -> None:
        self._storage = storage
        self._parts = parts
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, FilePart):  # what Spark makes of a table without files
            return
        named = [column for column in self._schema if column.name in partition.values]
        rest = pa.schema([column for column in self._schema if column.name not in partition.values])
        for batch in files.batches(self._storage, partition.path, rest):
            rows = pa.Table.from_batches([batch])
            for column in named:
                values = pa.array([partition.values[column.name]] * rows.num_rows).cast(column.type)
                rows = rows.append_column(column.name, values)
            yield from fitted(rows, self._schema).to_batches()


def _schema(log: DeltaLog) -> Any:
    """All columns, with those the table is partitioned by at the end."""
    return pa.schema([pa.field(column.name, column.type) for column in log.whole_schema()])


def register(lake: Storage, spark: SparkSession, only: Collection[str] | None = None) -> list[str]:
    """Makes every table of the lake (or only some) known to SQL as `relevo_<layer>.<name>`, in the session's catalog; returns
    the names. One that nobody has written yet has its declared columns and no rows."""
    spark.dataSource.register(LakeSource)
    made: list[str] = []
    digest = hashlib.blake2b(lake.uri.encode(), digest_size=4).hexdigest()
    specs = [*ALL, *(spec for spec in own_specs(lake) if DeltaLog.of(lake, spec).opened() is not None)]
    for spec in specs if only is None else (one for one in specs if one.name in only):
        layer, _, name = spec.name.partition(".")
        spark.sql(f"CREATE DATABASE IF NOT EXISTS relevo_{layer}")
        spark.sql(f"DROP TABLE IF EXISTS relevo_{layer}.{name}")
        # Spark forgets a table's options when it reads it through a source in Python: so each table has a source of its own.
        called = f"relevo_{digest}_{layer}_{name}"
        given = {"lake": lake.uri, "table": spec.name}
        spark.dataSource.register(type("LakeTable", (LakeSource,), {"called": called, "given": given}))
        spark.sql(f"CREATE TABLE relevo_{layer}.{name} USING {called}")
        made.append(f"relevo_{layer}.{name}")
    return made
