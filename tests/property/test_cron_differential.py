"""Cron against others: a walk through time that looks at every minute or second, croniter and cronsim.

Expressions are drawn together with what they mean, so the walk needs no parser and shares nothing with the code under
test. croniter fires a fixed time twice in an overlap, so it is asked where clocks stand still; cronsim
counts `30 1-4` among the fixed times, so it is asked for what both count alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from relevo.engine.schedules.cron import Cron
from tests.support.cron_expressions import (
    ANY_DAY,
    CALENDARS,
    CLOCKS,
    LAST,
    LAST_WEEKDAYS,
    MONTHS,
    NAMED_WEEKDAYS,
    NTHS,
    PLAIN_DAYS,
    SECONDS,
    SHARED,
    SHARED_CLOCKS,
    UP_TO_SATURDAY,
    ZERO,
    Days,
    Expression,
    Field,
    any_time,
    near,
    samples,
)

# Half hours, three quarters, two hours at once, midnight, a day left out, Ramadan, and two where nothing moves.
ZONES = (
    *("America/New_York", "Europe/London", "Europe/Dublin", "Australia/Lord_Howe", "America/Sao_Paulo"),
    *("Asia/Kathmandu", "Pacific/Chatham", "Africa/Casablanca", "Africa/Cairo", "America/St_Johns"),
    *("Antarctica/Troll", "Asia/Tehran", "Pacific/Apia", "America/Havana", "Asia/Tokyo"),
)
MINUTE, HOUR, DAY = 60, 3600, 86_400


# --- the walk -----------------------------------------------------------------------------------------------------


def walls(zone: str, start: int, end: int, step: int) -> list[tuple[int, datetime]]:
    tz = ZoneInfo(zone)
    return [(at, datetime.fromtimestamp(at, tz).replace(tzinfo=None, fold=0)) for at in range(start, end, step)]


def walked(expression: Expression, path: list[tuple[int, datetime]], step: int) -> list[int]:
    """The instants on the path, after its first, at which the expression fires by the two rules of DST."""
    seen = path[0][1]
    found: list[int] = []
    for at, wall in path[1:]:
        if not expression.fixed:
            fires = expression.matches(wall)
        else:  # every wall that shows for the first time, and those that were left out on the way to it
            fires = False
            while seen < wall:
                seen += timedelta(seconds=step)
                fires = fires or expression.matches(seen)
        if fires:
            found.append(at)
    return found


def asked(expression: Expression, zone: str | None, start: int, end: int) -> list[int]:
    cron = Cron(expression.text, zone)
    found: list[int] = []
    at = cron.next_after(start * 1000)
    while at is not None and at < end * 1000:
        found.append(at // 1000)
        at = cron.next_after(at)
    return found


@cache
def changes(zone: str, first_year: int, last_year: int) -> tuple[int, ...]:
    """The instants at which a zone's offset is another than a quarter of an hour before."""
    tz = ZoneInfo(zone)
    start = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())
    found: list[int] = []
    offset = datetime.fromtimestamp(start, tz).utcoffset()
    for day in range(start, end, DAY):
        if datetime.fromtimestamp(day + DAY, tz).utcoffset() != offset:
            for at in range(day, day + DAY + 1, MINUTE):
                if (now := datetime.fromtimestamp(at, tz).utcoffset()) != offset:
                    found.append(at)
                    offset = now
    return tuple(found)


def moved(first_year: int, last_year: int, zones: tuple[str, ...] = ZONES) -> st.SearchStrategy[tuple[str, int]]:
    """A zone and a change of its clocks; looked for only when a test that wants it runs."""
    return st.deferred(
        lambda: st.sampled_from([(zone, at) for zone in zones for at in changes(zone, first_year, last_year)])
    )


@pytest.mark.whole  # around changes of clocks, cronsim is asked below
@settings(max_examples=200, deadline=None)
@given(CLOCKS, moved(2010, 2030))
def test_every_minute_around_a_change_of_clocks_is_as_walked(expression: Expression, change: tuple[str, int]) -> None:
    zone, at = change
    start, end = at - 30 * HOUR, at + 30 * HOUR
    assert asked(expression, zone, start, end) == walked(expression, walls(zone, start, end, MINUTE), MINUTE)


