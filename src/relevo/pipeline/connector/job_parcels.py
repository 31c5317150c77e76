"""Rows of a DataFrame as jobs: the columns name, data, delay, job_id, retry and lane become an envelope on its way.

`data` may be JSON text (the default for text), bytes (msgpack, taken as they are), or anything Spark has a type for: structs,
maps, arrays, numbers. `delay` is in milliseconds, or a timestamp; `retry` is a number of attempts or the struct that the
source gives, so what was read can be written as it is.

A row with a lane goes there as a delayed job does: it is due at once, and whoever moves due jobs takes it to its lane.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec
from pyspark.sql.types import (
    BinaryType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from relevo.errors import BadArgument
from relevo.pipeline.connector.feed import Row
from relevo.pipeline.connector.options import SinkOptions
from relevo.wire.backoff import retry_override
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.envelope_encoder import EnvelopeEncoder
from relevo.wire.limits import QueueLimits
from relevo.wire.notes import Notes, checked_lane
from relevo.wire.payload import encode_payload
from relevo.wire.retry import RetryOverride

_RARE = ("delay", "job_id", "retry", "lane")
COLUMNS = ("name", "data", *_RARE)

_read_json = msgspec.json.Decoder().decode


class JobParcels:
    """Makes rows for the feed out of record batches."""

    def __init__(self, schema: StructType, sink: SinkOptions) -> None:
        self._sink = sink
        self._encoder = EnvelopeEncoder(QueueLimits(max_payload_bytes=sink.max_payload))
        types = {field.name: field.dataType for field in schema.fields}
        for name in types:
            if name not in COLUMNS:
                raise _bad(name, "jobs have no such column", f"Select some of {', '.join(COLUMNS)}.")
        for name in ("name", "job_id", "lane"):
            if name in types and not isinstance(types[name], StringType):
                raise _bad(name, f"it is {types[name].simpleString()}", "Cast it to string.")
        delay = types.get("delay")
        if delay is not None and not isinstance(delay, IntegralType | TimestampType):
            raise _bad("delay", f"it is {delay.simpleString()}", "Give milliseconds, or a timestamp.")
        retry = types.get("retry")
        if retry is not None and not isinstance(retry, IntegralType | StructType):
            raise _bad(
                "retry", f"it is {retry.simpleString()}", "Give a number of attempts, or the struct of the source."
            )
        self._payload = self._payload_encoder(types.get("data"))
        self._laned: tuple[int, str] = (0, "")
        """When the last row with a lane is due, and its name: the order of rows is that of their times."""

    def rows(self, batches: Iterable[Any]) -> Iterator[Row]:
        number = 0
        for batch in batches:
            count: int = batch.num_rows
            columns: dict[str, list[Any]] = dict(zip(batch.schema.names, map(_values, batch.columns), strict=True))
            none: list[Any] = [None] * count
            now_ms = time.time_ns() // 1_000_000
            lists = [columns.get(name, none) for name in COLUMNS]
            if columns.keys().isdisjoint(_RARE):
                yield from self._plain(number, now_ms, *lists[:2])
            else:
                self._laned = max(self._laned, (now_ms - count, ""))
                for place, (name, data, delay, job_id, retry, lane) in enumerate(zip(*lists, strict=True)):
                    row = self._row(number + place, now_ms, name or "", data, delay, job_id, retry)
                    yield row if lane is None else self._in_lane(row, name or "", lane)
            number += count

    def _plain(self, number: int, now_ms: int, names: list[str | None], rows: list[Any]) -> Iterator[Row]:
        """As `_row`, for jobs that have nothing but a name and data."""
        encoder, encode = self._encoder, self._payload
        for place, (given, data) in enumerate(zip(names, rows, strict=True), number):
            name = given or ""
            encoded, payload = encoder.name(name), encode(data, name, place)
            _, envelope = encoder.envelope(name, payload, now_ms)
            yield Row(envelope, encoded, None, "", b"", b"%b\0%b" % (encoded, payload))

    def _row(self, number: int, now_ms: int, name: str, data: Any, delay: Any, job_id: str | None, retry: Any) -> Row:
        encoder = self._encoder
        encoded, payload = encoder.name(name), self._payload(data, name, number)
        override = None if retry is None else _override(retry)
        _, envelope = encoder.envelope(name, payload, now_ms, job_id=job_id or None, retry=override)
        content = b"%b\0%b" % (encoded, payload)
        if delay is None and override is None and not job_id:
            return Row(envelope, encoded, None, "", b"", content)
        content += f"\0{delay}\0{override}\0{job_id or ''}".encode()
        run_at = encoder.run_at(delay, None, now_ms)
        member = b"" if run_at is None else DelayedMember(name, envelope).encode()
        return Row(envelope, encoded, run_at, job_id or "", member, content)

    def _in_lane(self, row: Row, name: str, given: str) -> Row:
        lane, (due, before) = checked_lane(given), self._laned
        if row.job_id or name != before:  # jobs of one moment and name come in the order of our ids
            due += 1
        self._laned = (due, name)
        job_id = Envelope.decode(row.envelope).id
        run_at = due if row.run_at_ms is None else row.run_at_ms
        member = row.member or DelayedMember(name, row.envelope).encode()
        content = b"%b\0lane %b" % (row.content, lane.encode())
        return row._replace(
            run_at_ms=run_at, member=member, content=content, notes=Notes(lane=lane).encode(), noted=job_id
        )

    def _payload_encoder(self, kind: Any) -> Callable[[Any, str, int], bytes]:
        if isinstance(kind, BinaryType):
            return lambda data, _name, _row: b"\xc0" if data is None else bytes(data)
        if isinstance(kind, StringType) and self._sink.data_format == "json":
            return _from_json
        return lambda data, name, _row: encode_payload(data, name)


def _from_json(data: str | None, name: str, row: int) -> bytes:
    if data is None:
        return b"\xc0"
    try:
        value = _read_json(data)
    except (msgspec.MsgspecError, ValueError) as error:
        remedy = 'Send text as it is with .option("dataFormat", "text").'
        raise BadArgument(
            argument=f"data of row {row}", value=f"{len(data)} characters", reason=f"not JSON: {error}", remedy=remedy
        ) from error
    return encode_payload(value, name)


def _values(column: Any) -> list[Any]:
    if not column.type.num_fields:  # no map can be in there, and Arrow is ten times as fast when it need not look
        return cast("list[Any]", column.to_pylist())
    return cast("list[Any]", column.to_pylist(maps_as_pydicts="strict"))


def _override(retry: Any) -> RetryOverride | None:
    return (
        retry_override(retry, None)
        if isinstance(retry, int)
        else retry_override(retry.get("max_attempts"), retry.get("backoff"))
    )


def _bad(column: str, reason: str, remedy: str) -> BadArgument:
    return BadArgument(argument="column", value=column, reason=reason, remedy=remedy)
