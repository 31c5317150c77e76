"""When a cron expression fires: the next instant after a given one, in the expression's own time zone.

Instants are whole seconds, so a schedule never carries the milliseconds at which it was made. Clocks that are moved
follow two rules, by what kind of job it is (see `CronFields.fixed`):

- a job for certain times of day (`30 2 * * *`) fires once for each: in a spring gap at the gap's end, in an autumn
  overlap at the first pass;
- a job for so often an hour (`0 * * * *`, `*/15 2 * * *`, `30 1-4 * * *`) follows the clock as it runs: what a gap
  leaves out is left out, and an overlap is passed twice, so that no hour of real time is without its fires.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta

from relevo.engine.schedules.cron_fields import LAST_YEAR, parse_cron
from relevo.engine.schedules.zones import Zone, seconds_of
from relevo.errors import BadCron

_SECOND = timedelta(seconds=1)
# Room on both sides: no zone is a day off, so a wall of these instants is still a date.
_FIRST_INSTANT = seconds_of(datetime(1, 1, 3))  # noqa: DTZ001 - a wall has no zone
_LAST_INSTANT = seconds_of(datetime(LAST_YEAR, 12, 31))  # noqa: DTZ001


class Cron:
    """A cron expression in a time zone.

    >>> cron = Cron("0 9 * * MON-FRI", "Europe/Madrid")
    >>> cron.next_after(1_774_569_600_000)  # Friday 2026-03-27 at 00:00 UTC; the next fire is 09:00 in Madrid
    1774598400000
    >>> Cron("0 0 0 1 1 * 2030").next_after(1_900_000_000_000) is None
    True
    """

    __slots__ = ("_days", "_fixed", "_hours", "_minutes", "_months", "_seconds", "_years", "_zone", "expression", "tz")

    def __init__(self, expression: str, tz: str | None = None) -> None:
        fields = parse_cron(expression)
        self.expression: str = expression
        self.tz: str | None = tz
        self._zone = Zone(tz)
        self._fixed = fields.fixed
        self._seconds = _following(fields.seconds, 60)
        self._minutes = _following(fields.minutes, 60)
        self._hours = _following(fields.hours, 24)
        self._months = fields.months
        self._years = fields.years
        self._days = fields.days
        if not self._ever_fires():
            remedy = "Write a day that its months have (L is the last one), and a year that has it."
            raise BadCron(expression=expression, reason="no date is ever matched", remedy=remedy)

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, {self.tz!r})"

    def next_after(self, ms: int) -> int | None:
        """The first fire later than `ms` (milliseconds since 1970), in milliseconds; None when there is none left."""
        second = max(ms // 1000, _FIRST_INSTANT)
        if second > _LAST_INSTANT:
            return None
        if self._zone.offset is not None:
            wall = self._next_wall(self._zone.wall(second))
            return None if wall is None else self._zone.read(wall).early * 1000
        instant = self._next_fixed(second) if self._fixed else self._next_running(second)
        return None if instant is None else instant * 1000

    def _next_fixed(self, second: int) -> int | None:
        wall = self._next_wall(self._zone.wall(second))
        while wall is not None:
            reading = self._zone.read(wall)
            if reading.early > reading.late:  # in a gap: the first moment after it
                return self._zone.change(reading)
            if reading.early > second:
                return reading.early
            # The second pass of an overlap: what it shows has fired. Go on where the overlap ends.
            change = self._zone.change(reading)
            wall = self._next_wall(wall + (change - reading.early - 1) * _SECOND)
        return None

    def _next_running(self, second: int) -> int | None:
        here = self._zone.wall(second)
        wall = self._next_wall(here)
        reading = self._zone.read(here)
        if reading.early == second < reading.late:  # the first pass of an overlap: the clock will show `here` again
            change = self._zone.change(reading)
            if wall is not None and wall < here + (change - second) * _SECOND:
                return self._zone.read(wall).early
            second = change - 1
            wall = self._next_wall(self._zone.wall(change) - _SECOND)
        while wall is not None:
            reading = self._zone.read(wall)
            if reading.early > reading.late:  # in a gap: go on where it ends
                wall = self._next_wall(self._zone.wall(self._zone.change(reading)) - _SECOND)
            elif reading.early > second:
                return reading.early
            else:
                return reading.late
        return None

    def _next_wall(self, wall: datetime) -> datetime | None:
        """The first wall after `wall` that matches, whatever the zone's clocks do there."""
        year, month, day = wall.year, wall.month, wall.day
        time = None
        if month in self._months and self._has_year(year) and self._days.month(year, month) >> day & 1:
            time = self._next_time(wall.hour, wall.minute, wall.second)
        if time is not None:
            return datetime(year, month, day, *time)  # noqa: DTZ001
        date = self._next_date(year, month, day)
        if date is None:
            return None
        return datetime(*date, self._hours[0], self._minutes[0], self._seconds[0])  # noqa: DTZ001

    def _next_time(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        if self._hours[hour] == hour:
            if self._minutes[minute] == minute and (later := self._seconds[second + 1]) >= 0:
                return hour, minute, later
            if (later := self._minutes[minute + 1]) >= 0:
                return hour, later, self._seconds[0]
        if (later := self._hours[hour + 1]) >= 0:
            return later, self._minutes[0], self._seconds[0]
        return None

    def _next_date(self, year: int, month: int, day: int) -> tuple[int, int, int] | None:
        """The first matching date after the given one."""
        while True:
            if not self._has_year(year) or month > self._months[-1]:
                year, month, day = year + 1, 1, 0
                if self._years is not None:
                    at = bisect_left(self._years, year)
                    if at == len(self._years):
                        return None
                    year = self._years[at]
            if year > LAST_YEAR:
                return None
            next_month = self._months[bisect_left(self._months, month)]
            if next_month > month:
                month, day = next_month, 0
            later = self._days.month(year, month) >> day + 1
            if later:
                return year, month, day + (later & -later).bit_length()
            month, day = month + 1, 0

    def _has_year(self, year: int) -> bool:
        if self._years is None:
            return True
        at = bisect_left(self._years, year)
        return at < len(self._years) and self._years[at] == year

    def _ever_fires(self) -> bool:
        # The calendar repeats after 400 years, so a date that is not in these is in none.
        years = range(2000, 2400) if self._years is None else self._years
        return any(self._days.month(year, month) for year in years for month in self._months)


def _following(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """For each number up to `size`: the smallest value from there on, or -1.

    >>> _following((1, 3), 4)
    (1, 1, 3, 3, -1)
    """
    table: list[int] = []
    for number in range(size + 1):
        at = bisect_left(values, number)
        table.append(values[at] if at < len(values) else -1)
    return tuple(table)