@pytest.mark.whole  # around changes of clocks, cronsim is asked below
@settings(max_examples=30, deadline=None)
@given(SECONDS, moved(2010, 2030))
def test_every_second_around_a_change_of_clocks_is_as_walked(expression: Expression, change: tuple[str, int]) -> None:
    zone, at = change
    start, end = at - 2 * HOUR, at + 3 * HOUR
    assert asked(expression, zone, start, end) == walked(expression, walls(zone, start, end, 1), 1)


@pytest.mark.whole  # croniter is asked below
@settings(max_examples=150, deadline=None)
@given(CALENDARS, st.integers(1970, 2090))
def test_every_day_of_years_is_as_walked(expression: Expression, year: int) -> None:
    first, last = date(year, 1, 1), date(year + 4, 1, 1)
    days = [first + timedelta(days=n) for n in range(1, (last - first).days)]
    midnights = [int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) for day in days]
    wanted = [at for at, day in zip(midnights, days, strict=True) if expression.has_day(day)]
    try:
        found = asked(expression, None, midnights[0] - DAY, midnights[-1] + DAY)
    except ValueError:  # a date that never comes, such as 30 February
        found = []
    assert found == wanted


# --- what must hold anywhere --------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(CLOCKS | SECONDS | CALENDARS, moved(2000, 2035), st.integers(-3 * HOUR * 1000, 3 * HOUR * 1000), st.randoms())
def test_the_answer_is_the_same_from_any_instant_before_it(
    expression: Expression, change: tuple[str, int], shift: int, rng: random.Random
) -> None:
    zone, at = change
    try:
        cron = Cron(expression.text, zone)
    except ValueError:
        return
    start = at * 1000 + shift
    fire = cron.next_after(start)
    assert fire is not None
    assert fire > start
    assert fire % 1000 == 0
    for instant in (fire - 1, fire - 1000, rng.randrange(start, fire)):
        assert cron.next_after(max(instant, start)) == fire


# --- other libraries ----------------------------------------------------------------------------------------------
# The short form draws the same expressions each time: quirks of theirs are for the long form to find, not for chance.


def croniter_text(expression: Expression) -> str:
    """In croniter seconds go last, and the L of a weekday first."""
    weekday = expression.of_week.text
    if weekday.endswith("L"):
        weekday = f"L{weekday[:-1]}"
    parts = (expression.minute, expression.hour, expression.of_month, expression.month)
    return " ".join([*(part.text for part in parts), weekday, expression.second.text])


def by_croniter(expression: Expression, start: int, zone: ZoneInfo) -> Iterator[int]:
    rows = croniter(croniter_text(expression), datetime.fromtimestamp(start, zone))
    while True:
        yield int(rows.get_next(float))


def with_days(second: Field, minute: Field, hour: Field, month: Field, days: tuple[Days, Days]) -> Expression:
    return Expression(second, minute, hour, days[0], month, days[1])


# croniter joins a day of the month with a day of the week by "or" only when both are plain, so the others stand alone.
# With six fields it takes no 7 for Sunday, and its `31W` falls on the 30th of shorter months. It looks for the two days of an
# "or" apart and gives up when one never comes: `30 2 SUN` has Sundays for us, and no answer from it.
def has_its_day_of_month(expression: Expression) -> bool:
    days = [date(2000, 1, 1) + timedelta(days=n) for n in range(366)]
    return any(expression.of_month.matches(day) for day in days if day.month in expression.month.values)


CRONITER = st.builds(
    with_days,
    ZERO | any_time(0, 59),
    any_time(0, 59),
    any_time(0, 23),
    MONTHS,
    st.one_of(
        st.tuples(st.just(ANY_DAY) | PLAIN_DAYS, st.just(ANY_DAY) | NAMED_WEEKDAYS | UP_TO_SATURDAY),
        st.tuples(near(28) | LAST, st.just(ANY_DAY)),
        st.tuples(st.just(ANY_DAY), NTHS | LAST_WEEKDAYS),
    ),
).filter(has_its_day_of_month)


