"""Cron expressions drawn together with what they mean: the texts are for parsers, the values for those who need none."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True)
class Field:
    text: str
    values: frozenset[int] = field(repr=False)
    singles: bool = False
    """Each value was written by itself."""


@dataclass(frozen=True)
class Days:
    text: str
    matches: Callable[[date], bool]
    star: bool = False


@dataclass(frozen=True)
class Expression:
    second: Field
    minute: Field
    hour: Field
    of_month: Days
    month: Field
    of_week: Days

    @property
    def text(self) -> str:
        minute_on = f"{self.minute.text} {self.hour.text} {self.of_month.text} {self.month.text} {self.of_week.text}"
        return minute_on if self.second.text == "0" else f"{self.second.text} {minute_on}"

    @property
    def fixed(self) -> bool:
        return self.minute.singles and self.hour.singles

    def has_day(self, day: date) -> bool:
        if day.month not in self.month.values:
            return False
        if self.of_month.star or self.of_week.star:
            return self.of_month.matches(day) and self.of_week.matches(day)
        return self.of_month.matches(day) or self.of_week.matches(day)

    def matches(self, wall: datetime) -> bool:
        return (
            wall.second in self.second.values
            and wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and self.has_day(wall.date())
        )

    def __repr__(self) -> str:
        return self.text


def star(low: int, high: int) -> Field:
    return Field("*", frozenset(range(low, high + 1)))


def listed(values: set[int]) -> Field:
    return Field(",".join(map(str, sorted(values))), frozenset(values), singles=True)


def star_steps(low: int, high: int, largest: int) -> st.SearchStrategy[Field]:
    return st.integers(1, largest).map(lambda step: Field(f"*/{step}", frozenset(range(low, high + 1, step))))


@st.composite
def ranges(draw: st.DrawFn, low: int, high: int) -> Field:
    start = draw(st.integers(low, high - 1))
    end = draw(st.integers(start + 1, high))
    step = draw(st.integers(1, end - start))
    text = f"{start}-{end}" + (f"/{step}" if step > 1 or draw(st.booleans()) else "")
    return Field(text, frozenset(range(start, end + 1, step)))


def lists(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.sets(st.integers(low, high), min_size=1, max_size=4).map(listed)


def like_both(low: int, high: int) -> st.SearchStrategy[Field]:
    """What every dialect here reads the same way, DST rules included."""
    return st.one_of(st.just(star(low, high)), star_steps(low, high, (high - low) // 2), lists(low, high))


def any_time(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.one_of(like_both(low, high), ranges(low, high))


# Most clocks change between midnight and five.
NIGHT = st.one_of(like_both(0, 23), lists(0, 5), ranges(0, 5))


ANY_DAY = Days("*", lambda _: True, star=True)


def nearest_weekday(day: date) -> date | None:
    """By its definition: of the weekdays in the month, the one closest to the day."""
    month = [day.replace(day=n) for n in range(1, monthrange(day.year, day.month)[1] + 1)]
    return min((other for other in month if other.isoweekday() < 6), key=lambda other: abs(other - day), default=None)


def is_weekday_near(number: int) -> Callable[[date], bool]:
    def matches(day: date) -> bool:
        if number > monthrange(day.year, day.month)[1]:
            return False
        return nearest_weekday(day.replace(day=number)) == day

    return matches


def in_days(values: frozenset[int]) -> Callable[[date], bool]:
    return lambda day: day.day in values


def in_weekdays(values: frozenset[int]) -> Callable[[date], bool]:
    return lambda day: day.isoweekday() % 7 in {value % 7 for value in values}


def is_nth(weekday: int, n: int) -> Callable[[date], bool]:
    return lambda day: day.isoweekday() % 7 == weekday and (day.day - 1) // 7 == n - 1


def is_last_weekday(weekday: int) -> Callable[[date], bool]:
    return lambda day: day.isoweekday() % 7 == weekday and (day + timedelta(days=7)).month != day.month


def is_last(day: date) -> bool:
    return (day + timedelta(days=1)).month != day.month


def near(latest: int) -> st.SearchStrategy[Days]:
    return st.integers(1, latest).map(lambda day: Days(f"{day}W", is_weekday_near(day)))


PLAIN_DAYS = st.one_of(lists(1, 31), ranges(1, 31)).map(lambda drawn: Days(drawn.text, in_days(drawn.values)))
UP_TO_SATURDAY = st.one_of(lists(0, 6), ranges(0, 6)).map(lambda drawn: Days(drawn.text, in_weekdays(drawn.values)))
PLAIN_WEEKDAYS = st.one_of(lists(0, 7), ranges(0, 7)).map(lambda drawn: Days(drawn.text, in_weekdays(drawn.values)))
NAMED_WEEKDAYS = st.integers(0, 6).map(lambda day: Days(WEEKDAY_NAMES[day], in_weekdays(frozenset({day}))))
NTHS = st.tuples(st.integers(0, 6), st.integers(1, 5)).map(
    lambda pair: Days(f"{WEEKDAY_NAMES[pair[0]]}#{pair[1]}", is_nth(*pair))
)
LAST_WEEKDAYS = st.integers(0, 6).map(lambda day: Days(f"{day}L", is_last_weekday(day)))
LAST = st.just(Days("L", is_last))
MONTHS = st.one_of(
    st.just(star(1, 12)),
    lists(1, 12),
    ranges(1, 12),
    st.integers(1, 12).map(lambda month: Field(MONTH_NAMES[month - 1], frozenset({month}))),
)
EVERY_MONTH = st.just(star(1, 12))
ZERO = st.just(listed({0}))

# Around a change of clocks every day should count, or most walks would find nothing.
CLOCKS = st.builds(
    Expression, ZERO, any_time(0, 59), NIGHT | any_time(0, 23), st.just(ANY_DAY), EVERY_MONTH, st.just(ANY_DAY)
)
SECONDS = st.builds(
    Expression, any_time(0, 59), any_time(0, 59), NIGHT, st.just(ANY_DAY), EVERY_MONTH, st.just(ANY_DAY)
)
CALENDARS = st.builds(
    Expression,
    ZERO,
    ZERO,
    ZERO,
    st.one_of(st.just(ANY_DAY), PLAIN_DAYS, near(31), LAST),
    MONTHS,
    st.one_of(st.just(ANY_DAY), PLAIN_WEEKDAYS, NAMED_WEEKDAYS, NTHS, LAST_WEEKDAYS),
)
DIALECT = st.builds(
    Expression,
    ZERO | any_time(0, 59),
    any_time(0, 59),
    any_time(0, 23),
    st.one_of(st.just(ANY_DAY), PLAIN_DAYS, near(31), LAST),
    MONTHS,
    st.one_of(st.just(ANY_DAY), PLAIN_WEEKDAYS, NAMED_WEEKDAYS, NTHS, LAST_WEEKDAYS),
)
SHARED = st.builds(
    Expression,
    ZERO,
    like_both(0, 59),
    like_both(0, 23),
    st.one_of(st.just(ANY_DAY), lists(1, 31).map(lambda drawn: Days(drawn.text, in_days(drawn.values))), LAST),
    MONTHS,
    st.one_of(st.just(ANY_DAY), NAMED_WEEKDAYS, NTHS),
)
SHARED_CLOCKS = st.builds(
    Expression, ZERO, like_both(0, 59), like_both(0, 23), st.just(ANY_DAY), EVERY_MONTH, st.just(ANY_DAY)
)


def samples(expressions: st.SearchStrategy[Expression], count: int) -> list[Expression]:
    """The same so many each time, for walks that are too long to be shrunk."""
    found: list[Expression] = []

    @settings(max_examples=count, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(expressions)
    def collect(expression: Expression) -> None:
        found.append(expression)

    collect()
    return found
