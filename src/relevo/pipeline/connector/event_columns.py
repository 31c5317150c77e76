# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow comes without types.
"""Events as Arrow straight from the bytes of a page: every column is gathered in one step, and no event is ever an object.

Only for pages whose every event is as the wire writes it: known fields, none twice, numbers of digits, texts in UTF-8. Any
other page is none of ours (None), and `event_rows` reads it event by event.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relevo.pipeline.connector.columns import EVENTS
from relevo.pipeline.connector.layout import Layout, Places
from relevo.pipeline.connector.streams import queue_of

TEXTS = ("e", "id", "n", "reason", "prev")
NUMBERS = tuple(column.name for column in EVENTS if column.type == "bigint")
KNOWN = frozenset((*TEXTS, *NUMBERS))
NEEDED = ("e", "id", "ts")
MOMENT = pa.timestamp("us", tz="UTC")

_LONGEST = max(map(len, KNOWN))
_ALIKE = np.full((_LONGEST + 1) * 256, -1, np.int8)
"""Which known name has this length and first letter: no two have both."""
_NAMES = tuple(sorted(KNOWN))
for _place, _name in enumerate(_NAMES):
    _ALIKE[len(_name) * 256 + ord(_name[0])] = _place
_ID_DIGITS = 13  # of the milliseconds in an id, from 2001 to 2286


class EventColumns:
    """Makes record batches of the pages of one stream; only the columns of `schema` are made."""

    def __init__(self, stream: str, schema: Any) -> None:
        self._schema = schema
        self._constants = {"_stream": stream, "queue": queue_of(stream)}
        self._kept: dict[str, Any] = {}
        """Columns that are the same in every row: made once, and handed out in slices."""

    def batch(self, layout: Layout, skipped: int) -> Any | None:
        """One record batch of all rows after the first `skipped`; None when one of the rows is not as it should be."""
        places = _places(layout)
        if places is None:
            return None
        try:
            columns = [self._column(name, layout, places, skipped) for name in self._schema.names]
        except pa.ArrowInvalid:  # text that is not UTF-8, a number too large
            return None
        if any(column is None for column in columns):
            return None
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, layout: Layout, places: dict[str, Places], skipped: int) -> Any | None:
        if name == "_id":
            return layout.binary(layout.ids[skipped:]).cast(pa.string())
        if name == "_ts":
            return _moments(layout, layout.ids[skipped:])
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

    def _constant(self, name: str, count: int) -> Any:
        kept = self._kept.get(name)
        if kept is None or len(kept) < count:
            kind = self._schema.field(name).type
            value = self._constants.get(name)
            kept = pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
            self._kept[name] = kept
        return kept.slice(0, count)


def _places(layout: Layout) -> dict[str, Places] | None:
    """For each field that occurs, which text is its value in each row (-1 for none); None when a field is not known."""
    starts, sizes = layout.starts(layout.names), layout.sizes(layout.names)
    if sizes.max() > _LONGEST or sizes.min() < 1:
        return None
    which = _ALIKE[sizes * 256 + layout.data[starts]]
    if which.min() < 0:
        return None
    found: dict[str, Places] = {}
    for place in np.flatnonzero(np.bincount(which, minlength=len(_NAMES))):
        name = _NAMES[place]
        here = np.flatnonzero(which == place)
        begins = starts[here]
        if any((layout.data[begins + at] != ord(letter)).any() for at, letter in enumerate(name)):
            return None
        rows = layout.row_of[here]
        if len(rows) == layout.rows and (rows[1:] > rows[:-1]).all():
            found[name] = layout.values[here]
            continue
        if name in NEEDED or (rows[1:] == rows[:-1]).any():
            return None
        found[name] = np.full(layout.rows, -1)
        found[name][rows] = layout.values[here]
    return found if all(name in found for name in NEEDED) else None


def _moments(layout: Layout, ids: Places) -> Any | None:
    """The time in each id; None when one has not thirteen digits before its dash."""
    after = layout.starts(ids) + _ID_DIGITS
    if layout.sizes(ids).min() <= _ID_DIGITS or (layout.data[after] != ord("-")).any():
        return None
    ms = layout.fixed(ids, _ID_DIGITS)
    return None if ms is None else pa.array(ms * 1000).cast(MOMENT)
