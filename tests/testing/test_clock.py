"""The clock: what waits for a time comes due by turning it."""

from datetime import UTC, datetime, timedelta

import pytest

from relevo import Dedup, Job, Queue, RepeatPattern
from relevo.errors import BadArgument
from relevo.testing import Clock, assert_enqueued, drain


async def echo(job: Job) -> object:
    return job.data


async def test_a_delayed_job_is_due_after_its_delay_and_not_before(relevo_queue: Queue, relevo_clock: Clock) -> None:
    await relevo_queue.add("later", 1, delay=timedelta(hours=1))
    await relevo_clock.turn(timedelta(minutes=59))
    assert await drain(relevo_queue, echo) == []
    await relevo_clock.turn(timedelta(minutes=1))
    assert len(await drain(relevo_queue, echo)) == 1


async def test_the_clock_tells_the_turned_time(relevo_queue: Queue, relevo_clock: Clock) -> None:
    await relevo_clock.turn_to(datetime.now(UTC) + timedelta(days=10))
    assert relevo_clock.now() - datetime.now(UTC) == pytest.approx(timedelta(days=10), abs=timedelta(seconds=5))


async def test_every_slot_of_a_schedule_on_the_way_is_fired(relevo_queue: Queue, relevo_clock: Clock) -> None:
    await relevo_queue.upsert_repeatable_job("report", {}, repeat=RepeatPattern.cron("0 9 * * *", tz="Europe/Madrid"))
    assert await relevo_clock.turn(timedelta(days=3)) == 3
    assert len(await drain(relevo_queue, echo)) == 3
    assert await relevo_clock.turn(timedelta(days=4)) == 4, "it goes on from the turned time"
    ran = await drain(relevo_queue, echo)
    assert len({run.job.id for run in ran}) == 4


async def test_a_schedule_ends_where_its_limit_says(relevo_queue: Queue, relevo_clock: Clock) -> None:
    await relevo_queue.upsert_repeatable_job("ping", {}, repeat=RepeatPattern.every(60_000), limit=5)
    assert await relevo_clock.turn(timedelta(minutes=3)) == 3
    assert await relevo_clock.turn(timedelta(hours=1)) == 2
    assert await relevo_queue.get_repeatable_jobs() == []


async def test_what_is_due_earlier_runs_earlier(relevo_queue: Queue, relevo_clock: Clock) -> None:
    await relevo_queue.upsert_repeatable_job("ping", "ping", repeat=RepeatPattern.every(60_000), limit=2)
    await relevo_queue.add("between", "between", delay=timedelta(seconds=90))
    await relevo_clock.turn(timedelta(minutes=5))
    assert [run.value for run in await drain(relevo_queue, echo)] == ["ping", "between", "ping"]


async def test_throttles_and_ids_are_forgotten_when_their_time_has_passed(
    relevo_queue: Queue, relevo_clock: Clock
) -> None:
    async def add() -> None:
        await relevo_queue.add("reindex", 1, dedup=Dedup.throttle("reindex", timedelta(hours=1)))
        await relevo_queue.add("order", 2, job_id="order-17")

    await add()
    await add()
    await assert_enqueued(relevo_queue, count=2)
    await relevo_clock.turn(timedelta(minutes=61))
    await add()
    await assert_enqueued(relevo_queue, count=4)


async def test_a_turn_to_the_next_job_goes_no_further(relevo_queue: Queue, relevo_clock: Clock) -> None:
    await relevo_queue.add("first", 1, delay=timedelta(days=1))
    await relevo_queue.add("second", 2, delay=timedelta(days=2))
    assert await relevo_clock.turn_to_next()
    assert [run.job.name for run in await drain(relevo_queue, echo)] == ["first"]


async def test_time_goes_forward_and_not_for_ever(relevo_queue: Queue, relevo_clock: Clock) -> None:
    with pytest.raises(BadArgument, match="time goes forward"):
        await relevo_clock.turn(-1)
    await relevo_queue.upsert_repeatable_job("ping", {}, repeat=RepeatPattern.every(1))
    with pytest.raises(BadArgument, match="more than 10000 times"):
        await relevo_clock.turn(timedelta(days=1))
