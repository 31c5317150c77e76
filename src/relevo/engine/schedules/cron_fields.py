"""A cron expression as text, turned into the values it names. The dialect is ChasquiMQ's, as seen on 1.3.0.

Written by hand and not built on a library. Of those tried, cronsim knows neither `15W`, `?`, years nor nicknames, joins
`*/2 * MON` with "and", and gives DST rules to five fields only; croniter puts seconds last and writes `L5` for `5L`.
A layer that rewrote all that would be longer than this parser. Both are what the tests compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from relevo.engine.schedules.cron_days import DayRule, DaysOfMonth, DaysOfWeek
from relevo.errors import BadCron

LAST_YEAR = 5000  # ChasquiMQ's bound; a schedule for later is a typing error

_NICKNAMES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


@dataclass(frozen=True, slots=True)
class CronFields:
    """The values of each field, in order.

    >>> parse_cron("*/20 9-10 * * MON-FRI").minutes
    (0, 20, 40)
    >>> parse_cron("30 2 * * *").fixed, parse_cron("30 * * * *").fixed
    (True, False)
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: DayRule
    months: tuple[int, ...]
    years: tuple[int, ...] | None
    fixed: bool
    """Minute and hour are single values or lists of them: a job for certain times of day, not for so often an hour."""


def parse_cron(expression: str) -> CronFields:
    """The fields of an expression, or `BadCron`, which says what is wrong and what to write."""
    return _Parser(expression).fields()


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: dict[str, int]


_SECOND = _Field("second", 0, 59, {})
_MINUTE = _Field("minute", 0, 59, {})
_HOUR = _Field("hour", 0, 23, {})
_DAY = _Field("day of month", 1, 31, {})
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("day of week", 0, 7, _WEEKDAYS)
_YEAR = _Field("year", 1, LAST_YEAR, {})


