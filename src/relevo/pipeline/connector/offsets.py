"""How far a stream has been read: entry ids compared as numbers, and the offset of many streams as Spark keeps it.

Spark writes offsets as JSON into the query's checkpoint before it reads a micro-batch, and plans the batch from them again
after a crash. So the end of a batch also holds where it is cut into partitions: planned anew it gives the same rows in the
same partitions, which is what makes the sink's numbered writes safe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from relevo.errors import BadArgument

CUTS = "cuts"  # no stream is called so: every key of a queue begins with its tag
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

    def of(self, stream: str) -> EntryId:
        return self.ids.get(stream, NOTHING)

    def json(self) -> dict[str, Any]:
        """As Spark keeps it: a dict of texts."""
        plain: dict[str, Any] = {stream: str(self.ids[stream]) for stream in sorted(self.ids)}
        if self.cuts:
            plain[CUTS] = {stream: " ".join(map(str, self.cuts[stream])) for stream in sorted(self.cuts)}
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
        cuts: object = given.pop(CUTS, {})
        if not isinstance(cuts, dict) or not all(isinstance(each, str) for each in given.values()):
            raise _unreadable(given, "ids must be texts")
        return Offset(
            {stream: EntryId.parse(text) for stream, text in given.items()},
            {
                stream: tuple(EntryId.parse(each) for each in str(text).split())
                for stream, text in cast("dict[str, object]", cuts).items()
            },
        )


def _unreadable(value: object, reason: str) -> BadArgument:
    remedy = 'Write {"<queue>": "ms-seq"}, or earliest, latest, or a time such as 2026-11-01T00:00:00Z.'
    return BadArgument(argument="offset", value=value, reason=reason, remedy=remedy)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= 20
