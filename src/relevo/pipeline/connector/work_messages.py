"""Rows of a DataFrame as messages of work queues: what `Client.publish` takes, each a column.

`body` may be JSON text (the default for text) or anything Spark has a type for. A null is left out, except that of a body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, cast

import msgspec
from pyspark.sql.types import (
    DataType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from relevo.errors import BadArgument

_TEXTS = (
    *("queue", "message_type", "priority_tier", "content_type", "idempotency_key", "correlation_id", "causation_id"),
    *("parent_id", "source_type", "source_id"),
)
_WHOLE = ("priority_score", "ttl_s")
_MOMENTS = ("deadline", "visible_at")
COLUMNS = ("body", *_TEXTS, *_WHOLE, "delay_s", *_MOMENTS, "labels", "hitl_spec")

_read_json = msgspec.json.Decoder().decode
_write_json = msgspec.json.Encoder().encode


class WorkMessage(NamedTuple):
    """One row on its way."""

    row: int
    """Its place in the partition, from 0."""
    queue: str | None
    fields: dict[str, Any]
    size: int
    """Of the body, in bytes."""


class WorkMessages:
    """Makes messages out of record batches; a column that cannot be one is told before anything runs."""

    def __init__(self, schema: StructType, *, text_bodies: bool) -> None:
        types = {field.name: field.dataType for field in schema.fields}
        for name in types:
            if name not in COLUMNS:
                raise _bad(name, "messages have no such column", f"Select some of {', '.join(COLUMNS)}.")
        if "body" not in types:
            raise _bad(
                "body", "it is missing", "Select what the messages say as `body`, for example to_json(struct(*))."
            )
        self._makers = {name: _maker(name, kind) for name, kind in types.items() if name != "body"}
        is_json = isinstance(types["body"], StringType) and not text_bodies
        self._body: Callable[[Any, int], msgspec.Raw] = _json_text if is_json else _json_of

    def of(self, batches: Iterable[Any]) -> Iterator[WorkMessage]:
        number = 0
        for batch in batches:
            columns: dict[str, list[Any]] = dict(zip(batch.schema.names, map(_values, batch.columns), strict=True))
            bodies = columns.pop("body")
            for place, body in enumerate(bodies):
                said = self._body(body, number)
                fields: dict[str, Any] = {"body": said}
                for name, values in columns.items():
                    if (value := values[place]) is not None:
                        fields[name] = self._makers[name](value)
                yield WorkMessage(number, fields.pop("queue", None), fields, len(memoryview(said)))
                number += 1


def _maker(name: str, kind: DataType) -> Callable[[Any], Any]:
    """What makes a value of a column into what the server takes."""
    shown = kind.simpleString()
    if name in _TEXTS and not isinstance(kind, StringType):
        raise _bad(name, f"it is {shown}", "Cast it to string.")
    if name in _WHOLE and not isinstance(kind, IntegralType):
        raise _bad(name, f"it is {shown}", "Cast it to bigint.")
    if name == "delay_s":
        if not isinstance(kind, IntegralType | FractionalType):
            raise _bad(name, f"it is {shown}", "Give seconds, as a number.")
        return float if isinstance(kind, DecimalType) else _as_it_is
    if name in _MOMENTS:
        if not isinstance(kind, IntegralType | TimestampType):
            raise _bad(name, f"it is {shown}", "Give a timestamp, or milliseconds since 1970.")
        return _moment
    if name == "labels" and not (isinstance(kind, MapType) and isinstance(kind.valueType, StringType)):
        raise _bad(name, f"it is {shown}", "Give a map of strings.")
    if name == "hitl_spec" and isinstance(kind, StringType):
        return lambda text: _json_text(text, 0)
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _moment(value: int | datetime) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1000)


def _json_of(value: Any, _row: int) -> msgspec.Raw:
    return msgspec.Raw(_write_json(value))


def _json_text(text: str | None, row: int) -> msgspec.Raw:
    if text is None:
        return msgspec.Raw(b"null")
    try:
        _read_json(text)
    except (msgspec.MsgspecError, ValueError) as error:
        shown, remedy = f"{len(text)} characters", 'Send text as it is with .option("dataFormat", "text").'
        raise BadArgument(
            argument=f"JSON of row {row}", value=shown, reason=f"not JSON: {error}", remedy=remedy
        ) from error
    return msgspec.Raw(text.encode())


def _values(column: Any) -> list[Any]:
    if not column.type.num_fields:  # no map can be in there, and Arrow is ten times as fast when it need not look
        return cast("list[Any]", column.to_pylist())
    return cast("list[Any]", column.to_pylist(maps_as_pydicts="strict"))


def _bad(column: str, reason: str, remedy: str) -> BadArgument:
    return BadArgument(argument="column", value=column, reason=reason, remedy=remedy)