class _Parser:
    def __init__(self, expression: str) -> None:
        self.expression = expression

    def fields(self) -> CronFields:
        parts = self._parts()
        if len(parts) == 5:
            parts.insert(0, "0")
        second, minute, hour, day, month, weekday, *year = parts
        minutes, minutes_fixed = self._times(minute, _MINUTE)
        hours, hours_fixed = self._times(hour, _HOUR)
        return CronFields(
            seconds=self._values(second, _SECOND),
            minutes=minutes,
            hours=hours,
            days=DayRule(self._days_of_month(day), self._days_of_week(weekday)),
            months=self._values(month, _MONTH),
            years=self._values(year[0], _YEAR) if year and year[0] != "*" else None,
            fixed=minutes_fixed and hours_fixed,
        )

    def _parts(self) -> list[str]:
        text = self.expression.upper()
        parts = text.split()
        if len(parts) == 1 and parts[0].startswith("@"):
            if parts[0] == "@REBOOT":
                self._refuse("a schedule lives in Redis and sees no reboot", "Add the job when your program starts.")
            if parts[0] not in _NICKNAMES:
                self._refuse("there is no such nickname", f"Write one of {', '.join(_NICKNAMES).lower()}.")
            return _NICKNAMES[parts[0]].split()
        if not 5 <= len(parts) <= 7:
            remedy = "Write minute hour day month weekday; six fields begin with seconds, seven end with a year."
            self._refuse("it has 1 field" if len(parts) == 1 else f"it has {len(parts)} fields", remedy)
        return parts

    def _times(self, text: str, field: _Field) -> tuple[tuple[int, ...], bool]:
        """The values, and whether each was named by itself. A list of all there are is a `*` in other words."""
        values = self._values(text, field)
        singles = all(len(self._span(term, field)) == 1 for term in text.split(",") if term)
        return values, singles and len(values) <= field.high - field.low

    def _values(self, text: str, field: _Field) -> tuple[int, ...]:
        return tuple(sorted({value for term in self._terms(text, field) for value in self._span(term, field)}))

    def _terms(self, text: str, field: _Field) -> list[str]:
        terms = [term for term in text.split(",") if term]  # ChasquiMQ takes "1,,2" and "1,": so does this
        if not terms:
            self._refuse(f"its {field.name} {text!r} is empty", f"Write {_range(field)}, or *.")
        if len(terms) > 1 and ("*" in terms or "?" in terms):
            self._refuse(f"its {field.name} {text!r} has a star among other values", "Write * alone, or leave it out.")
        return terms

    def _days_of_month(self, text: str) -> DaysOfMonth:
        if text in {"*", "?"}:
            return DaysOfMonth()
        days: set[int] = set()
        near: set[int] = set()
        last = False
        for term in self._terms(text, _DAY):
            if term == "L":
                last = True
            elif term.endswith("W"):
                if term == "LW":
                    self._refuse("the last weekday, 'LW', is not in the dialect", "Write FRIL, or L.")
                near.add(self._number(term[:-1], _DAY, term))
            else:
                days.update(self._span(term.replace("?", "*"), _DAY))
        return DaysOfMonth(False, frozenset(days), last, frozenset(near))

    def _days_of_week(self, text: str) -> DaysOfWeek:
        and_ = text.startswith("+")
        text = text.removeprefix("+")
        if text in {"*", "?"}:
            return DaysOfWeek()
        days: set[int] = set()
        nth: set[tuple[int, int]] = set()
        last: set[int] = set()
        for term in self._terms(text, _WEEKDAY):
            head, hash_, which = term.partition("#")
            if term == "L" or (hash_ and "*" in head):
                self._refuse(
                    f"its day of week {term!r} does not say which day", "Write MON#2, or MONL for the last one."
                )
            elif hash_ and which == "L":
                last.update(day % 7 for day in self._span(head, _WEEKDAY))
            elif hash_:
                if which not in {"1", "2", "3", "4", "5"}:
                    self._refuse(f"its day of week {term!r} asks for number {which!r}", "Write #1 to #5, or #L.")
                nth.update((day % 7, int(which)) for day in self._span(head, _WEEKDAY))
            elif term.endswith("L"):
                last.add(self._number(term[:-1], _WEEKDAY, term) % 7)
            else:
                days.update(day % 7 for day in self._span(term.replace("?", "*"), _WEEKDAY))
        return DaysOfWeek(False, frozenset(days), frozenset(nth), frozenset(last), and_)

    def _span(self, term: str, field: _Field) -> range:
        """The values of one term: `*`, `5`, `1-5`, and each of them with a `/step`."""
        head, slash, tail = term.partition("/")
        step = self._step(tail, field, term) if slash else 1
        if head == "*":
            return range(field.low, field.high + 1, step)
        start, dash, end = head.partition("-")
        low = self._number(start, field, term)
        if not dash:
            return range(low, field.high + 1 if slash else low + 1, step)
        # Sunday ends a week as well as it begins one: FRI-SUN is Friday to Sunday.
        high = 7 if field is _WEEKDAY and end == "SUN" else self._number(end, field, term)
        if high < low:
            around = f"{start}-{field.high},{field.low}-{end}" if field is not _WEEKDAY else f"{start}-SAT,SUN-{end}"
            self._refuse(f"its {field.name} {term!r} runs backwards", f"Write {around}.")
        return range(low, high + 1, step)

    def _step(self, text: str, field: _Field, term: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            self._refuse(f"its {field.name} {term!r} has no number as a step", "Write */5 for every fifth.")
        if int(text) == 0:
            self._refuse(f"its {field.name} {term!r} has a step of zero", "Write a step of at least 1.")
        return int(text)

    def _number(self, text: str, field: _Field, term: str) -> int:
        if text in field.names:
            return field.names[text]
        if not (text.isascii() and text.isdigit()):
            self._refuse(f"its {field.name} {term!r} is not in the dialect", f"Write {_range(field)}, or *.")
        if len(text) > 9 or not field.low <= int(text) <= field.high:
            self._refuse(f"its {field.name} {term!r} is out of range", f"Write {_range(field)}.")
        return int(text)

    def _refuse(self, reason: str, remedy: str) -> NoReturn:
        raise BadCron(expression=self.expression, reason=reason, remedy=remedy)


def _range(field: _Field) -> str:
    names = f", or {next(iter(field.names))} to {list(field.names)[-1]}" if field.names else ""
    return f"{field.low} to {field.high}{names}"
