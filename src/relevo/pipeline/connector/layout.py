# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false
# pyarrow comes without types.
"""Where each text of an answer to XRANGE lies, found for all entries at once and without an object for any of them.

An answer is lines: `*2`, `$15`, the id, `*10`, and then `$1`, `e`, `$6`, `active`, ... The lines are cut at every line end,
and entries begin at lines that read `*2`: a guess, for a text may hold a line end or read `*2` itself. So all is checked:
each text is as long as the line before it says, each entry has as many texts as it says, and there are as many entries as
the answer says. What passes can only be read in this one way. What does not is left to hiredis, which reads everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_LF, _CR, _STAR, _DOLLAR, _ZERO, _TWO = b"\n\r*$02"
_WIDEST = 7  # digits of the length of a text: the answers are far shorter than what more could say
_LINES_AROUND = 4  # of an entry: `*2`, the id's length, the id, the number of texts


class Layout:
    """The texts of a page: an id for each entry, then a name and a value for each of its fields."""

    def __init__(self, data: Bytes, starts: Places, ends: Places, fields: Places) -> None:
        self.data = data
        self.rows = len(fields)
        self._starts = starts
        self._ends = ends
        first = np.zeros(self.rows, np.int64)
        np.cumsum(fields[:-1] * 2 + 1, out=first[1:])
        self.ids = first
        """Which texts are ids."""
        others = np.ones(len(starts), bool)
        others[first] = False
        rest = np.flatnonzero(others)
        self.names, self.values = rest[0::2], rest[1::2]
        self.row_of = np.repeat(np.arange(self.rows), fields)
        """The row that each name and value is of."""
        self._texts: Any = None

    def text(self, at: int) -> bytes:
        return self.data[self._starts[at] : self._ends[at]].tobytes()

    def starts(self, texts: Places) -> Places:
        return self._starts[texts]

    def sizes(self, texts: Places) -> Places:
        return self._ends[texts] - self._starts[texts]

    def binary(self, texts: Places, missing: npt.NDArray[np.bool_] | None = None) -> Any:
        """These texts as an Arrow array of bytes, null where they are missing."""
        if self._texts is None:
            # A text and what lies between it and the next are both items: so one array of bounds names them all in place.
            bounds = np.empty(2 * len(self._starts), np.int32)
            bounds[0::2], bounds[1::2] = self._starts, self._ends
            buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
            self._texts = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
        return self._texts.take(pa.array(texts * 2, mask=missing))

    def numbers(self, texts: Places) -> Places | None:
        """These texts as numbers, when they are digits and all of one width; None otherwise."""
        sizes = self.sizes(texts)
        width = int(sizes[0])
        if not 0 < width <= 18 or (sizes != width).any():
            return None
        return self.fixed(texts, width)

    def fixed(self, texts: Places, width: int) -> Places | None:
        """The first `width` bytes of each text as a number; None unless all are digits."""
        starts = self._starts[texts]
        if int(starts[-1]) + width > len(self.data):
            return None
        total = np.zeros(len(texts), np.int64)
        for place in range(width):
            digits = self.data[starts + place] - np.uint8(_ZERO)
            if digits.max() > 9:
                return None
            total = total * 10 + digits
        return total


def laid_out(data: Bytes) -> Layout | None:
    """The layout of an answer that holds at least one entry; None when it cannot be read this way."""
    if len(data) < _LINES_AROUND or data[0] != _STAR:
        return None
    ends = np.flatnonzero(data == _LF) - 1
    ends = ends[data[ends] == _CR]
    if not len(ends) or ends[-1] != len(data) - 2:
        return None
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 2
    heads = np.flatnonzero((data[starts] == _STAR) & (ends - starts == 2))
    heads = heads[(data[starts[heads] + 1] == _TWO) & (heads > 0)]
    promised = _counted(data, starts[:1] + 1, ends[:1])
    if promised is None or promised[0] != len(heads) or not len(heads) or heads[0] != 1:
        return None
    lines = np.diff(heads, append=len(ends)) - _LINES_AROUND
    if lines.min() < 4 or (lines % 4).any():
        return None
    fields = lines // 4
    told = heads + 3
    counts = _counted(data, starts[told] + 1, ends[told])
    if counts is None or (counts != fields * 2).any() or (data[starts[told]] != _STAR).any():
        return None
    texts = np.ones(len(ends), bool)
    texts[0] = False
    texts[heads] = texts[told] = False
    starts, ends = starts[texts], ends[texts]
    sizes = _counted(data, starts[0::2] + 1, ends[0::2])
    if sizes is None or (data[starts[0::2]] != _DOLLAR).any():
        return None
    starts, ends = starts[1::2], ends[1::2]
    return None if (sizes != ends - starts).any() else Layout(data, starts, ends, fields)


def _counted(data: Bytes, starts: Places, ends: Places) -> Places | None:
    """The numbers between these places; None unless all are digits."""
    widths = ends - starts
    widest = int(widths.max())
    if widths.min() < 1 or widest > _WIDEST:
        return None
    digits = data[ends - 1] - np.uint8(_ZERO)
    if digits.max() > 9:
        return None
    total, unit = digits.astype(np.int64), 1
    for place in range(2, widest + 1):
        unit *= 10
        there = np.flatnonzero(widths >= place)
        digits = data[ends[there] - place] - np.uint8(_ZERO)
        if digits.max() > 9:
            return None
        total[there] += digits.astype(np.int64) * unit
    return total
