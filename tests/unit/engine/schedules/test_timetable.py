"""Which fires are made now, what was missed, and when the next one is due."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevo.engine.schedules.cron import Cron
from relevo.engine.schedules.timetable import GRACE_MS, MOST_FIRES, Calendar, DueFires, Interval, Timetable, fire_id
from relevo.errors import BadArgument, BadCron, BadInterval, NeverFires, UnknownZone
from relevo.wire.repeat import CronPattern, EveryPattern, FireAll, MissedFires, Pattern, RepeatSpec

NOON = 1_772_539_200_000  # 2026-03-03 at 12:00 UTC
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
POLICIES: list[MissedFires] = ["Skip", "FireOnce", FireAll(100)]


def timetable(
    pattern: Pattern,
    *,
    limit: int | None = None,
    start_after_ms: int | None = None,
    end_before_ms: int | None = None,
    missed_fires: MissedFires = "Skip",
) -> Timetable:
    return Timetable.of(
        RepeatSpec("k", "j", pattern, b"\xc0", limit, start_after_ms, end_before_ms, missed_fires=missed_fires)
    )


def every(
    interval_ms: int,
    missed_fires: MissedFires = "Skip",
    *,
    limit: int | None = None,
    start_after_ms: int | None = None,
    end_before_ms: int | None = None,
) -> Timetable:
    return timetable(
        EveryPattern(interval_ms),
        limit=limit,
        start_after_ms=start_after_ms,
        end_before_ms=end_before_ms,
        missed_fires=missed_fires,
    )


def run(schedule: Timetable, start: int, *, tick: int, until: int, fired: int = 0) -> list[int]:
    """All that fires when a scheduler looks every `tick` ms, from the upsert at `start` on."""
    score: int | None = schedule.first_fire(start)
    found: list[int] = []
    for now in range(start, until, tick):
        if score is None:
            break
        turn = schedule.due_fires(fire_at_ms=score, now_ms=now, fired=fired + len(found))
        found.extend(turn.fires)
        score = turn.next_ms
    return found


# --- the first fire -----------------------------------------------------------------------------------------------


def test_an_interval_first_fires_one_interval_after_the_upsert() -> None:
    assert every(MINUTE).first_fire(NOON) == NOON + MINUTE


def test_an_interval_with_a_later_start_first_fires_one_interval_after_it() -> None:
    assert every(MINUTE, start_after_ms=NOON + DAY).first_fire(NOON) == NOON + DAY + MINUTE


def test_a_start_in_the_past_changes_nothing() -> None:
    assert every(MINUTE, start_after_ms=NOON - DAY).first_fire(NOON) == NOON + MINUTE


def test_a_cron_first_fires_at_the_whole_minute_whatever_the_millisecond_of_the_upsert() -> None:
    assert timetable(CronPattern("* * * * *")).first_fire(NOON + 653) == NOON + MINUTE


def test_a_start_on_a_fire_leaves_that_fire_out() -> None:
    assert timetable(CronPattern("0 * * * *"), start_after_ms=NOON + HOUR).first_fire(NOON) == NOON + 2 * HOUR


def test_an_end_on_the_first_fire_keeps_it() -> None:
    assert every(MINUTE, end_before_ms=NOON + MINUTE).first_fire(NOON) == NOON + MINUTE


def test_an_end_before_the_first_fire_is_refused() -> None:
    with pytest.raises(NeverFires, match=f"end_before_ms={NOON + MINUTE - 1}"):
        every(MINUTE, end_before_ms=NOON + MINUTE - 1).first_fire(NOON)


def test_a_year_that_is_over_is_refused() -> None:
    with pytest.raises(NeverFires, match="in the past"):
        timetable(CronPattern("0 0 0 1 1 * 2020")).first_fire(NOON)


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        (CronPattern("61 * * * *"), BadCron),
        (CronPattern("0 0 30 2 *"), BadCron),
        (CronPattern("* * * * *", "Mars/Phobos"), UnknownZone),
        (EveryPattern(0), BadInterval),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern: Pattern, error: type[Exception]) -> None:
    with pytest.raises(error):
        timetable(pattern)


@pytest.mark.parametrize("argument", ["limit", "start_after_ms", "end_before_ms"])
def test_a_negative_bound_is_refused_by_name(argument: str) -> None:
    spec = RepeatSpec("k", "j", EveryPattern(1), b"", **{argument: -1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadArgument, match=f"{argument}=-1"):
        Timetable.of(spec)


# --- on time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fire_that_is_due_is_made_and_the_next_one_keeps_the_interval(policy: MissedFires) -> None:
    turn = every(MINUTE, policy).due_fires(fire_at_ms=NOON, now_ms=NOON + 700, fired=0)
    assert turn == DueFires((NOON,), NOON + MINUTE)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fire_is_due_at_its_very_millisecond(policy: MissedFires) -> None:
    assert every(MINUTE, policy).due_fires(fire_at_ms=NOON, now_ms=NOON, fired=0) == DueFires((NOON,), NOON + MINUTE)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fire_to_come_is_left_alone(policy: MissedFires) -> None:
    assert every(MINUTE, policy).due_fires(fire_at_ms=NOON + 1, now_ms=NOON, fired=0) == DueFires((), NOON + 1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("interval", [1, 50, 200, 999, 1000, 1001, 1500])
@pytest.mark.parametrize("tick", [1000, 1013])
def test_an_interval_below_or_near_the_tick_makes_every_fire(interval: int, tick: int, policy: MissedFires) -> None:
    found = run(every(interval, policy), NOON, tick=tick, until=NOON + 20_000)
    assert found == list(range(NOON + interval, found[-1] + 1, interval))
    assert found[-1] > NOON + 20_000 - tick - interval - 1000


@pytest.mark.parametrize("policy", POLICIES)
def test_a_cron_of_seconds_fires_every_second_at_a_slow_tick(policy: MissedFires) -> None:
    schedule = timetable(CronPattern("* * * * * *"), missed_fires=policy)
    found = run(schedule, NOON + 653, tick=3000, until=NOON + 30_653)
    assert found == list(range(NOON + 1000, NOON + 28_000, 1000))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_hand_over_from_a_dead_leader_costs_no_fire(policy: MissedFires) -> None:
    turn = every(1000, policy).due_fires(fire_at_ms=NOON, now_ms=NOON + 6_500, fired=0)
    assert turn == DueFires(tuple(range(NOON, NOON + 6_001, 1000)), NOON + 7_000)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fire_that_nothing_has_followed_yet_is_late_not_missed(policy: MissedFires) -> None:
    schedule = timetable(CronPattern("@daily"), missed_fires=policy)
    midnight = NOON - 12 * HOUR
    assert schedule.due_fires(fire_at_ms=midnight, now_ms=NOON, fired=0) == DueFires((midnight,), midnight + DAY)


def test_a_score_with_milliseconds_that_another_engine_wrote_fires_and_is_mended() -> None:
    turn = timetable(CronPattern("* * * * *")).due_fires(fire_at_ms=NOON + 653, now_ms=NOON + 900, fired=0)
    assert turn == DueFires((NOON + 653,), NOON + MINUTE)


# --- missed -------------------------------------------------------------------------------------------------------


def test_skip_leaves_out_what_was_missed() -> None:
    turn = every(MINUTE).due_fires(fire_at_ms=NOON, now_ms=NOON + 5 * MINUTE + 30_000, fired=0)
    assert turn == DueFires((), NOON + 6 * MINUTE, missed=True)


def test_skip_makes_the_latest_fire_when_that_one_is_on_time() -> None:
    turn = timetable(CronPattern("@daily")).due_fires(fire_at_ms=0, now_ms=10 * DAY + 800, fired=0)
    assert turn == DueFires((10 * DAY,), 11 * DAY, missed=True)


@pytest.mark.parametrize(("late", "fires"), [(GRACE_MS, 1), (GRACE_MS + 1, 0)])
def test_skip_counts_a_fire_as_on_time_within_the_grace(late: int, fires: int) -> None:
    turn = every(MINUTE).due_fires(fire_at_ms=NOON, now_ms=NOON + 5 * MINUTE + late, fired=0)
    assert len(turn.fires) == fires


def test_a_longer_grace_forgives_more() -> None:
    turn = every(MINUTE).due_fires(fire_at_ms=NOON, now_ms=NOON + 2 * MINUTE + 1, fired=0, grace_ms=3 * MINUTE)
    assert turn == DueFires((NOON, NOON + MINUTE, NOON + 2 * MINUTE), NOON + 3 * MINUTE)


@pytest.mark.parametrize("late", [1, 30_000])
def test_fire_once_stands_for_all_that_was_missed(late: int) -> None:
    turn = every(MINUTE, "FireOnce").due_fires(fire_at_ms=NOON, now_ms=NOON + 50 * MINUTE + late, fired=0)
    assert turn == DueFires((NOON,), NOON + 51 * MINUTE, missed=True)


def test_fire_all_makes_each_missed_fire_in_order() -> None:
    turn = every(MINUTE, FireAll(10)).due_fires(fire_at_ms=NOON, now_ms=NOON + 3 * MINUTE + 30_000, fired=0)
    assert turn == DueFires(tuple(NOON + n * MINUTE for n in range(4)), NOON + 4 * MINUTE, missed=True)


def test_fire_all_fires_the_latest_when_more_were_missed_than_it_may() -> None:
    turn = every(MINUTE, FireAll(3)).due_fires(fire_at_ms=NOON, now_ms=NOON + 50 * MINUTE + 30_000, fired=0)
    assert turn.fires == (NOON + 48 * MINUTE, NOON + 49 * MINUTE, NOON + 50 * MINUTE)
    assert turn.next_ms == NOON + 51 * MINUTE


def test_fire_all_of_none_as_another_engine_may_write_it_fires_none() -> None:
    turn = timetable(CronPattern("* * * * *"), missed_fires=FireAll(0)).due_fires(
        fire_at_ms=NOON, now_ms=NOON + HOUR, fired=0
    )
    assert turn == DueFires((), NOON + HOUR + MINUTE, missed=True)


@pytest.mark.parametrize("pattern", [EveryPattern(1000), CronPattern("* * * * * *")])
def test_a_tick_never_fires_more_than_its_hard_cap(pattern: Pattern) -> None:
    turn = timetable(pattern, missed_fires=FireAll(2**32 - 1)).due_fires(fire_at_ms=NOON, now_ms=NOON + DAY, fired=0)
    assert len(turn.fires) == MOST_FIRES
    assert turn.fires[-1] == NOON + DAY
    assert turn.next_ms == NOON + DAY + 1000


@pytest.mark.parametrize("policy", ["Skip", "FireOnce", FireAll(5)])
def test_years_of_missed_fires_are_passed_over_at_once(policy: MissedFires) -> None:
    schedule = timetable(CronPattern("* * * * * *", "America/New_York"), missed_fires=policy)
    turn = schedule.due_fires(fire_at_ms=NOON - 3000 * DAY, now_ms=NOON + 500, fired=0)
    assert turn.next_ms == NOON + 1000
    if isinstance(policy, FireAll):
        assert turn.fires == tuple(range(NOON - 4000, NOON + 1, 1000))


def test_fire_all_replays_both_passes_of_an_autumn_overlap() -> None:
    schedule = timetable(CronPattern("0 * * * *", "America/New_York"), missed_fires=FireAll(100))
    midnight = round(datetime.fromisoformat("2025-11-02T00:00:00-04:00").timestamp() * 1000)
    turn = schedule.due_fires(fire_at_ms=midnight, now_ms=midnight + 4 * HOUR + 30 * MINUTE, fired=0)
    assert turn.fires == tuple(midnight + n * HOUR for n in range(5))


@pytest.mark.parametrize("late", [0, 1, 17_000, 59_999, MINUTE, 90 * MINUTE])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_interval_keeps_its_anchor_however_late_it_is_looked_at(late: int, policy: MissedFires) -> None:
    turn = every(MINUTE, policy).due_fires(fire_at_ms=NOON + 123, now_ms=NOON + 123 + late, fired=0)
    assert turn.next_ms is not None
    assert (turn.next_ms - NOON - 123) % MINUTE == 0
    assert turn.next_ms > NOON + 123 + late


# --- limit, start and end -----------------------------------------------------------------------------------------


def test_the_last_fire_of_a_limit_ends_the_schedule() -> None:
    assert every(MINUTE, limit=3).due_fires(fire_at_ms=NOON, now_ms=NOON, fired=2) == DueFires((NOON,), None)


def test_a_limit_that_is_used_up_ends_the_schedule_without_a_fire() -> None:
    assert every(MINUTE, limit=3).due_fires(fire_at_ms=NOON, now_ms=NOON, fired=3) == DueFires((), None)


def test_a_limit_of_zero_is_no_limit() -> None:
    assert every(MINUTE, limit=0).due_fires(fire_at_ms=NOON, now_ms=NOON, fired=10**6) == DueFires(
        (NOON,), NOON + MINUTE
    )


def test_a_limit_cuts_a_catch_up() -> None:
    turn = every(MINUTE, FireAll(100), limit=5).due_fires(fire_at_ms=NOON, now_ms=NOON + HOUR, fired=3)
    assert turn == DueFires((NOON, NOON + MINUTE), None, missed=True)


def test_a_limit_is_not_used_by_fires_that_were_skipped() -> None:
    turn = every(HOUR, limit=1).due_fires(fire_at_ms=NOON, now_ms=NOON + 10 * HOUR + MINUTE, fired=0)
    assert turn == DueFires((), NOON + 11 * HOUR, missed=True)


@pytest.mark.parametrize("limit", [1, 2, 7])
@pytest.mark.parametrize("tick", [1000, 2500])
def test_a_limit_is_exact(limit: int, tick: int) -> None:
    assert len(run(every(400, limit=limit), NOON, tick=tick, until=NOON + 60_000)) == limit


def test_the_last_fire_before_the_end_ends_the_schedule() -> None:
    schedule = every(MINUTE, end_before_ms=NOON + MINUTE - 1)
    assert schedule.due_fires(fire_at_ms=NOON, now_ms=NOON, fired=0) == DueFires((NOON,), None)


def test_a_fire_at_the_end_is_still_made() -> None:
    schedule = every(MINUTE, end_before_ms=NOON + MINUTE)
    assert schedule.due_fires(fire_at_ms=NOON, now_ms=NOON, fired=0) == DueFires((NOON,), NOON + MINUTE)
    assert schedule.due_fires(fire_at_ms=NOON + MINUTE, now_ms=NOON + MINUTE, fired=1) == DueFires(
        (NOON + MINUTE,), None
    )


def test_no_fire_after_the_end_is_caught_up() -> None:
    schedule = every(MINUTE, FireAll(100), end_before_ms=NOON + 2 * MINUTE)
    turn = schedule.due_fires(fire_at_ms=NOON, now_ms=NOON + HOUR, fired=0)
    assert turn == DueFires((NOON, NOON + MINUTE, NOON + 2 * MINUTE), None, missed=True)


def test_a_score_after_the_end_ends_the_schedule_without_a_fire() -> None:
    schedule = every(MINUTE, end_before_ms=NOON - 1)
    assert schedule.due_fires(fire_at_ms=NOON, now_ms=NOON, fired=0) == DueFires((), None)


def test_the_last_year_ends_the_schedule() -> None:
    schedule = timetable(CronPattern("0 0 12 3 3 * 2026"))
    assert schedule.due_fires(fire_at_ms=NOON, now_ms=NOON + DAY, fired=0) == DueFires((NOON,), None)


def test_a_score_before_the_start_waits_for_the_start() -> None:
    schedule = every(MINUTE, start_after_ms=NOON + DAY)
    assert schedule.due_fires(fire_at_ms=NOON, now_ms=NOON, fired=0) == DueFires((), NOON + DAY + MINUTE)


# --- the rows of fires --------------------------------------------------------------------------------------------


@given(
    fire=st.integers(0, 10**6),
    late=st.integers(0, 10**5),
    interval=st.integers(1, 5_000),
    count=st.integers(0, 50),
)
def test_the_latest_fires_of_an_interval_are_the_last_of_all(fire: int, late: int, interval: int, count: int) -> None:
    all_due = list(range(fire, fire + late + 1, interval))
    assert Interval(interval).latest(fire, fire + late, count) == all_due[max(len(all_due) - count, 0) :]


@given(
    expression=st.sampled_from(["* * * * * *", "*/7 * * * * *", "* * 3 * * *", "0 */7 * * * *", "10,20 0 * * * *"]),
    late=st.integers(0, 3 * HOUR),
    count=st.integers(0, 30),
)
def test_the_latest_fires_of_a_calendar_are_the_last_of_all(expression: str, late: int, count: int) -> None:
    cron = Cron(expression)
    first = cron.next_after(NOON + 14 * HOUR)
    assert first is not None
    until = first + late
    all_due = [first]
    while (following := cron.next_after(all_due[-1])) is not None and following <= until:
        all_due.append(following)
    assert Calendar(cron).latest(first, until, count) == all_due[max(len(all_due) - count, 0) :]


# --- ids ----------------------------------------------------------------------------------------------------------


def test_the_id_of_a_fire_is_the_same_whoever_makes_it() -> None:
    assert fire_id("ping::every:60000", NOON) == fire_id("ping::every:60000", NOON)


def test_the_id_of_a_fire_looks_like_any_job_id() -> None:
    made = fire_id("weekly-report::cron:0 9 * * 1:Europe/Madrid", NOON)
    assert len(made) == 26
    assert set(made) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(0, 2**48 - 1)), unique=True, max_size=50))
def test_two_fires_never_share_an_id(fires: list[tuple[str, int]]) -> None:
    assert len({fire_id(key, at) for key, at in fires}) == len(fires)


@given(st.integers(0, 2**48 - 2))
def test_ids_sort_by_their_fires(at: int) -> None:
    assert fire_id("k", at) < fire_id("k", at + 1)
