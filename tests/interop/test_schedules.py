"""Schedules that one library makes and the other keeps, and the bytes they are made of."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from relevo.wire.keys import QueueKeys
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop

UPSERTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "every": lambda m: {"repeat": m.RepeatPattern.every(86_400_000)},
    "cron": lambda m: {"repeat": m.RepeatPattern.cron("30 8 * * MON-FRI")},
    "cron in a zone": lambda m: {"repeat": m.RepeatPattern.cron("0 0 9 * * *", tz="America/New_York")},
    "limited": lambda m: {"repeat": m.RepeatPattern.every(86_400_000), "limit": 3},
    "bounded": lambda m: {
        "repeat": m.RepeatPattern.every(86_400_000),
        "start_after_ms": 4_000_000_000_000,
        "end_before_ms": 5_000_000_000_000,
    },
    "skip": lambda m: {"repeat": m.RepeatPattern.every(86_400_000), "missed_fires": m.MissedFiresPolicy.skip()},
    "fire once": lambda m: {"repeat": m.RepeatPattern.every(86_400_000), "missed_fires": {"kind": "fire-once"}},
    "fire all": lambda m: {
        "repeat": m.RepeatPattern.every(86_400_000),
        "missed_fires": m.MissedFiresPolicy.fire_all(300),
    },
}


@pytest.mark.parametrize("upsert", UPSERTS)
async def test_the_same_upsert_leaves_the_same_bytes(
    theirs: Side, ours: Side, keys: QueueKeys, redis86: Server, upsert: str
) -> None:
    seen: list[tuple[bytes, list[bytes]]] = []
    for side in (theirs, ours):
        job = await side.queue().upsert_repeatable_job("días", {"x": [1, b"\xff"]}, **UPSERTS[upsert](side.module))
        (key,) = redis86.call("ZRANGE", keys.repeat, 0, -1)
        assert key.decode() == job.id
        (spec_key,) = redis86.call("KEYS", "*:repeat:spec:*")
        seen.append((spec_key, redis86.call("HGETALL", spec_key)))
        redis86.call("FLUSHDB")
    assert seen[0] == seen[1]


@pytest.mark.parametrize("upsert", UPSERTS)
async def test_a_schedule_of_one_side_is_listed_and_removed_by_the_other(
    giver: Side, taker: Side, upsert: str, redis86: Server
) -> None:
    job = await giver.queue().upsert_repeatable_job("n", 1, **UPSERTS[upsert](giver.module))
    (listed,) = await taker.queue().get_repeatable_jobs()
    (meant,) = await giver.queue().get_repeatable_jobs()
    for attribute in ("key", "job_name", "next_fire_ms", "limit", "start_after_ms", "end_before_ms"):
        assert getattr(listed, attribute) == getattr(meant, attribute)
    assert listed.pattern.to_dict() == meant.pattern.to_dict()
    assert (listed.missed_fires and listed.missed_fires.to_dict()) == (
        meant.missed_fires and meant.missed_fires.to_dict()
    )
    assert await taker.queue().remove_repeatable_by_key(job.id) is True
    assert redis86.call("KEYS", "*:repeat*") == []


async def test_a_schedule_of_one_side_is_fired_by_the_other_up_to_its_limit(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server
) -> None:
    runs = Runs()
    pattern = giver.module.RepeatPattern.every(150)
    await giver.queue().upsert_repeatable_job("tick", {"x": 1}, repeat=pattern, limit=3)
    async with taker.worker(runs, scheduler_tick_ms=20):
        jobs = await runs.until(3)
    assert [(job.name, job.data, job.attempt) for job in jobs] == [("tick", {"x": 1}, 0)] * 3
    assert redis86.call("EXISTS", keys.repeat) == 0


async def test_schedulers_of_both_sides_fire_each_slot_once(theirs: Side, ours: Side, redis86: Server) -> None:
    runs = Runs()
    for side in (theirs, ours):
        pattern = side.module.RepeatPattern.every(100)
        await side.queue().upsert_repeatable_job(side.name, 1, repeat=pattern, limit=8)
    async with (
        theirs.worker(runs, scheduler_tick_ms=20),
        ours.worker(runs, scheduler_tick_ms=20),
        theirs.worker(runs, scheduler_tick_ms=20),
        ours.worker(runs, scheduler_tick_ms=20),
    ):
        await runs.until(16)
    assert Counter(runs.names) == {"chasquimq": 8, "relevo": 8}
    assert redis86.call("KEYS", "*:repeat*") == []


async def test_a_fired_job_has_the_bytes_of_an_added_one(side: Side) -> None:
    queue, pattern = side.queue(), side.module.RepeatPattern.every(100)
    await queue.upsert_repeatable_job("tick", {"x": 1}, repeat=pattern, limit=1)
    async with side.worker(Runs(fail=lambda _: side.module.UnrecoverableError("kept")), scheduler_tick_ms=20):
        events = await side.events_until(lambda event: event.name == "dlq")
    (letter,) = await queue.peek_dlq()
    job_id, payload, created_at, attempt = msgpack.unpackb(letter["payload"])
    assert (job_id, payload, attempt) == (events[-1].job_id, msgpack.packb({"x": 1}), 0)
    assert len(job_id) == 26
    assert abs(created_at - events[-1].fields["ts"]) < 60_000
