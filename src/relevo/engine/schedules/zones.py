"""Time zones of schedules: UTC, fixed offsets and IANA names, and what their clocks do when they are moved.

Everything here counts whole seconds: instants since 1970 in UTC, walls as naive datetimes (what a clock on the wall of
that zone shows). A wall stands for no instant in a spring gap and for two in an autumn overlap.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from relevo.errors import UnknownZone

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall has no zone
_SECOND = timedelta(seconds=1)
_NONE = timedelta(0)
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)|([+-])(\d\d)(\d\d)", re.ASCII)
# Names that zoneinfo can open and that mean something else on the next machine, or count leap seconds.
_NOT_PORTABLE = ("posix/", "right/", "posixrules", "localtime", "Factory")


class Reading(NamedTuple):
    """The instants of one wall: `early` < `late` in an overlap, `early` > `late` in a gap, else the same."""

    early: int
    late: int


class Zone:
    """A zone by the name a schedule gives it.

    >>> Zone("+05:30").wall(0)
    datetime.datetime(1970, 1, 1, 5, 30)
    >>> Zone("Z").offset, Zone("America/New_York").offset
    (0, None)
    """

    __slots__ = ("_zone", "name", "offset")

    def __init__(self, name: str | None) -> None:
        self.name: str | None = name
        self.offset: int | None = _fixed_offset(name)
        """Seconds east of UTC when the zone never changes its clocks, else None."""
        self._zone: tzinfo = UTC if self.offset is not None else _named(name or "")

    def wall(self, instant: int) -> datetime:
        if self.offset is not None:
            return EPOCH + timedelta(seconds=instant + self.offset)
        return datetime.fromtimestamp(instant, self._zone).replace(tzinfo=None, fold=0)

    def read(self, wall: datetime) -> Reading:
        """Both readings of a wall, before and after a change of clocks; mostly there is none and they are the same."""
        seconds = seconds_of(wall)
        if self.offset is not None:
            return Reading(seconds - self.offset, seconds - self.offset)
        return Reading(seconds - self._utcoffset(wall), seconds - self._utcoffset(wall.replace(fold=1)))

    def change(self, reading: Reading) -> int:
        """The instant at which the clocks change, for a reading that has two sides: it lies between them."""
        before, after = min(reading), max(reading)
        old = self.wall(before) - EPOCH - timedelta(seconds=before)
        while after - before > 1:
            middle = (before + after) // 2
            if self.wall(middle) - EPOCH - timedelta(seconds=middle) == old:
                before = middle
            else:
                after = middle
        return after

    def _utcoffset(self, wall: datetime) -> int:
        return (self._zone.utcoffset(wall.replace(tzinfo=self._zone)) or _NONE) // _SECOND


def seconds_of(wall: datetime) -> int:
    """A wall as the number of seconds it would be in UTC.

    >>> seconds_of(datetime(1970, 1, 2))
    86400
    """
    return (wall - EPOCH) // _SECOND


def _fixed_offset(name: str | None) -> int | None:
    text = (name or "").strip()
    if text.upper() in {"", "UTC", "Z"}:
        return 0
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    sign, hours, minutes = (part for part in match.groups() if part is not None)
    if int(hours) > 23 or int(minutes) > 59:
        raise UnknownZone(zone=name)
    return (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)


@lru_cache(maxsize=256)
def _named(name: str) -> tzinfo:
    text = name.strip()
    if text.startswith(_NOT_PORTABLE):
        raise UnknownZone(zone=name)
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:  # no such name, a name that leaves the folder, a folder
        raise UnknownZone(zone=name) from error
