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
_NO_JSON = (TypeError, ValueError, RecursionError, msgspec.MsgspecError)
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
        usual = self._usual(entries) if self._keep is None else None
        return self._of(row for entry in entries for row in self._entry(entry)) if usual is None else usual

    def delayed_batch(self, members: Sequence[tuple[bytes, bytes]]) -> Any:
        """Of (member, score) pairs."""
        return self._of(self._member(member, score) for member, score in members)

    def _of(self, rows: Any) -> Any:
        kept = [row for row in rows if self._keep is None or self._keep(None, row.get("name"))]
        columns = [pa.array([row.get(field.name) for row in kept], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _usual(self, entries: Sequence[Sequence[Any]]) -> Any:
        """Entries of the shape that nearly all have, column by column, which takes half the time; None where one of them is
        of another shape or cannot be opened."""
        ids, names, opened, payloads = list[str](), list[str](), list[Envelope](), list[Any]()
        try:
            for entry_id, flat in entries:
                if not flat or len(flat) != 4 or flat[0] != b"d" or flat[2] != b"n" or is_frame(flat[1]):
                    return None
                envelope = Envelope.decode(flat[1])
                ids.append(entry_id.decode())
                names.append(flat[3].decode())
                opened.append(envelope)
                payloads.append(envelope.payload if self._raw else _as_json(envelope.payload))
        except (Undecodable, *_NO_JSON):  # a UnicodeDecodeError is one of them
            return None
        there: dict[str, list[Any]] = {
            **{name: [value] * len(ids) for name, value in self._constants.items()},
            "_id": ids,
            "_ts": [micros(int(at.partition("-")[0])) for at in ids],
            "name": names,
            "data": payloads,
            "job_id": [envelope.id for envelope in opened],
            "created_at": [micros(envelope.created_at_ms) for envelope in opened],
            "attempt": [envelope.attempt if envelope.attempt <= _MAX_INT else None for envelope in opened],
        }
        if any(envelope.retry is not None for envelope in opened):
            there["retry"] = [_retry(envelope.retry) for envelope in opened]
        columns = [
            pa.array(there[field.name], field.type) if field.name in there else pa.nulls(len(ids), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _entry(self, entry: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """One row, or for a frame one for each of its jobs; they share the entry's id."""
        flat: Sequence[bytes] = entry[1] or ()
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
            row["data"] = _as_json(envelope.payload)
        except Undecodable as error:
            wrong.append(str(error))
        except _NO_JSON as error:
            wrong.append(f"its data cannot be written as JSON: {error}")


def _as_json(payload: bytes) -> str:
    return msgspec.json.encode(decode_payload(payload)).decode()


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
