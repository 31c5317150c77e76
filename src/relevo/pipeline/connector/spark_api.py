"""Spark's Python Data Source API by the names of its newest version, with stand-ins for what older ones lack.

Spark 4.0 pushes no filters and hands a streaming sink rows instead of record batches; 4.0 and 4.1 know no read limits.
"""

# A checker sees the newest version alone, in which nothing is missing.
# pyright: reportConstantRedefinition=false, reportRedeclaration=false, reportAssignmentType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import signature
from itertools import islice
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql.types import ArrayType, DataType, MapType, Row, StructType

__all__ = [
    "HAS_READ_LIMITS",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "record_batches",
]

_ROWS = 1000

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
except ImportError:  # before 4.2
    HAS_READ_LIMITS = False

    class ReadLimit:
        """Never asked for."""

    class ReadAllAvailable(ReadLimit):
        """All there is: what these versions always read."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """Never made by Spark."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Spark takes what is there in one batch."""


try:
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
    )
except ImportError:  # before 4.1

    class Filter:
        """Never handed over."""

        attribute: tuple[str, ...]
        value: Any

    class EqualNullSafe(Filter): ...  # noqa: D101

    class EqualTo(Filter): ...  # noqa: D101

    class GreaterThan(Filter): ...  # noqa: D101

    class GreaterThanOrEqual(Filter): ...  # noqa: D101

    class In(Filter): ...  # noqa: D101

    class LessThan(Filter): ...  # noqa: D101

    class LessThanOrEqual(Filter): ...  # noqa: D101


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
except ImportError:  # before 4.1
    from pyspark.sql.datasource import DataSourceStreamWriter as StreamArrowWriter


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema of a Spark schema, with times in UTC."""
    to_arrow = cast("Any", to_arrow_schema)
    if "timezone" in signature(to_arrow).parameters:
        return to_arrow(schema, timezone="UTC")
    return to_arrow(schema)  # before 4.2 it is UTC always


def record_batches(given: Iterator[Any], schema: StructType) -> Iterator[Any]:
    """What a writer is given, as record batches: of rows, where Spark has no better, some at a time."""
    first = next(given, None)
    if first is None:
        return
    if not isinstance(first, Row):
        yield first
        yield from given
        return
    arrow = arrow_schema(schema)
    rows = [first, *islice(given, _ROWS - 1)]
    while rows:
        columns: list[Any] = [
            pa.array([_plain(row[at], field.dataType) for row in rows], arrow.field(at).type)  # pyright: ignore[reportUnknownMemberType]
            for at, field in enumerate(schema.fields)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)  # pyright: ignore[reportUnknownMemberType]
        rows = list(islice(given, _ROWS))


def _plain(value: Any, kind: DataType) -> Any:
    """A value of a row as Arrow takes it. Spark gives times in the zone of this machine, and does not say so."""
    match kind:
        case _ if value is None:
            return None
        case StructType():
            return {field.name: _plain(value[at], field.dataType) for at, field in enumerate(kind.fields)}
        case MapType():
            return [(_plain(key, kind.keyType), _plain(each, kind.valueType)) for key, each in value.items()]
        case ArrayType():
            return [_plain(each, kind.elementType) for each in value]
        case _ if isinstance(value, datetime) and value.tzinfo is None:
            return value.astimezone(UTC)
        case _:
            return bytes(value) if isinstance(value, bytearray) else value
