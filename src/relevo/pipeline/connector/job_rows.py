# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow comes without types.
"""Jobs as Arrow: entries of the stream, dead letters and delayed members, with their envelopes opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from relevo.errors import Undecodable
from relevo.pipeline.connector.event_rows import micros
from relevo.pipeline.connector.offsets import EntryId
from relevo.pipeline.connector.streams import queue_of
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.frame import FramedJob, decode_frame, is_frame
from relevo.wire.payload import decode_payload
from relevo.wire.retry import RetryOverride

_MAX_INT = (1 << 63) - 1
_FIELDS = {"stream": ("d", "n"), "dlq": ("d", "n", "source_id", "reason", "detail")}
_COLUMN = {"n": "name", "source_id": "source_id", "reason": "reason", "detail": "detail"}


class JobRows:
    """Makes record batches of entries that hold envelopes. What cannot be opened is a row with `bad` set."""

    def __init__(
        self,
        stream: str,
        what: str,
        schema: Any,
        *,
        raw_payload: bool,
        keep: Callable[[str | None, str | None], bool] | None = None,
        source: str = "",
    ) -> None:
        self._schema = schema
        self._constants = {"_stream": stream, "queue": queue_of(stream), "source": source}
        self._fields = _FIELDS.get(what, ())
        self._raw = raw_payload
        self._keep = keep

    def batch(self, entries: Sequence[Sequence[Any]]) -> Any:
        return self._of(row for entry in entries for row in self._entry(entry))

    def delayed_batch(self, members: Sequence[tuple[bytes, bytes]]) -> Any:
        """Of (member, score) pairs."""
        return self._of(self._member(member, score) for member, score in members)

    def _of(self, rows: Any) -> Any:
        kept = [row for row in rows if self._keep is None or self._keep(None, row.get("name"))]
        columns = [pa.array([row.get(field.name) for row in kept], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _entry(self, entry: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """One row, or for a frame one for each of its jobs; they share the entry's id."""
        flat: Sequence[bytes] = entry[1] or ()
        if len(flat) == 4 and flat[0] == b"d" and flat[2] == b"n" and not is_frame(flat[1]):
            yield self._usual(entry[0], flat[1], flat[3])
            return
        at = EntryId.parse(entry[0])
        row: dict[str, Any] = {**self._constants, "_id": str(at), "_ts": micros(at.ms)}
        rest: list[tuple[str, str]] = []
        wrong: list[str] = []
        envelope = None
        for place in range(0, len(flat) - 1, 2):
            name = flat[place].decode(errors="replace")
            if name == "d" and envelope is None:
                envelope = flat[place + 1]
            elif name in self._fields and _COLUMN[name] not in row:
                row[_COLUMN[name]] = _decoded(flat[place + 1], name, wrong)
            elif name not in dict(rest):
                rest.append((name, _decoded(flat[place + 1], name, [])))
        row["rest"] = rest or None
        jobs: list[FramedJob] = []
        if envelope is None:
            wrong.append("d is missing")
        elif is_frame(envelope):
            try:
                jobs = decode_frame(envelope)
            except Undecodable as error:
                wrong.append(str(error))
        else:
            self._open(envelope, row, wrong)
        for job in jobs:
            yield self._framed(job, row, list(wrong))
        if not jobs:
            yield row | {"bad": "; ".join(wrong) or None}

    def _usual(self, entry_id: bytes, envelope: bytes, name: bytes) -> dict[str, Any]:
        """An entry of the shape that nearly all have, without a look at each of its fields."""
        at, wrong = entry_id.decode(), list[str]()
        row: dict[str, Any] = {**self._constants, "_id": at, "_ts": micros(int(at.partition("-")[0])), "rest": None}
        row["name"] = _decoded(name, "n", wrong)
        self._open(envelope, row, wrong)
        row["bad"] = "; ".join(wrong) or None
        return row

    def _framed(self, job: FramedJob, entry: dict[str, Any], wrong: list[str]) -> dict[str, Any]:
        row = entry | {"name": job.name or None}
        self._fill(job.envelope, row, wrong)
        return row | {"bad": "; ".join(wrong) or None}

    def _member(self, member: bytes, score: bytes) -> dict[str, Any]:
        row: dict[str, Any] = {**self._constants, "run_at": micros(int(float(score)))}
        wrong: list[str] = []
        try:
            delayed = DelayedMember.decode(member)
        except Undecodable as error:
            wrong.append(str(error))
        else:
            row["name"] = delayed.name or None
            self._open(delayed.envelope, row, wrong)
        row["bad"] = "; ".join(wrong) or None
        return row

    def _open(self, data: bytes, row: dict[str, Any], wrong: list[str]) -> None:
        try:
            envelope = Envelope.decode(data)
        except Undecodable as error:
            wrong.append(str(error))
            return
        self._fill(envelope, row, wrong)

    def _fill(self, envelope: Envelope, row: dict[str, Any], wrong: list[str]) -> None:
        row["job_id"] = envelope.id
        row["created_at"] = micros(envelope.created_at_ms)
        row["attempt"] = envelope.attempt if envelope.attempt <= _MAX_INT else None
        row["retry"] = _retry(envelope.retry)
        if self._raw:
            row["data"] = envelope.payload
            return
        try:
            row["data"] = msgspec.json.encode(decode_payload(envelope.payload)).decode()
        except Undecodable as error:
            wrong.append(str(error))
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            wrong.append(f"its data cannot be written as JSON: {error}")


def _decoded(value: bytes, name: str, wrong: list[str]) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        wrong.append(f"{name} is not UTF-8")
        return value.decode(errors="replace")


def _retry(retry: RetryOverride | None) -> dict[str, Any] | None:
    if retry is None:
        return None
    backoff = retry.backoff
    return {
        "max_attempts": retry.max_attempts,
        "backoff": None if backoff is None else {name: getattr(backoff, name) for name in backoff.__struct_fields__},
    }
