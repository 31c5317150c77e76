"""Which days of a month a cron expression means: `*`, lists, `L`, `15W`, `FRIL`, `MON#2`, and how the two fields join.

A month is an int with bit d set when day d matches, so that joining is `|` and `&` and the next day is a shift.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

_MONDAY_TO_FRIDAY = range(1, 6)  # Sunday is 0 in cron


@dataclass(frozen=True, slots=True)
class DaysOfMonth:
    """The day-of-month field; `anything` when it is `*` or `?` and so says nothing."""

    anything: bool = True
    days: frozenset[int] = frozenset()
    last: bool = False
    nearest_weekday_to: frozenset[int] = frozenset()

    def mask(self, first: int, length: int) -> int:
        mask = sum(1 << day for day in self.days if day <= length)
        if self.last:
            mask |= 1 << length
        for day in self.nearest_weekday_to:
            if day <= length:
                mask |= 1 << _nearest_weekday(day, first, length)
        return mask


@dataclass(frozen=True, slots=True)
class DaysOfWeek:
    """The day-of-week field, Sunday is 0; `and_` when it began with `+`: the day of the month must match as well."""

    anything: bool = True
    days: frozenset[int] = frozenset()
    nth: frozenset[tuple[int, int]] = frozenset()
    last: frozenset[int] = frozenset()
    and_: bool = False

    def mask(self, first: int, length: int) -> int:
        mask = 0
        for weekday in self.days:
            for day in range(_first(weekday, first), length + 1, 7):
                mask |= 1 << day
        for weekday, n in self.nth:
            day = _first(weekday, first) + 7 * (n - 1)
            if day <= length:
                mask |= 1 << day
        for weekday in self.last:
            mask |= 1 << range(_first(weekday, first), length + 1, 7)[-1]
        return mask


@dataclass(frozen=True)
class DayRule:
    """Both day fields together: when both say something, either is enough, unless the second begins with `+`.

    >>> thirteenth_or_friday = DayRule(DaysOfMonth(False, frozenset({13})), DaysOfWeek(False, frozenset({5})))
    >>> [day for day in range(32) if thirteenth_or_friday.month(2027, 3) >> day & 1]
    [5, 12, 13, 19, 26]
    """

    of_month: DaysOfMonth
    of_week: DaysOfWeek
    # A month is known by its first weekday and its length: 28 kinds, each worked out once.
    _kinds: dict[int, int] = field(default_factory=dict[int, int], compare=False, repr=False)

    def month(self, year: int, month: int) -> int:
        """The matching days of a month: bit d is day d."""
        start = date(year, month, 1).toordinal()
        length = (date(year, month + 1, 1) if month < 12 else date(year + 1, 1, 1)).toordinal() - start
        kind = start % 7 * 32 + length  # ordinal 1 was a Monday, so `% 7` counts from Sunday = 0
        mask = self._kinds.get(kind)
        if mask is None:
            mask = self._kinds[kind] = self._mask(start % 7, length)
        return mask

    def _mask(self, first: int, length: int) -> int:
        if self.of_month.anything and self.of_week.anything:
            return (1 << length + 1) - 2
        if self.of_week.anything:
            return self.of_month.mask(first, length)
        if self.of_month.anything:
            return self.of_week.mask(first, length)
        of_month, of_week = self.of_month.mask(first, length), self.of_week.mask(first, length)
        return of_month & of_week if self.of_week.and_ else of_month | of_week


def _first(weekday: int, first: int) -> int:
    """The first day of the month that is this weekday, when the month begins with weekday `first`."""
    return (weekday - first) % 7 + 1


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """`15W`: that day, or the nearest Monday to Friday to it within the same month."""
    weekday = (first + day - 1) % 7
    if weekday in _MONDAY_TO_FRIDAY:
        return day
    if weekday == 6:
        return day - 1 if day > 1 else 3
    return day + 1 if day < length else length - 2
