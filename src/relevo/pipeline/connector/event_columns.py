# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow comes without types.
"""Events as Arrow straight from the bytes of a page: every column is gathered in one step, and no event is ever an object.

Only for pages whose every event is as the wire writes it: no field twice, numbers of digits, texts in UTF-8. Any other page
is none of ours (None), and `event_rows` reads it event by event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relevo.pipeline.connector.layout import Layout, Places
from relevo.pipeline.connector.streams import queue_of
from relevo.pipeline.source_columns import EVENTS

TEXTS = ("e", "id", "n", "reason", "prev", "correlation_id", "seq")
NUMBERS = tuple(column.name for column in EVENTS if column.type == "bigint")
KNOWN = frozenset((*TEXTS, *NUMBERS))
NEEDED = ("e", "id", "ts")
MOMENT = pa.timestamp("us", tz="UTC")
SLUG = "queue"
"""The field in which a work queue's event repeats the last part of the queue's name: it tells nothing new."""

_NAMES = tuple(sorted((*KNOWN, SLUG)))
_LONGEST = max(map(len, _NAMES))
_ALIKE = np.full((_LONGEST + 2) * 256, -1, np.int8)
"""Which known name has this length and first letter: no two have both. The last row is for whatever is longer."""
for _place, _name in enumerate(_NAMES):
    assert _ALIKE[len(_name) * 256 + ord(_name[0])] < 0
    _ALIKE[len(_name) * 256 + ord(_name[0])] = _place
_ID_DIGITS = 13  # of the milliseconds in an id, from 2001 to 2286


def slug_of(queue: str) -> str:
    """What a work queue is called in its scope.

    >>> slug_of("work.acme.billing.invoices")
    'invoices'
    """
    return queue.rpartition(".")[2]


class EventColumns:
    """Makes record batches of the pages of one stream; only the columns of `schema` are made."""

    def __init__(self, stream: str, schema: Any, source: str = "") -> None:
        self._schema = schema
        queue = queue_of(stream)
        self._slug = slug_of(queue).encode()
        self._constants = {"_stream": stream, "queue": queue, "source": source}
        self._kept: dict[str, Any] = {}
        """Columns that are the same in every row: made once, and handed out in slices."""

    def batch(self, layout: Layout, skipped: int) -> Any | None:
        """One record batch of all rows after the first `skipped`; None when one of the rows is not as it should be."""
        found = _places(layout, self._is_slug)
        if found is None:
            return None
        places, others = found
        try:
            columns = [self._column(name, layout, places, others, skipped) for name in self._schema.names]
        except pa.ArrowInvalid:  # text that is not UTF-8, a number too large
            return None
        if any(column is None for column in columns):
            return None
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, layout: Layout, places: dict[str, Places], others: Places, skipped: int) -> Any | None:
        if name == "_id":
            return layout.binary(layout.ids[skipped:]).cast(pa.string())
        if name == "_ts":
            return _moments(layout, layout.ids[skipped:])
        if name == "rest" and len(others):
            return self._rest(layout, others, skipped)
        if name not in places:
            return self._constant(name, layout.rows - skipped)
        texts = places[name][skipped:]
        missing = texts < 0
        if not missing.any():
            missing = None
            if name in NUMBERS and (numbers := layout.numbers(texts)) is not None:
                return pa.array(numbers)
        values = layout.binary(texts, missing).cast(pa.string())
        if name in TEXTS:
            return values
        return values.cast(pa.int64()) if pc.all(pc.ascii_is_decimal(values)).as_py() is not False else None

    def _rest(self, layout: Layout, others: Places, skipped: int) -> Any:
        """The fields that are no columns, as a map in each row that has any."""
        others = others[layout.row_of[others] >= skipped]
        counts = np.bincount(layout.row_of[others] - skipped, minlength=layout.rows - skipped)
        bounds = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=bounds[1:])
        keys = layout.binary(layout.names[others]).cast(pa.string())
        values = layout.binary(layout.values[others]).cast(pa.string())
        kind = self._schema.field("rest").type
        return pa.MapArray.from_arrays(pa.array(bounds), keys, values, kind, mask=pa.array(counts == 0))

    def _is_slug(self, layout: Layout, fields: Places) -> Any:
        """Which of these fields repeat the last part of the queue's name."""
        texts = layout.values[fields]
        same = layout.sizes(texts) == len(self._slug)
        same[same] = _spell(layout, layout.starts(texts[same]), self._slug)
        return same

    def _constant(self, name: str, count: int) -> Any:
        kept = self._kept.get(name)
        if kept is None or len(kept) < count:
            kind = self._schema.field(name).type
            value = self._constants.get(name)
            kept = pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
            self._kept[name] = kept
        return kept.slice(0, count)


