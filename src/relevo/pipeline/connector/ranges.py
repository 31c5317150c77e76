"""Partitions: ranges of ids, each read by one task. Where they are cut stands in the end offset, so they never differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relevo.pipeline.connector.offsets import NOTHING, EntryId, Offset, last_of


@dataclass(frozen=True)
class IdRange:
    """The entries of one stream after `start`, up to and with `end`."""

    stream: str
    start: EntryId
    end: EntryId

    @property
    def witness(self) -> bool:
        """Whether `start` is an entry, and no mere place: when it is gone, so may be others that nobody has read."""
        return self.start not in (NOTHING, last_of(self.start.ms))


def ranges(start: Offset, end: Offset) -> Iterator[IdRange]:
    """The ranges between two offsets. Pure: the same offsets give the same ranges, also after a crash.

    >>> a = "{chasqui:a}:events"
    >>> for part in ranges(Offset({a: EntryId(1)}), Offset({a: EntryId(9)}, {a: (EntryId(5),)})):
    ...     print(part.start, part.end)
    1-0 5-0
    5-0 9-0
    """
    for stream in sorted(end.ids):
        first, last = start.of(stream), end.of(stream)
        if last <= first:
            continue
        cuts = [cut for cut in end.cuts.get(stream, ()) if first < cut < last]
        at = first
        for cut in (*cuts, last):
            yield IdRange(stream, at, cut)
            at = cut
