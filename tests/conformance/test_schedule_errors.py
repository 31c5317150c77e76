"""What a schedule's owner may write wrong: each mistake has an error that names the value and the remedy."""

from typing import Any

import pytest

from relevo import MissedFiresPolicy, NotSupportedError, Queue, RepeatPattern
from relevo.errors import (
    BadArgument,
    BadCron,
    BadInterval,
    NameTooLong,
    NeverFires,
    NotEncodable,
    PayloadTooLarge,
    UnknownZone,
    WrongType,
)
from tests.conformance.conftest import QueueOf

EVERY = RepeatPattern.every(60_000)

pytestmark = pytest.mark.refusal


@pytest.mark.parametrize(
    ("repeat", "error", "says"),
    [
        (RepeatPattern.cron("0 0 30 2 *"), BadCron, "'0 0 30 2 \\*'.*no date is ever matched"),
        (RepeatPattern.cron("0 0 * *"), BadCron, "'0 0 \\* \\*'"),
        (RepeatPattern.cron("60 * * * *"), BadCron, "60"),
        (RepeatPattern.cron(""), BadCron, "''"),
        (RepeatPattern.cron("0 0 0 1 1 * 2001"), NeverFires, "in the past"),
        (RepeatPattern.cron("* * * * *", tz="Mars/Olympus"), UnknownZone, "Mars/Olympus"),
        (RepeatPattern.every(0), BadInterval, "of 0 ms"),
        (RepeatPattern.every(-5), BadInterval, "of -5 ms"),
        (RepeatPattern.every(10**15), BadInterval, "of 1000000000000000 ms"),
        ({"kind": "every", "interval_ms": 1.5}, BadInterval, "of 1.5 ms"),
        ({"kind": "weekly"}, BadArgument, "'weekly'.*'cron' or 'every'"),
        ({"kind": "cron"}, BadArgument, "no 'expression'"),
        ("0 9 * * *", WrongType, "RepeatPattern.cron"),
    ],
)
async def test_a_pattern_that_cannot_be_used_is_refused(
    queue: Queue, repeat: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await queue.upsert_repeatable_job("ping", None, repeat=repeat)
    assert await queue.get_repeatable_jobs() == []


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"limit": -1}, BadArgument, "limit=-1"),
        ({"limit": 2.5}, WrongType, "limit=2.5"),
        ({"limit": True}, WrongType, "limit=True"),
        ({"start_after_ms": -1}, BadArgument, "start_after_ms=-1"),
        ({"end_before_ms": "tomorrow"}, WrongType, "end_before_ms='tomorrow'"),
        ({"end_before_ms": 2**60}, BadArgument, "end_before_ms=1152921504606846976"),
        ({"key": " "}, BadArgument, "key=' '.*blank"),
        ({"key": 5}, WrongType, "key=5"),
        ({"key": "\ud800"}, BadArgument, "not UTF-8"),
        ({"attempts": -1}, BadArgument, "attempts=-1"),
        ({"missed_fires": {"kind": "fire-all"}}, BadArgument, "max_catchup"),
        ({"missed_fires": {"kind": "fire-some"}}, BadArgument, "'fire-some'"),
        ({"missed_fires": MissedFiresPolicy("fire-all", 0)}, BadArgument, "max_catchup=0"),
    ],
)
async def test_an_option_that_cannot_be_used_is_refused(
    queue: Queue, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await queue.upsert_repeatable_job("ping", None, repeat=EVERY, **options)
    assert await queue.get_repeatable_jobs() == []


async def test_a_name_over_256_bytes_is_refused(queue: Queue) -> None:
    with pytest.raises(NameTooLong, match="257 bytes, the limit is 256"):
        await queue.upsert_repeatable_job("é" + "n" * 255, None, repeat=EVERY)


async def test_data_that_is_no_msgpack_is_refused(queue: Queue) -> None:
    with pytest.raises(NotEncodable, match="'ping'"):
        await queue.upsert_repeatable_job("ping", {1, 2}, repeat=EVERY)


async def test_data_over_the_payload_limit_is_refused_before_every_fire_of_it_is(queue_of: QueueOf) -> None:
    with pytest.raises(PayloadTooLarge, match="the limit is 100"):
        await queue_of(max_payload_bytes=100).upsert_repeatable_job("ping", "x" * 200, repeat=EVERY)


async def test_a_job_id_for_a_schedule_is_refused(queue: Queue) -> None:
    with pytest.raises(NotSupportedError, match="`key`"):
        await queue.upsert_repeatable_job("ping", None, repeat=EVERY, job_id="mine")


async def test_a_delay_for_a_schedule_is_refused(queue: Queue) -> None:
    with pytest.raises(BadArgument, match="start_after_ms"):
        await queue.add("ping", None, repeat=EVERY, delay_ms=5)


async def test_a_policy_without_a_schedule_is_refused(queue: Queue) -> None:
    with pytest.raises(BadArgument, match="`repeat`"):
        await queue.add("ping", None, missed_fires=MissedFiresPolicy.skip())