class MixedColumns(EventColumns):
    """As `EventColumns`, for a page that several small streams were joined to: so many rows of each, one after the other."""

    def __init__(self, streams: Sequence[str], rows: Sequence[int], schema: Any, source: str) -> None:
        super().__init__("", schema, source)
        self._stream_of = np.repeat(np.arange(len(streams)), rows)
        self._queues = [queue_of(stream) for stream in streams]
        self._streams = streams

    def _is_slug(self, layout: Layout, fields: Places) -> Any:
        slugs = pa.array([slug_of(queue).encode() for queue in self._queues], pa.binary())
        expected = slugs.take(pa.array(self._stream_of[layout.row_of[fields]]))
        return pc.equal(layout.binary(layout.values[fields]), expected).to_numpy(zero_copy_only=False)

    def _constant(self, name: str, count: int) -> Any:
        texts = {"_stream": self._streams, "queue": self._queues}.get(name)
        if texts is None:
            return super()._constant(name, count)
        return pa.array(texts, pa.string()).take(pa.array(self._stream_of[len(self._stream_of) - count :]))


def _places(layout: Layout, is_slug: Callable[[Layout, Places], Any]) -> tuple[dict[str, Places], Places] | None:
    """For each known field that occurs, which text is its value in each row (-1 for none); and which fields are not known.
    None when a row lacks a field that it needs, or has one twice."""
    starts, sizes = layout.starts(layout.names), layout.sizes(layout.names)
    if sizes.min() < 1:
        return None
    which = _ALIKE[np.minimum(sizes, _LONGEST + 1) * 256 + layout.data[starts]]
    found: dict[str, Places] = {}
    for place in np.flatnonzero(np.bincount(which + 1, minlength=len(_NAMES) + 1)[1:]):
        name = _NAMES[place]
        here = np.flatnonzero(which == place)
        same = _spell(layout, starts[here], name.encode())
        if not same.all():
            which[here[~same]] = -1
            here = here[same]
        rows = layout.row_of[here]
        if (rows[1:] == rows[:-1]).any():
            return None
        if name == SLUG:
            which[here[~is_slug(layout, here)]] = -1
        if name == SLUG or not len(rows):
            continue
        if len(rows) == layout.rows:
            found[name] = layout.values[here]
            continue
        if name in NEEDED:
            return None
        found[name] = np.full(layout.rows, -1)
        found[name][rows] = layout.values[here]
    others = np.flatnonzero(which < 0)
    if not all(name in found for name in NEEDED) or _twice(layout, others):
        return None
    return found, others


def _spell(layout: Layout, starts: Places, text: bytes) -> Any:
    """Which of these places have this text."""
    same = np.ones(len(starts), bool)
    for at, letter in enumerate(text):
        same &= layout.data[starts + at] == letter
    return same


def _twice(layout: Layout, others: Places) -> bool:
    """Whether a row has one of these fields twice."""
    rows = layout.row_of[others]
    if not (rows[1:] == rows[:-1]).any():
        return False
    names = layout.binary(layout.names[others]).dictionary_encode()
    places = rows * len(names.dictionary) + names.indices.to_numpy()
    return len(np.unique(places)) < len(places)


def _moments(layout: Layout, ids: Places) -> Any | None:
    """The time in each id; None when one has not thirteen digits before its dash."""
    after = layout.starts(ids) + _ID_DIGITS
    if layout.sizes(ids).min() <= _ID_DIGITS or (layout.data[after] != ord("-")).any():
        return None
    ms = layout.fixed(ids, _ID_DIGITS)
    return None if ms is None else pa.array(ms * 1000).cast(MOMENT)
