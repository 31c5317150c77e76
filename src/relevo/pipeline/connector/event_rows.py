# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow comes without types.
"""Events as Arrow: entries in, record batches out. For what `event_columns` leaves over, with a fast way for entries of one
shape and a slow way for the rest; all give the same rows.

Fast means: entries of one shape (the same fields in the same order) are laid end to end and every column is one slice of
that; Arrow makes text and numbers of the bytes. An entry of any other shape is read field by field, and says so in `bad`
when it is malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from relevo.pipeline.connector.event_columns import KNOWN, MOMENT, NEEDED, NUMBERS, SLUG, TEXTS, slug_of
from relevo.pipeline.connector.offsets import EntryId
from relevo.pipeline.connector.streams import queue_of

_MAX_INT = (1 << 63) - 1
_LAST_MS = 253_402_300_799_999  # the end of the year 9999, beyond which Python has no dates

Entry = Sequence[Any]
Arrays = dict[str, Any]


class EventRows:
    """Makes record batches of the pages of one stream; only the columns of `schema` are made."""

    def __init__(
        self,
        stream: str,
        schema: Any,
        keep: Callable[[str | None, str | None], bool] | None = None,
        *,
        source: str = "",
    ) -> None:
        self._schema = schema
        self._wanted = frozenset(schema.names)
        queue = queue_of(stream)
        self._slug = slug_of(queue)
        self._constants = {"_stream": stream, "queue": queue, "source": source}
        self._keep = keep
        """Which rows are wanted, by event and name (a filter that Spark pushed down)."""

    def batch(self, entries: Sequence[Entry]) -> Any:
        """One record batch of entries in their order."""
        if self._keep is not None:
            entries = [entry for entry in entries if self._keep(_field(entry[1], b"e"), _field(entry[1], b"n"))]
        shapes: dict[int, list[int]] = {}
        for at, entry in enumerate(entries):
            shapes.setdefault(len(entry[1]), []).append(at)
        if len(shapes) <= 1:
            return self._joined([self._of_shape(entries)])
        parts = [self._of_shape([entries[at] for at in places]) for places in shapes.values()]
        order = pa.array(list(chain.from_iterable(shapes.values())), pa.int32())
        return self._joined(parts).take(pc.sort_indices(order))

    def _joined(self, parts: list[Arrays]) -> Any:
        columns = [
            parts[0][name] if len(parts) == 1 else pa.concat_arrays([part[name] for part in parts])
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _of_shape(self, entries: Sequence[Entry]) -> Arrays:
        try:
            columns = self._fast(entries) if entries else None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # text that is not UTF-8, a number that is none
            columns = None
        return columns if columns is not None else self._slow(entries)

    # --- the fast way ----------------------------------------------------------------------------------------------

    def _fast(self, entries: Sequence[Entry]) -> Arrays | None:
        """The columns, or None when the entries are not all of one known shape."""
        fields = list(chain.from_iterable([entry[1] for entry in entries]))
        size = len(entries[0][1])
        names: list[str] = []
        for at in range(0, size, 2):
            found = set(fields[at::size])
            if len(found) != 1:
                return None
            names.append(found.pop().decode(errors="replace"))
        if SLUG in names:
            at = names.index(SLUG)
            if set(fields[2 * at + 1 :: size]) != {self._slug.encode()}:
                return None
        if (
            not KNOWN.union((SLUG,)).issuperset(names)
            or len(set(names)) != len(names)
            or not set(NEEDED).issubset(names)
        ):
            return None
        raw = {name: fields[2 * at + 1 :: size] for at, name in enumerate(names) if name != SLUG}
        ids = [entry[0] for entry in entries]
        return self._columns(ids, raw)

    def _columns(self, ids: list[bytes], raw: dict[str, list[bytes]]) -> Arrays | None:
        columns: Arrays = {}
        count = len(ids)
        texts = pa.array(ids, pa.binary()).cast(pa.string())
        if "_id" in self._wanted:
            columns["_id"] = texts
        if "_ts" in self._wanted:
            columns["_ts"] = _moments(texts, ids)
        for name in self._schema.names:
            if name in columns:
                continue
            if name in raw:
                values = pa.array(raw[name], pa.binary()).cast(pa.string())
                if name in NUMBERS and not pc.all(pc.ascii_is_decimal(values)).as_py():
                    return None  # Arrow would take 0x10 for a number
                columns[name] = values.cast(pa.int64()) if name in NUMBERS else values
            elif name in self._constants:
                columns[name] = pa.repeat(pa.scalar(self._constants[name], pa.string()), count)
            else:
                columns[name] = pa.nulls(count, self._schema.field(name).type)
        return columns

    # --- the slow way ----------------------------------------------------------------------------------------------

    def _slow(self, entries: Sequence[Entry]) -> Arrays:
        rows = list(map(self._row, entries))
        return {
            name: pa.array([row[name] for row in rows], self._schema.field(name).type) for name in self._schema.names
        }

    def _row(self, entry: Entry) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(KNOWN)
        rest: list[tuple[str, str]] = []
        wrong: list[str] = []
        fields: Sequence[bytes] = entry[1] or ()
        seen = set[str]()
        for at in range(0, len(fields) - 1, 2):
            name, text = _text(fields[at]), _text(fields[at + 1])
            if name is None or text is None:
                wrong.append(f"{fields[at].decode(errors='replace')} is not UTF-8")
                name, text = fields[at].decode(errors="replace"), fields[at + 1].decode(errors="replace")
            if name in seen:
                wrong.append(f"{name} is there twice")
            elif name in NUMBERS and (number := _number(text)) is not None:
                row[name] = number
            elif name in TEXTS:
                row[name] = text
            elif name == SLUG and text == self._slug:
                pass  # the last part of the queue's name once more
            else:
                if name in NUMBERS:
                    wrong.append(f"{name} is not a number")
                if name not in dict(rest):
                    rest.append((name, text))
            seen.add(name)
        wrong += [f"{name} is missing" for name in NEEDED if name not in seen]
        at = EntryId.parse(entry[0])
        row |= self._constants | {"_id": str(at), "_ts": micros(at.ms)}
        row["rest"] = rest or None
        row["bad"] = "; ".join(wrong) or None
        return row


def _field(fields: Sequence[bytes] | None, name: bytes) -> str | None:
    """The value of a field, for a filter; a name is the fourth where there is one."""
    fields = fields or ()
    at = 6 if name == b"n" else 0
    if len(fields) <= at or fields[at] != name:
        at = next((place for place in range(0, len(fields) - 1, 2) if fields[place] == name), -1)
    return None if at < 0 else fields[at + 1].decode(errors="replace")


def _moments(texts: Any, ids: list[bytes]) -> Any:
    """The time in each id. Milliseconds have thirteen digits from 2001 to 2286; others are read one by one."""
    dashes = pc.utf8_slice_codeunits(texts, 13, 14)
    if pc.all(pc.equal(dashes, "-")).as_py():
        ms = pc.utf8_slice_codeunits(texts, 0, 13).cast(pa.int64())
        return pc.multiply(ms, 1000).cast(MOMENT)
    return pa.array([micros(EntryId.parse(each).ms) for each in ids], pa.int64()).cast(MOMENT)


def micros(ms: int) -> int | None:
    """Milliseconds as a timestamp column takes them; None for a time beyond what it can hold."""
    return ms * 1000 if 0 <= ms <= _LAST_MS else None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii() and len(digits) <= 19):
        return None
    number = int(text)
    return number if -_MAX_INT - 1 <= number <= _MAX_INT else None
