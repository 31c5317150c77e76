"""Partitions: ranges of ids, each task reading one large or many small. Where they are cut, and which share a task, stands in
the end offset, so they never differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from relevo.pipeline.connector.offsets import NOTHING, EntryId, Offset, last_of


@dataclass(frozen=True)
class IdRange:
    """The entries of one stream after `start`, up to and with `end`."""

    stream: str
    start: EntryId
    end: EntryId
    first: EntryId | None = None
    """An entry at or next to `start`, known to have been there when a start that is a mere place was planned."""

    @property
    def witness(self) -> EntryId | None:
        """An entry that must be there: when it is gone, so may be others that nobody has read."""
        if self.first is not None:
            return self.first
        return None if is_place(self.start) else self.start


def is_place(at: EntryId) -> bool:
    """Whether this is a mere place between entries: the beginning, or the end of a millisecond."""
    return at in (NOTHING, last_of(at.ms))


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
        at, witness = first, end.witnesses.get(stream)
        for cut in (*cuts, last):
            yield IdRange(stream, at, cut, witness)
            at, witness = cut, None


def tasks(parts: Iterable[IdRange], plan: Offset) -> Iterator[tuple[IdRange, ...]]:
    """What each task reads: a part of a large stream, or small streams as many as `plan` lets share a task.

    >>> a, b, c = ("{chasqui:%s}:events" % name for name in "abc")
    >>> plan = Offset({a: EntryId(9), b: EntryId(9), c: EntryId(9)}, rows={a: 3, b: 4, c: 5}, task_rows=8)
    >>> [[part.stream[9:10] for part in task] for task in tasks(ranges(Offset({}), plan), plan)]
    [['a', 'b'], ['c']]
    """
    waiting: list[IdRange] = []
    held = 0
    for part in parts:
        rows = plan.rows.get(part.stream)
        if rows is None or part.stream in plan.cuts or rows > plan.task_rows:
            yield (part,)
            continue
        if held + rows > plan.task_rows:
            yield tuple(waiting)
            waiting, held = [], 0
        waiting.append(part)
        held += rows
    if waiting:
        yield tuple(waiting)
