"""Cron: the dialect, as chasquimq 1.3.0 was seen to read it, the zones, and what happens when clocks are moved."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from relevo.engine.schedules.cron import Cron
from relevo.errors import BadCron, UnknownZone

WEDNESDAY = "2027-03-03T10:20:30+00:00"


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def fires(cron: Cron, after: str, count: int) -> list[int]:
    found: list[int] = []
    at: int | None = ms(after)
    while len(found) < count and (at := cron.next_after(at)) is not None:
        found.append(at)
    return found


def shown(instants: list[int], tz: str = "UTC") -> list[str]:
    return [datetime.fromtimestamp(at / 1000, ZoneInfo(tz)).isoformat() for at in instants]


def in_utc(instants: list[int]) -> str:
    return "  ".join(datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in instants)


# --- the dialect --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", "2027-03-03 10:21:00  2027-03-03 10:22:00  2027-03-03 10:23:00"),
        ("*/7 * * * *", "2027-03-03 10:21:00  2027-03-03 10:28:00  2027-03-03 10:35:00"),
        ("5/10 * * * *", "2027-03-03 10:25:00  2027-03-03 10:35:00  2027-03-03 10:45:00"),
        ("8-10/2 * * * *", "2027-03-03 11:08:00  2027-03-03 11:10:00  2027-03-03 12:08:00"),
        ("*/20,7 * * * *", "2027-03-03 10:40:00  2027-03-03 11:00:00  2027-03-03 11:07:00"),
        ("1,,2 * * * *", "2027-03-03 11:01:00  2027-03-03 11:02:00  2027-03-03 12:01:00"),
        ("*/61 * * * *", "2027-03-03 11:00:00  2027-03-03 12:00:00  2027-03-03 13:00:00"),
        (" 0\t05  * *  * ", "2027-03-04 05:00:00  2027-03-05 05:00:00  2027-03-06 05:00:00"),
        ("* * * * * *", "2027-03-03 10:20:31  2027-03-03 10:20:32  2027-03-03 10:20:33"),
        ("*/25 0 12 * * ?", "2027-03-03 12:00:00  2027-03-03 12:00:25  2027-03-03 12:00:50"),
        ("0 0 0 1 1 ? 2030-2032", "2030-01-01 00:00:00  2031-01-01 00:00:00  2032-01-01 00:00:00"),
        ("0 0 0 1 1 * */4", "2029-01-01 00:00:00  2033-01-01 00:00:00  2037-01-01 00:00:00"),
        ("0 0 0 1 1 * 2030/5", "2030-01-01 00:00:00  2035-01-01 00:00:00  2040-01-01 00:00:00"),
        ("0 0 0 1 1 * 2026,5000", "5000-01-01 00:00:00"),
        ("* * * * * * *", "2027-03-03 10:20:31  2027-03-03 10:20:32  2027-03-03 10:20:33"),
        ("0 0 * jan,Feb mon", "2028-01-03 00:00:00  2028-01-10 00:00:00  2028-01-17 00:00:00"),
        ("0 0 1 JAN-MAR/2 *", "2028-01-01 00:00:00  2028-03-01 00:00:00  2029-01-01 00:00:00"),
        ("0 0 1 2/3 *", "2027-05-01 00:00:00  2027-08-01 00:00:00  2027-11-01 00:00:00"),
    ],
)
def test_the_fields_of_time_and_month(expression: str, expected: str) -> None:
    assert in_utc(fires(Cron(expression), WEDNESDAY, 3)) == expected


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 L * *", "03-31 04-30 05-31 06-30"),
        ("0 0 L 2 *", "02-29 02-28 02-28 02-28"),
        ("0 0 L,15 * *", "03-15 03-31 04-15 04-30"),
        ("0 0 15W * *", "03-15 04-15 05-14 06-15"),
        ("0 0 1W * *", "04-01 05-03 06-01 07-01"),
        ("0 0 31W * *", "03-31 05-31 07-30 08-31"),
        ("0 0 1W,15 * *", "03-15 04-01 04-15 05-03"),
        ("0 0 29W 2 *", "02-29 02-27 02-29 02-29"),
        ("0 0 1/5 * *", "03-06 03-11 03-16 03-21"),
        ("0 0 29 2 *", "02-29 02-29 02-29 02-29"),
        ("0 0 * * 5L", "03-26 04-30 05-28 06-25"),
        ("0 0 * * fril", "03-26 04-30 05-28 06-25"),
        ("0 0 * * 7L", "03-28 04-25 05-30 06-27"),
        ("0 0 * * 1L,3", "03-10 03-17 03-24 03-29"),
        ("0 0 * * MON#2", "03-08 04-12 05-10 06-14"),
        ("0 0 * * 7#2", "03-14 04-11 05-09 06-13"),
        ("0 0 * * 1#5", "03-29 05-31 08-30 11-29"),
        ("0 0 * * MON-WED#2", "03-08 03-09 03-10 04-12"),
        ("0 0 * * MON#L", "03-29 04-26 05-31 06-28"),
        ("0 0 * * 0", "03-07 03-14 03-21 03-28"),
        ("0 0 * * 7", "03-07 03-14 03-21 03-28"),
        ("0 0 * * 6-7", "03-06 03-07 03-13 03-14"),
        ("0 0 * * FRI-SUN", "03-05 03-06 03-07 03-12"),
        ("0 0 * * SUN-TUE", "03-07 03-08 03-09 03-14"),
        ("0 0 * * */2", "03-04 03-06 03-07 03-09"),
        ("0 0 * * 1/2", "03-05 03-07 03-08 03-10"),
        ("0 0 * * MON-FRI/2", "03-05 03-08 03-10 03-12"),
        ("0 0 * 2 MON#5", "02-29 02-29 02-29 02-29"),
    ],
)
def test_the_fields_of_days(expression: str, days: str) -> None:
    found = fires(Cron(expression), WEDNESDAY, 4)
    assert " ".join(datetime.fromtimestamp(at / 1000, UTC).strftime("%m-%d") for at in found) == days


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        pytest.param("0 0 13 * FRI", "03-05 03-12 03-13 03-19", id="both set: either is enough"),
        pytest.param("0 0 15W * MON", "03-08 03-15 03-22 03-29", id="both set, one a nearest weekday"),
        pytest.param("0 0 31 2 MON", "02-07 02-14 02-21 02-28", id="both set, one impossible"),
        pytest.param("0 0 */2 * MON", "03-05 03-07 03-08 03-09", id="a step is a value, not a star"),
        pytest.param("0 0 1-31 * MON", "03-04 03-05 03-06 03-07", id="a full range is a value, not a star"),
        pytest.param("0 0 ? * MON", "03-08 03-15 03-22 03-29", id="a question mark leaves it to the other"),
        pytest.param("0 0 13 * ?", "03-13 04-13 05-13 06-13", id="a question mark on the other side"),
        pytest.param("0 0 ? * ?", "03-04 03-05 03-06 03-07", id="two question marks are every day"),
        pytest.param("0 0 13 * +FRI", "08-13 10-13 04-13 07-13", id="a plus asks for both"),
        pytest.param("0 0 * * +MON", "03-08 03-15 03-22 03-29", id="a plus beside a star asks for the one"),
    ],
)
def test_how_the_two_day_fields_join(expression: str, days: str) -> None:
    found = fires(Cron(expression), WEDNESDAY, 4)
    assert " ".join(datetime.fromtimestamp(at / 1000, UTC).strftime("%m-%d") for at in found) == days


@pytest.mark.parametrize(
    ("nickname", "expected"),
    [
        ("@yearly", "2028-01-01 00:00:00"),
        ("@annually", "2028-01-01 00:00:00"),
        ("@monthly", "2027-04-01 00:00:00"),
        ("@weekly", "2027-03-07 00:00:00"),
        ("@daily", "2027-03-04 00:00:00"),
        ("@midnight", "2027-03-04 00:00:00"),
        ("@hourly", "2027-03-03 11:00:00"),
        (" @Hourly ", "2027-03-03 11:00:00"),
    ],
)
def test_nicknames(nickname: str, expected: str) -> None:
    assert in_utc(fires(Cron(nickname), WEDNESDAY, 1)) == expected


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("", "it has 0 fields"),
        ("61", "it has 1 field"),
        ("* * * *", "it has 4 fields"),
        ("* * * * * * * *", "it has 8 fields"),
        ("60 * * * *", "minute '60' is out of range. Write 0 to 59."),
        ("* 24 * * *", "hour '24' is out of range. Write 0 to 23."),
        ("60 * * * * *", "second '60'"),
        ("* * 0 * *", "day of month '0'"),
        ("* * 32 * *", "day of month '32'"),
        ("* * * 13 *", "month '13' is out of range. Write 1 to 12, or JAN to DEC."),
        ("* * * * 8", "day of week '8' is out of range. Write 0 to 7, or SUN to SAT."),
        ("0 0 0 1 1 * 5001", "year '5001'"),
        ("0 0 0 1 1 * 0", "year '0'"),
        ("0 22-2 * * *", "'22-2' runs backwards. Write 22-23,0-2."),
        ("0 0 * * SAT-MON", "Write SAT-SAT,SUN-MON."),
        ("*/0 * * * *", "a step of zero"),
        ("*/x * * * *", "no number as a step"),
        ("*/5/2 * * * *", "no number as a step"),
        ("1-2-3 * * * *", "'1-2-3'"),
        ("-5 * * * *", "'-5'"),
        ("+5 * * * *", "'+5'"),
        ("1.5 * * * *", "'1.5'"),
        ("٣ * * * *", "'٣'"),
        ("99999999999999999999 * * * *", "out of range"),
        ("H * * * *", "'H'"),
        ("1,* * * * *", "a star among other values"),
        (", * * * *", "is empty"),
        ("? * * * *", "'?'"),
        ("0 0 * ? *", "'?'"),
        ("0 0 * JANUARY *", "'JANUARY'"),
        ("0 0 * * MONDAY", "'MONDAY'"),
        ("0 0 LW * *", "Write FRIL, or L."),
        ("0 0 L-3 * *", "'L-3'"),
        ("0 0 W * *", "'W'"),
        ("0 0 32W * *", "'32W' is out of range"),
        ("0 0 10-15W * *", "'10-15W'"),
        ("0 0 * * L", "does not say which day"),
        ("0 0 * * 1-3L", "'1-3L'"),
        ("0 0 * * *#2", "'*#2'"),
        ("0 0 * * 1#6", "Write #1 to #5, or #L."),
        ("0 0 * * 1#", "Write #1 to #5, or #L."),
        ("0 0 * 1L *", "'1L'"),
        ("@reboot", "Add the job when your program starts."),
        ("@every 5m", "it has 2 fields"),
        ("@fortnightly", "Write one of @yearly"),
    ],
)
def test_what_is_not_in_the_dialect_is_refused_by_name(expression: str, told: str) -> None:
    with pytest.raises(BadCron) as caught:
        Cron(expression)
    assert told in str(caught.value)
    assert repr(expression) in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *", "0 0 0 29 2 * 2027", "0 0 31 2 +MON", "0 0 1 * +MON#2"],
)
def test_a_date_that_never_comes_is_refused(expression: str) -> None:
    with pytest.raises(BadCron, match="no date is ever matched"):
        Cron(expression)


# --- the instant --------------------------------------------------------------------------------------------------


def test_a_fire_is_strictly_after_the_instant_asked_for() -> None:
    noon = ms("2027-03-03T12:00:00+00:00")
    cron = Cron("0 12 * * *")
    assert cron.next_after(noon - 1) == noon
    assert cron.next_after(noon) == noon + 86_400_000


@pytest.mark.parametrize("millisecond", [0, 1, 653, 999])
@pytest.mark.parametrize("tz", [None, "-03:30", "Europe/London"])
def test_fires_are_whole_seconds_whatever_the_millisecond_asked_from(millisecond: int, tz: str | None) -> None:
    asked = ms("2027-03-03T10:20:30+00:00") + millisecond
    assert Cron("* * * * * *", tz).next_after(asked) == ms("2027-03-03T10:20:31+00:00")
    assert Cron("* * * * *", tz).next_after(asked) == ms("2027-03-03T10:21:00+00:00")


def test_a_last_year_that_is_over_has_no_fire() -> None:
    cron = Cron("0 0 0 1 1 * 2030")
    assert cron.next_after(ms("2029-12-31T23:59:59+00:00")) == ms("2030-01-01T00:00:00+00:00")
    assert cron.next_after(ms("2030-01-01T00:00:00+00:00")) is None


def test_instants_beyond_the_calendar_are_answered() -> None:
    assert Cron("* * * * *").next_after(10**18) is None
    assert Cron("* * * * *", "Asia/Tokyo").next_after(10**18) is None
    assert Cron("0 0 0 1 1 * 2030").next_after(-(10**18)) == ms("2030-01-01T00:00:00+00:00")


def test_a_leap_day_over_a_century_without_one() -> None:
    assert (
        in_utc(fires(Cron("0 0 29 2 *"), "2096-03-01T00:00:00+00:00", 2)) == "2104-02-29 00:00:00  2108-02-29 00:00:00"
    )


def test_a_cron_says_what_it_is() -> None:
    assert repr(Cron("@daily", "Asia/Tokyo")) == "Cron('@daily', 'Asia/Tokyo')"


# --- zones --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tz", "midnight"),
    [
        (None, "2025-07-04T00:00:00+00:00"),
        ("", "2025-07-04T00:00:00+00:00"),
        ("utc", "2025-07-04T00:00:00+00:00"),
        (" Utc ", "2025-07-04T00:00:00+00:00"),
        ("Z", "2025-07-04T00:00:00+00:00"),
        ("z", "2025-07-04T00:00:00+00:00"),
        ("-00:00", "2025-07-04T00:00:00+00:00"),
        ("+05:30", "2025-07-03T18:30:00+00:00"),
        ("+5:30", "2025-07-03T18:30:00+00:00"),
        ("+0530", "2025-07-03T18:30:00+00:00"),
        ("-08:00", "2025-07-04T08:00:00+00:00"),
        ("-0800", "2025-07-04T08:00:00+00:00"),
        ("+23:59", "2025-07-04T00:01:00+00:00"),
        ("-23:59", "2025-07-03T23:59:00+00:00"),
        ("Etc/GMT+5", "2025-07-04T05:00:00+00:00"),
        (" America/New_York ", "2025-07-04T04:00:00+00:00"),
        ("US/Eastern", "2025-07-04T04:00:00+00:00"),
        ("Asia/Calcutta", "2025-07-03T18:30:00+00:00"),
        ("Asia/Kathmandu", "2025-07-03T18:15:00+00:00"),
        ("Pacific/Chatham", "2025-07-03T11:15:00+00:00"),
    ],
)
def test_midnight_of_a_zone(tz: str | None, midnight: str) -> None:
    assert Cron("0 0 * * *", tz).next_after(ms("2025-07-03T10:20:30+00:00")) == ms(midnight)


@pytest.mark.parametrize(
    "tz",
    [
        *("+24:00", "+05:60", "+05", "+5", "+530", "+12345", "+ 05:30", "05:30", "\u221205:30", "UTC+5", "GMT+5"),
        *(
            "Mars/Phobos",
            "America",
            "america/new_york_",
            "localtime",
            "posixrules",
            "posix/UTC",
            "right/UTC",
            "Factory",
        ),
        *("../UTC", "/etc/passwd", "a\0b", "x" * 5000),
    ],
)
def test_an_unknown_zone_is_refused_by_name(tz: str) -> None:
    with pytest.raises(UnknownZone) as caught:
        Cron("0 0 * * *", tz)
    assert repr(tz) in str(caught.value)
    assert "America/New_York" in str(caught.value)


# --- clocks that are moved ----------------------------------------------------------------------------------------

GAP = "2025-03-09T00:59:59-05:00"  # New York, 02:00 EST becomes 03:00 EDT
OVERLAP = "2025-11-01T23:59:59-04:00"  # New York, 02:00 EDT becomes 01:00 EST


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 2 * * *", "09T03:00:00-04:00 10T02:00:00-04:00 11T02:00:00-04:00"),
        ("30 2 * * *", "09T03:00:00-04:00 10T02:30:00-04:00 11T02:30:00-04:00"),
        ("59 2 * * *", "09T03:00:00-04:00 10T02:59:00-04:00 11T02:59:00-04:00"),
        ("30 2-2 * * *", "09T03:00:00-04:00 10T02:30:00-04:00 11T02:30:00-04:00"),
        ("0 30 2 * * *", "09T03:00:00-04:00 10T02:30:00-04:00 11T02:30:00-04:00"),
        ("*/20 30 2 * * *", "09T03:00:00-04:00 10T02:30:00-04:00 10T02:30:20-04:00"),
        ("15,45 2 * * *", "09T03:00:00-04:00 10T02:15:00-04:00 10T02:45:00-04:00"),
        ("0 2,3 * * *", "09T03:00:00-04:00 10T02:00:00-04:00 10T03:00:00-04:00"),
        ("30 1,2,3 * * *", "09T01:30:00-05:00 09T03:00:00-04:00 09T03:30:00-04:00"),
        ("0 2,14 * * *", "09T03:00:00-04:00 09T14:00:00-04:00 10T02:00:00-04:00"),
        ("0 1 * * *", "09T01:00:00-05:00 10T01:00:00-04:00 11T01:00:00-04:00"),
        ("30 1 * * *", "09T01:30:00-05:00 10T01:30:00-04:00 11T01:30:00-04:00"),
        ("0 3 * * *", "09T03:00:00-04:00 10T03:00:00-04:00 11T03:00:00-04:00"),
    ],
)
def test_a_fixed_time_in_the_spring_gap_fires_once_at_its_end(expression: str, expected: str) -> None:
    found = shown(fires(Cron(expression, "America/New_York"), GAP, 3), "America/New_York")
    assert found == [f"2025-03-{fire}" for fire in expected.split()]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/15 2 * * *", "10T02:00:00-04:00 10T02:15:00-04:00 10T02:30:00-04:00"),
        ("* 2 * * *", "10T02:00:00-04:00 10T02:01:00-04:00 10T02:02:00-04:00"),
        ("30 1-4 * * *", "09T01:30:00-05:00 09T03:30:00-04:00 09T04:30:00-04:00"),
        ("0 * * * *", "09T01:00:00-05:00 09T03:00:00-04:00 09T04:00:00-04:00"),
        ("0 */2 * * *", "09T04:00:00-04:00 09T06:00:00-04:00 09T08:00:00-04:00"),
        ("0,30 * * * *", "09T01:00:00-05:00 09T01:30:00-05:00 09T03:00:00-04:00"),
        ("*/30 * * * *", "09T01:00:00-05:00 09T01:30:00-05:00 09T03:00:00-04:00"),
    ],
)
def test_a_job_of_so_often_an_hour_passes_over_the_spring_gap(expression: str, expected: str) -> None:
    found = shown(fires(Cron(expression, "America/New_York"), GAP, 3), "America/New_York")
    assert found == [f"2025-03-{fire}" for fire in expected.split()]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 1 * * *", "02T01:00:00-04:00 03T01:00:00-05:00"),
        ("30 1 * * *", "02T01:30:00-04:00 03T01:30:00-05:00"),
        ("0,30 1 * * *", "02T01:00:00-04:00 02T01:30:00-04:00 03T01:00:00-05:00"),
        ("0 1,2 * * *", "02T01:00:00-04:00 02T02:00:00-05:00 03T01:00:00-05:00"),
        ("0 30 1 * * *", "02T01:30:00-04:00 03T01:30:00-05:00"),
        ("*/30 30 1 * * *", "02T01:30:00-04:00 02T01:30:30-04:00 03T01:30:00-05:00"),
        ("0 2 * * *", "02T02:00:00-05:00 03T02:00:00-05:00"),
    ],
)
def test_a_fixed_time_in_the_autumn_overlap_fires_once_at_the_first_pass(expression: str, expected: str) -> None:
    wanted = [f"2025-11-{fire}" for fire in expected.split()]
    found = shown(fires(Cron(expression, "America/New_York"), OVERLAP, len(wanted)), "America/New_York")
    assert found == wanted


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 * * * *", "00:00:00-04:00 01:00:00-04:00 01:00:00-05:00 02:00:00-05:00"),
        ("0 0-23 * * *", "00:00:00-04:00 01:00:00-04:00 01:00:00-05:00 02:00:00-05:00"),
        (f"0 {','.join(map(str, range(24)))} * * *", "00:00:00-04:00 01:00:00-04:00 01:00:00-05:00 02:00:00-05:00"),
        ("30 * * * *", "00:30:00-04:00 01:30:00-04:00 01:30:00-05:00 02:30:00-05:00"),
        ("30 1-2 * * *", "01:30:00-04:00 01:30:00-05:00 02:30:00-05:00"),
        ("*/30 1 * * *", "01:00:00-04:00 01:30:00-04:00 01:00:00-05:00 01:30:00-05:00"),
    ],
)
def test_defect_06_a_job_of_so_often_an_hour_fires_in_both_passes_of_the_autumn_overlap(
    expression: str, expected: str
) -> None:
    wanted = [f"2025-11-02T{fire}" for fire in expected.split()]
    found = shown(fires(Cron(expression, "America/New_York"), OVERLAP, len(wanted)), "America/New_York")
    assert found == wanted


def test_an_hourly_job_fires_after_every_hour_of_real_time_all_year() -> None:
    hours = fires(Cron("0 * * * *", "America/New_York"), "2025-01-01T00:00:00-05:00", 365 * 24)
    assert {later - earlier for earlier, later in pairwise(hours)} == {3_600_000}


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        pytest.param("2025-11-02T01:10:00-04:00", "2025-11-02T01:30:00-04:00", id="first pass, before the slot"),
        pytest.param("2025-11-02T01:30:00-04:00", "2025-11-03T01:30:00-05:00", id="first pass, at the slot"),
        pytest.param("2025-11-02T01:10:00-05:00", "2025-11-03T01:30:00-05:00", id="second pass, before the slot"),
        pytest.param("2025-11-02T01:50:00-05:00", "2025-11-03T01:30:00-05:00", id="second pass, after the slot"),
    ],
)
def test_a_fixed_time_asked_for_from_within_the_overlap(instant: str, expected: str) -> None:
    assert Cron("30 1 * * *", "America/New_York").next_after(ms(instant)) == ms(expected)


@pytest.mark.parametrize(
    ("expression", "tz", "after", "expected"),
    [
        pytest.param(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2025-10-05T00:00:00+10:30",
            "2025-10-05T02:30:00+11:00",
            id="half an hour",
        ),
        pytest.param(
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2025-04-06T00:00:00+11:00",
            "2025-04-06T01:45:00+11:00",
            id="half back",
        ),
        pytest.param(
            "0 1 30 3 *", "Europe/London", "2025-03-29T00:00:00+00:00", "2025-03-30T02:00:00+01:00", id="London"
        ),
        pytest.param(
            "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00", id="at midnight"
        ),
        pytest.param(
            "30 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00-02:00", "2018-02-17T23:30:00-02:00", id="day twice"
        ),
        pytest.param(
            "0 9 30 12 *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", id="a day left out"
        ),
        pytest.param(
            "30 2 * * *",
            "Africa/Casablanca",
            "2023-04-23T00:00:00+00:00",
            "2023-04-23T03:00:00+01:00",
            id="Ramadan over",
        ),
        pytest.param(
            "0 3 * * *",
            "Pacific/Chatham",
            "2025-09-28T00:00:00+12:45",
            "2025-09-28T03:45:00+13:45",
            id="three quarters",
        ),
    ],
)
def test_changes_of_clocks_in_other_places(expression: str, tz: str, after: str, expected: str) -> None:
    assert shown(fires(Cron(expression, tz), after, 1), tz) == [expected]


def test_a_yearly_fire_on_the_day_of_the_gap_is_kept() -> None:
    found = shown(fires(Cron("30 2 9 3 *", "America/New_York"), "2024-12-01T00:00:00+00:00", 2), "America/New_York")
    assert found == ["2025-03-09T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]
