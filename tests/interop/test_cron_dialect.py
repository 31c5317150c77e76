"""One cron dialect: an expression means the same instants to both libraries, or neither takes it."""

import pytest

from tests.support.cron_expressions import CALENDARS, DIALECT, samples
from tests.support.side import Side

pytestmark = pytest.mark.interop

START = 2_208_988_800_000  # 2040-01-01: both begin to look at the later of this and now
ODD = [
    *(
        "0 0 0 1 1 * 2041-2043",
        "0 0 0 1 1 * */4",
        "0 0 0 1 1 * 2042/5",
        "0 0 1,,2 * *",
        "0 0 L,15W * *",
        "0 0 ?/2 * MON",
    ),
    *("0 0 * * FRI-SUN", "0 0 * * MON-WED#2", "0 0 * * MON#L", "0 0 13 * +FRI", "0 0 1-31 * MON", "0 0 */2 * MON"),
    *("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly", "@DAILY"),
]
REFUSED = [
    *(
        "",
        "* * * *",
        "60 * * * *",
        "0 22-2 * * *",
        "*/0 * * * *",
        "1,* * * * *",
        "? * * * *",
        "H * * * *",
        "+5 * * * *",
    ),
    *("0 0 LW * *", "0 0 L-3 * *", "0 0 * * 1#6", "0 0 * * 1-3L", "0 0 * * L", "0 0 30 2 *", "0 0 0 29 2 * 2041"),
    *("0 0 * JANUARY *", "0 0 * * SAT-MON", "0 0 0 1 1 * 5001", "@reboot", "@every 5m"),
]


async def first_fire(side: Side, expression: str, tz: str | None) -> int:
    queue = side.queue()
    repeat = side.module.RepeatPattern.cron(expression, tz=tz)
    job = await queue.upsert_repeatable_job("j", None, repeat=repeat, start_after_ms=START)
    [listed] = [meta for meta in await queue.get_repeatable_jobs(limit=1000) if meta.key == job.id]
    await queue.remove_repeatable_by_key(job.id)
    return listed.next_fire_ms


@pytest.mark.parametrize("tz", [None, "+05:30", "-0800"])
async def test_expressions_of_all_kinds_first_fire_at_the_same_instant(
    theirs: Side, ours: Side, tz: str | None
) -> None:
    drawn = {expression.text for expression in samples(DIALECT, 60) + samples(CALENDARS, 40)}
    for expression in [*sorted(drawn), *ODD]:
        try:
            expected = await first_fire(theirs, expression, tz)
        except RuntimeError:  # a date that never comes
            with pytest.raises(RuntimeError):
                await first_fire(ours, expression, tz)
        else:
            assert (expression, await first_fire(ours, expression, tz)) == (expression, expected)


@pytest.mark.parametrize("expression", REFUSED)
async def test_what_one_refuses_the_other_refuses(side: Side, expression: str) -> None:
    with pytest.raises(RuntimeError):
        await first_fire(side, expression, None)


@pytest.mark.parametrize("tz", ["Mars/Phobos", "+24:00", "+05", "UTC+5", "localtime"])
async def test_a_zone_that_one_refuses_the_other_refuses(side: Side, tz: str) -> None:
    with pytest.raises(RuntimeError):
        await first_fire(side, "0 0 * * *", tz)
