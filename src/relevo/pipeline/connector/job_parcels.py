"""Rows of a DataFrame as jobs: the columns name, data, delay, job_id and retry become an envelope on its way.

`data` may be JSON text (the default for text), bytes (msgpack, taken as they are), or anything Spark has a type for: structs,
maps, arrays, numbers. `delay` is in milliseconds, or a timestamp; `retry` is a number of attempts or the struct that the
source gives, so what was read can be written as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, cast

import msgspec
from pyspark.sql.types import (
    BinaryType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from relevo.errors import BadArgument, DelayTooLong, NameTooLong, PayloadTooLarge
from relevo.pipeline.connector.feed import Row
from relevo.pipeline.connector.options import SinkOptions
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import encode_bare
from relevo.wire.ids import IdMint
from relevo.wire.payload import encode_payload
from relevo.wire.retry import Backoff, RetryOverride

_RARE = ("delay", "job_id", "retry")
COLUMNS = ("name", "data", *_RARE)
_MAX_NAME, _MAX_DELAY_S = 256, 30 * 86_400

_read_json = msgspec.json.Decoder().decode


class JobParcels:
    """Makes rows for the feed out of record batches."""

    def __init__(self, schema: StructType, sink: SinkOptions) -> None:
        self._sink = sink
        self._mint = IdMint()
        types = {field.name: field.dataType for field in schema.fields}
        for name in types:
            if name not in COLUMNS:
                raise _bad(name, "jobs have no such column", f"Select some of {', '.join(COLUMNS)}.")
        for name in ("name", "job_id"):
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
        self._payload = self._encoder(types.get("data"))

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
                for place, (name, data, delay, job_id, retry) in enumerate(zip(*lists, strict=True)):
                    yield self._row(number + place, now_ms, name or "", data, delay, job_id, retry)
            number += count

    def _plain(self, number: int, now_ms: int, names: list[str | None], rows: list[Any]) -> Iterator[Row]:
        """As `_row`, for jobs that have nothing but a name and data: half of what each would cost."""
        known: dict[str | None, tuple[str, bytes]] = {}
        encode, largest = self._payload, self._sink.max_payload
        for place, (job_id, given, data) in enumerate(
            zip(self._mint.row(len(rows), now_ms), names, rows, strict=True), number
        ):
            if given not in known:
                known[given] = (given or "", _checked_name(given or ""))
            name, encoded = known[given]
            payload = encode(data, name, place)
            envelope = encode_bare((job_id, payload, now_ms, 0))
            if len(envelope) > largest:
                raise PayloadTooLarge(job=name, size=len(envelope), limit=largest)
            yield Row(envelope, encoded, None, "", b"", b"%b\0%b" % (encoded, payload))

    def _row(self, number: int, now_ms: int, name: str, data: Any, delay: Any, job_id: str | None, retry: Any) -> Row:
        encoded = _checked_name(name)
        payload = self._payload(data, name, number)
        override = None if retry is None else _override(retry)
        chosen = job_id or ""
        head = (chosen or self._mint(now_ms), payload, now_ms, 0)
        envelope = encode_bare(head if override is None else (*head, override))
        if len(envelope) > self._sink.max_payload:
            raise PayloadTooLarge(job=name, size=len(envelope), limit=self._sink.max_payload)
        content = b"%b\0%b" % (encoded, payload)
        if delay is None and override is None and not chosen:
            return Row(envelope, encoded, None, "", b"", content)
        content += f"\0{delay}\0{override}\0{chosen}".encode()
        run_at = _run_at(delay, now_ms)
        member = b"" if run_at is None else DelayedMember(name, envelope).encode()
        return Row(envelope, encoded, run_at, chosen, member, content)

    def _encoder(self, kind: Any) -> Callable[[Any, str, int], bytes]:
        if isinstance(kind, BinaryType):
            return lambda data, _name, _row: b"\xc0" if data is None else bytes(data)
        if isinstance(kind, StringType) and self._sink.data_format == "json":
            return _from_json
        return lambda data, name, _row: encode_payload(data, name)


def _checked_name(name: str) -> bytes:
    encoded = name.encode()
    if len(encoded) > _MAX_NAME:
        raise NameTooLong(name=name, size=len(encoded))
    return encoded


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


def _override(retry: Any) -> RetryOverride:
    if isinstance(retry, int):
        return RetryOverride(retry, None)
    backoff = retry.get("backoff")
    return RetryOverride(retry.get("max_attempts"), None if backoff is None else Backoff(**backoff))


def _run_at(delay: int | datetime | None, now_ms: int) -> int | None:
    if delay is None:
        return None
    at = int(delay.timestamp() * 1000) if isinstance(delay, datetime) else now_ms + delay
    if at - now_ms > _MAX_DELAY_S * 1000:
        raise DelayTooLong(delay_s=(at - now_ms) // 1000, limit_s=_MAX_DELAY_S)
    return at if at > now_ms else None


def _bad(column: str, reason: str, remedy: str) -> BadArgument:
    return BadArgument(argument="column", value=column, reason=reason, remedy=remedy)