def compare_with_croniter(expression: Expression, zone: str, start: int, count: int) -> None:
    try:
        cron = Cron(expression.text, zone)
    except ValueError:
        return
    at = start * 1000
    for other, _ in zip(by_croniter(expression, start, ZoneInfo(zone)), range(count), strict=False):
        assert cron.next_after(at) == other * 1000
        at = other * 1000


@settings(max_examples=200, deadline=None, derandomize=True)
@given(CRONITER, st.sampled_from(["UTC", "Asia/Kathmandu", "Asia/Tokyo"]), st.integers(10**9, 2 * 10**9))
def test_fires_are_those_of_croniter_where_clocks_stand_still(expression: Expression, zone: str, start: int) -> None:
    compare_with_croniter(expression, zone, start, 12)


# cronsim walks from full hour to full hour: it goes astray after Lord Howe's half one and Chatham's change at a quarter
# to three, and lands in gaps that begin at midnight, as Casablanca's did until 2012.
CRONSIM_ZONES = (
    *("America/New_York", "Europe/London", "Europe/Dublin", "Africa/Casablanca"),
    *("Antarctica/Troll", "Asia/Kathmandu", "Asia/Tokyo"),
)


def by_cronsim(expression: Expression, start: int, zone: str) -> Iterator[int]:
    for fire in CronSim(expression.text, datetime.fromtimestamp(start, ZoneInfo(zone))):
        yield int(fire.timestamp())


def compare_with_cronsim(expression: Expression, zone: str, start: int, count: int) -> None:
    try:
        cron = Cron(expression.text, zone)
    except ValueError:
        return
    at = start * 1000
    for other, _ in zip(by_cronsim(expression, start, zone), range(count), strict=False):
        assert cron.next_after(at) == other * 1000
        at = other * 1000


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SHARED, st.sampled_from(CRONSIM_ZONES), st.integers(2013, 2030))
def test_fires_are_those_of_cronsim_in_zones_that_it_reads_right(expression: Expression, zone: str, year: int) -> None:
    compare_with_cronsim(expression, zone, int(datetime(year, 1, 1, 12, tzinfo=UTC).timestamp()), 100)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SHARED_CLOCKS, moved(2013, 2030, CRONSIM_ZONES))
def test_fires_are_those_of_cronsim_around_a_change_of_clocks(expression: Expression, change: tuple[str, int]) -> None:
    zone, at = change
    compare_with_cronsim(expression, zone, at - 28 * HOUR, 60)


# --- the long form ------------------------------------------------------------------------------------------------


@pytest.mark.scale
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("zone", ZONES)
def test_every_change_of_clocks_since_1970_is_as_walked(zone: str) -> None:
    expressions = samples(CLOCKS, 15)
    for at in changes(zone, 1970, 2037):
        start, end = at - 26 * HOUR, at + 26 * HOUR
        path = walls(zone, start, end, MINUTE)
        for expression in expressions:
            assert asked(expression, zone, start, end) == walked(expression, path, MINUTE), (expression, zone, at)


@pytest.mark.scale
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("zone", ZONES)
def test_every_minute_of_years_is_as_walked(zone: str) -> None:
    for year in (2011, 2024):
        start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
        end = start + 370 * DAY
        path = walls(zone, start, end, MINUTE)
        for expression in samples(SHARED, 6):
            assert asked(expression, zone, start, end) == walked(expression, path, MINUTE), (expression, zone, year)


@pytest.mark.scale
@pytest.mark.timeout(1200)
@settings(max_examples=5_000, deadline=None)
@given(CRONITER, st.sampled_from(["UTC", "Asia/Kathmandu", "Asia/Tokyo"]), st.integers(10**9, 2 * 10**9))
def test_thousands_of_expressions_fire_as_in_croniter(expression: Expression, zone: str, start: int) -> None:
    compare_with_croniter(expression, zone, start, 40)


@pytest.mark.scale
@pytest.mark.timeout(1200)
@settings(max_examples=3_000, deadline=None)
@given(SHARED, st.sampled_from(CRONSIM_ZONES), st.integers(2013, 2035))
def test_thousands_of_expressions_fire_as_in_cronsim(expression: Expression, zone: str, year: int) -> None:
    compare_with_cronsim(expression, zone, int(datetime(year, 1, 1, 12, tzinfo=UTC).timestamp()), 400)
