"""How far a stream has been read: entry ids compared as numbers, and the offset of many streams as Spark keeps it.

Spark writes offsets as JSON into the query's checkpoint before it reads a micro-batch, and plans the batch from them again
after a crash. So the end of a batch also holds where it is cut into partitions: planned anew it gives the same rows in the
same partitions, which is what makes the sink's numbered writes safe. What else the plan knew stands there too: which entries
were there to begin with, so that a task notices when they are gone, and how many rows each stream has, so that small ones
share a task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from relevo.errors import BadArgument

# No stream is called so: every key of a queue begins with its tag.
CUTS, WITNESSES, ROWS, ADDED, GUESSED = "cuts", "witnesses", "rows", "added", "guessed"
SOURCE, TASK_ROWS = "source", "task_rows"
_MAX_SEQ = (1 << 64) - 1


class EntryId(NamedTuple):
    """A stream entry's id, `ms-seq`.

    >>> EntryId.parse("1700000000000-10") > EntryId.parse("1700000000000-9")
    True
    >>> str(EntryId(5, 0).before())
    '4-18446744073709551615'
    """

    ms: int
    seq: int = 0

    @staticmethod
    def parse(text: str | bytes) -> EntryId:
        shown = text.decode(errors="replace") if isinstance(text, bytes) else text
        ms, dash, seq = shown.partition("-")
        if not _is_number(ms) or (dash and not _is_number(seq)):
            raise BadArgument(
                argument="offset",
                value=shown,
                reason="not an entry id",
                remedy="Write ms-seq, such as 1700000000000-0.",
            )
        return EntryId(int(ms), int(seq or 0))

    def before(self) -> EntryId:
        """The greatest id below this one."""
        if self.seq:
            return EntryId(self.ms, self.seq - 1)
        return EntryId(self.ms - 1, _MAX_SEQ) if self.ms else NOTHING

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"


NOTHING = EntryId(0, 0)
"""Before every entry: Redis gives no entry this id."""


def last_of(ms: int) -> EntryId:
    """The greatest id that a millisecond can have; nothing at all for times before 1970."""
    return EntryId(ms, _MAX_SEQ) if ms >= 0 else NOTHING


@dataclass(frozen=True)
class Offset:
    """The last entry read of each stream, and for the end of a batch the ids at which it is cut.

    >>> offset = Offset({"{chasqui:a}:events": EntryId(7, 1)})
    >>> Offset.parse(offset.json()) == offset
    True
    >>> offset.json()
    {'{chasqui:a}:events': '7-1'}
    """

    ids: Mapping[str, EntryId]
    cuts: Mapping[str, tuple[EntryId, ...]] = field(default_factory=dict[str, tuple[EntryId, ...]])
    source: str = ""
    """The name of the server these streams are of; empty in the checkpoints of earlier versions."""
    witnesses: Mapping[str, EntryId] = field(default_factory=dict[str, EntryId])
    """Entries that were there when a batch was planned whose start is a mere place: when one is gone, so are others."""
    rows: Mapping[str, int] = field(default_factory=dict[str, int])
    """About how many rows the batch has of each stream."""
    added: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many entries each stream had ever been given at its place here, as far as the server counts them."""
    guessed: frozenset[str] = frozenset()
    """Streams whose `added` may be too high: entries of a millisecond were counted by their numbers."""
    task_rows: int = 0
    """Up to how many rows of small streams share a task; 0 for a task for each."""

    def of(self, stream: str) -> EntryId:
        return self.ids.get(stream, NOTHING)

    def json(self) -> dict[str, Any]:
        """As Spark keeps it: a dict of texts."""
        plain: dict[str, Any] = {stream: str(self.ids[stream]) for stream in sorted(self.ids)}
        if self.cuts:
            plain[CUTS] = {stream: " ".join(map(str, self.cuts[stream])) for stream in sorted(self.cuts)}
        if self.witnesses:
            plain[WITNESSES] = {stream: str(self.witnesses[stream]) for stream in sorted(self.witnesses)}
        if self.rows:
            plain[ROWS] = {stream: self.rows[stream] for stream in sorted(self.rows)}
        if self.added:
            plain[ADDED] = {stream: self.added[stream] for stream in sorted(self.added)}
        if self.guessed:
            plain[GUESSED] = dict.fromkeys(sorted(self.guessed), 1)
        if self.source:
            plain[SOURCE] = self.source
        if self.task_rows:
            plain[TASK_ROWS] = self.task_rows
        return plain

    @staticmethod
    def parse(plain: object) -> Offset:
        """From Spark's dict, or from what a user wrote as JSON."""
        if isinstance(plain, str):
            try:
                plain = cast("object", json.loads(plain))
            except ValueError as error:
                raise _unreadable(plain, str(error)) from error
        if not isinstance(plain, dict):
            raise _unreadable(plain, "not a JSON object")
        given = dict(cast("dict[str, Any]", plain))
        parts = {name: given.pop(name, {}) for name in (CUTS, WITNESSES, ROWS, ADDED, GUESSED)}
        source, task_rows = given.pop(SOURCE, ""), given.pop(TASK_ROWS, 0)
        if not all(isinstance(part, dict) for part in parts.values()):
            raise _unreadable(given, "its parts must be objects")
        if not all(isinstance(each, str) for each in (source, *given.values())):
            raise _unreadable(given, "ids must be texts")
        return Offset(
            {stream: EntryId.parse(text) for stream, text in given.items()},
            {stream: tuple(map(EntryId.parse, str(text).split())) for stream, text in parts[CUTS].items()},
            source=source,
            witnesses={stream: EntryId.parse(str(text)) for stream, text in parts[WITNESSES].items()},
            rows={stream: int(rows) for stream, rows in parts[ROWS].items()},
            added={stream: int(rows) for stream, rows in parts[ADDED].items()},
            guessed=frozenset(parts[GUESSED]),
            task_rows=int(task_rows),
        )


def _unreadable(value: object, reason: str) -> BadArgument:
    remedy = 'Write {"<queue>": "ms-seq"}, or earliest, latest, or a time such as 2026-11-01T00:00:00Z.'
    return BadArgument(argument="offset", value=value, reason=reason, remedy=remedy)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= 20
