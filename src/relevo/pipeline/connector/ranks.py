"""Where a stream is to be cut: Redis cannot tell the id at rank N, so we look, and never promise more rows than there are.

Two questions. *How far may a batch of N rows reach* must never be answered with more than N rows: ids are read in pages, and
where a stream is dense the greatest sequence number of each millisecond bounds how many entries it has (`ms-0` to `ms-41` are
at most 42), one small question instead of 42 entries. *Where are roughly equal parts* may be wrong: densities are sampled.
"""

from __future__ import annotations

from itertools import pairwise

from relevo.pipeline.connector.connection import Directory, Reply
from relevo.pipeline.connector.offsets import NOTHING, EntryId, last_of
from relevo.pipeline.connector.page import asked

_PAGE = 1000
_MARK_ROWS = 100  # a place to cut at
_PROBES = 500  # milliseconds asked about in one round trip
_DENSE = 8  # entries a millisecond from which asking by the millisecond is cheaper than reading ids
_SAMPLES = 64
_SAMPLE_ROWS = 50


class Walk:
    """A walk along one stream that counts, never too low, the entries it has passed."""

    def __init__(self, directory: Directory, key: bytes, start: EntryId, end: EntryId) -> None:
        self._directory = directory
        self._key = key
        self._end = end
        self.at = start
        self.rows = 0
        self.counted = True
        """Whether `rows` is exact so far."""
        self.marks: list[tuple[int, EntryId]] = []
        """Rows passed and the entry there, to end the batch or cut partitions at."""

    def go(self, rows: int) -> EntryId:
        """The entry as far as `rows` entries allow, at most the end; the start when there is none."""
        dense, start = False, self.at
        while self.rows < rows and self.at < self._end:
            dense = self._by_milliseconds(rows) if dense else self._by_page(rows)
        return self.marks[-1][1] if self.marks else start

    def _by_page(self, rows: int) -> bool:
        """Reads up to a page of ids; True when the stream is dense here."""
        count = min(_PAGE, rows - self.rows)
        page = asked(self._directory, self._key, "XRANGE", self._key, f"({self.at}", str(self._end), "COUNT", count)
        for first in range(0, page.rows, _MARK_ROWS):
            last = min(first + _MARK_ROWS, page.rows) - 1
            self._pass(last - first + 1, page.id(last))
        if page.rows < count:
            self.at = self._end
            return False
        return page.rows / (self.at.ms - page.oldest.ms + 1) >= _DENSE

    def _by_milliseconds(self, rows: int) -> bool:
        """Asks for the last entry of each of the next milliseconds; True when that went well and may go on."""
        first = self.at.ms
        window = range(first, min(first + _PROBES, self._end.ms + 1))
        replies = self._directory.ask_many(self._key, [("XREVRANGE", self._key, ms, ms, "COUNT", 1) for ms in window])
        passed, self.counted = self.rows, False
        for ms, reply in zip(window, replies, strict=True):
            here = self._bound(ms, reply)
            if self.rows + here > rows:
                return False  # too coarse for what is left: page by page
            if here:
                self._pass(here, min(EntryId.parse(reply[0][0]), self._end))
        self.at = max(self.at, min(last_of(window[-1]), self._end))
        return self.rows - passed >= len(window) * _DENSE / 4

    def _bound(self, ms: int, reply: Reply) -> int:
        """At most this many entries of a millisecond lie ahead."""
        if not reply:
            return 0
        last = EntryId.parse(reply[0][0]).seq
        if ms == self._end.ms:
            last = min(last, self._end.seq)
        return max(0, last - self.at.seq) if ms == self.at.ms else last + 1

    def _pass(self, rows: int, at: EntryId) -> None:
        self.rows += rows
        self.at = at
        self.marks.append((self.rows, at))


def even_cuts(marks: list[tuple[int, EntryId]], parts: int) -> tuple[EntryId, ...]:
    """Ids that cut what a walk has passed into `parts` of about equal size.

    >>> even_cuts([(10, EntryId(1)), (20, EntryId(2)), (30, EntryId(3)), (40, EntryId(4))], 2)
    (EntryId(ms=2, seq=0),)
    """
    if not marks:
        return ()
    total, cuts = marks[-1][0], list[EntryId]()
    for rows, at in marks[:-1]:
        if rows >= total * (len(cuts) + 1) / parts and len(cuts) < parts - 1:
            cuts.append(at)
    return tuple(cuts)


def sampled_cuts(directory: Directory, key: bytes, start: EntryId, end: EntryId, parts: int) -> tuple[EntryId, ...]:
    """Ids that cut `(start, end]` into about `parts` parts of about equal size, from the density at some places."""
    if parts < 2 or end.ms <= start.ms:
        return ()
    if start == NOTHING:
        oldest = directory.ask(key, "XRANGE", key, "-", "+", "COUNT", 1)
        if not oldest:
            return ()
        start = EntryId.parse(oldest[0][0]).before()
    step = max(1, (end.ms - start.ms) // _SAMPLES)
    places = range(start.ms, end.ms, step)
    pages = directory.ask_many(key, [("XRANGE", key, ms, str(end), "COUNT", _SAMPLE_ROWS) for ms in places])
    weights: list[float] = []
    for (here, there), page in zip(pairwise([*places, end.ms + 1]), pages, strict=True):
        ids = [EntryId.parse(entry[0]).ms for entry in page]
        if not ids or ids[0] >= there:
            weights.append(0.0)
        elif ids[-1] >= there:  # the page reaches beyond the place: it is counted
            weights.append(float(sum(ms < there for ms in ids)))
        else:
            weights.append(len(ids) / (ids[-1] - ids[0] + 1) * (there - here))
    return _entries(directory, key, start, end, _weighted(list(places), weights, step, parts))


def _entries(
    directory: Directory, key: bytes, start: EntryId, end: EntryId, cuts: tuple[EntryId, ...]
) -> tuple[EntryId, ...]:
    """The entries nearest before these places. Only an entry can be missed: a range that begins with one notices a trim."""
    found = directory.ask_many(key, [("XREVRANGE", key, str(cut), str(start), "COUNT", 1) for cut in cuts])
    near = {EntryId.parse(reply[0][0]) for reply in found if reply}
    return tuple(sorted(entry for entry in near if start < entry < end))


def _weighted(places: list[int], weights: list[float], step: int, parts: int) -> tuple[EntryId, ...]:
    total, passed, cuts = sum(weights), 0.0, list[EntryId]()
    for place, weight in zip(places, weights, strict=True):
        while len(cuts) < parts - 1 and weight and passed + weight >= total * (len(cuts) + 1) / parts:
            share = (total * (len(cuts) + 1) / parts - passed) / weight
            cut = last_of(place + int(share * step))
            cuts.append(cut)
        passed += weight
    return tuple(sorted(set(cuts)))
