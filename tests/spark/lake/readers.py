"""The same tables by every reader we have: `deltalake`, DuckDB over Arrow, Polars, DataFusion, and Spark."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false, reportMissingTypeStubs=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.tables import ALL


def readers(lake: Lake, spark: SparkSession | None = None) -> dict[str, Callable[[str], Any]]:
    """Each gives a table of that name as Arrow."""

    def delta(name: str) -> DeltaTable:
        folder = lake.folder(name)
        return DeltaTable(folder.for_delta, storage_options=folder.delta_options())

    def by_duckdb(name: str) -> Any:
        dataset = delta(name).to_pyarrow_dataset()
        connection = duckdb.connect()
        connection.register("dataset", dataset)
        return connection.sql("SELECT * FROM dataset").to_arrow_table()

    def by_polars(name: str) -> Any:
        return pl.read_delta(delta(name)).to_arrow()

    found: dict[str, Callable[[str], Any]] = {
        "deltalake": lambda name: delta(name).to_pyarrow_table(),
        "duckdb": by_duckdb,
        "polars": by_polars,
        "datafusion": lambda name: lake.sql(f"SELECT * FROM relevo_{name}"),  # noqa: S608
    }
    if spark is not None:
        lake.register(spark)
        found["spark"] = lambda name: spark.table(f"relevo_{name}").toArrow()
    return found


def written(lake: Lake) -> list[str]:
    return [spec.name for spec in ALL if lake.table(spec.name).rows]


def facts(rows: Any) -> Counter[str]:
    """The rows as one can compare them, whatever a reader calls their types."""
    table = pa.table(rows)
    names = sorted(table.column_names)
    return Counter(str([_plain(row[name]) for name in names]) for row in table.to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, dict):
        return sorted((key, _plain(item)) for key, item in value.items())
    if isinstance(value, list):  # a map, to some
        pairs = [tuple(item.values()) if isinstance(item, dict) else item for item in value]
        return sorted((key, _plain(item)) for key, item in pairs)
    return value
