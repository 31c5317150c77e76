"""Events that one library writes and the other reads."""

from collections.abc import Callable
from typing import Any

import pytest

from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop


def told(events: list[Any]) -> list[tuple[str, str | None, str, dict[str, Any]]]:
    """Events without what differs from run to run."""
    varying = {"ts", "duration_us"}
    return [
        (each.name, each.job_id, each.job_name, {k: v for k, v in each.fields.items() if k not in varying})
        for each in events
    ]


def is_last(name: str) -> Callable[[Any], bool]:
    return lambda event: event.name == name


async def test_a_job_that_succeeds_is_told_to_the_other_side(giver: Side, taker: Side) -> None:
    job = await giver.queue().add("welcome", 1)
    async with giver.worker(Runs()):
        events = await taker.events_until(is_last("drained"))
    assert told(events) == [
        ("active", job.id, "welcome", {"attempt": 1}),
        ("completed", job.id, "welcome", {"attempt": 1}),
        ("drained", None, "", {}),
    ]


async def test_a_job_that_fails_and_dies_is_told_to_the_other_side(giver: Side, taker: Side) -> None:
    backoff = giver.module.BackoffSpec.fixed(1, jitter_ms=0)
    job = await giver.queue().add("doomed", 1, attempts=2, backoff=backoff)
    async with giver.worker(Runs(fail=lambda _: ValueError("no ñ"))):
        events = await taker.events_until(is_last("dlq"))
    ours = giver.module.__name__ == "relevo"
    reason = "ValueError: no ñ" if ours else "no ñ"  # ours names the type too
    # `waiting` is left out: theirs has no name and may come after `active`.
    heard = told([event for event in events if event.name not in ("waiting", "drained")])
    expected = [
        ("active", job.id, "doomed", {"attempt": 1}),
        ("failed", job.id, "doomed", {"attempt": 1, "reason": reason}),
        ("retry-scheduled", job.id, "doomed", {"attempt": 2, "backoff_ms": 1}),
        ("active", job.id, "doomed", {"attempt": 2}),
        ("failed", job.id, "doomed", {"attempt": 2, "reason": reason}),
        ("dlq", job.id, "doomed", {"attempt": 2, "reason": "retries_exhausted"}),
    ]
    # Theirs tells of the retry when the job is delayed already, and its next run may have begun by then.
    assert heard == expected if ours else sorted(heard, key=str) == sorted(expected, key=str)


async def test_a_promoted_job_is_told_to_the_other_side(giver: Side, taker: Side) -> None:
    job = await giver.queue().add("later", 1, delay_ms=20)
    async with giver.worker(Runs()):
        events = await taker.events_until(is_last("drained"))
    assert [event.job_id for event in events if event.name == "waiting"] == [job.id]


async def test_both_sides_read_the_same_from_one_stream(giver: Side, taker: Side) -> None:
    await giver.queue().add_bulk([{"name": name, "data": 1} for name in ("a", "", "ñ")])
    await giver.queue().add("later", 1, delay_ms=10, attempts=1)
    async with giver.worker(Runs(fail=lambda job: ValueError("late") if job.name == "later" else None)):
        theirs_read = await taker.events_until(is_last("dlq"))
    ours_read = await giver.events_until(is_last("dlq"))
    assert [(e.name, e.job_id, e.job_name, e.fields) for e in theirs_read] == [
        (e.name, e.job_id, e.job_name, e.fields) for e in ours_read
    ]


async def test_numbers_are_numbers_and_times_are_milliseconds(giver: Side, taker: Side) -> None:
    await giver.queue().add("welcome", 1)
    async with giver.worker(Runs()):
        events = await taker.events_until(is_last("completed"))
    fields = events[-1].fields
    assert list(fields) == ["ts", "attempt", "duration_us"]
    assert all(type(value) is int for value in fields.values())
    assert abs(fields["ts"] - events[0].fields["ts"]) < 60_000


async def test_events_newer_than_chasquimq_do_not_trouble_its_readers(
    ours: Side, theirs: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    """`stalled` is ours (and newer ChasquiMQ's): the shipped reader passes it on like any other."""
    runs = Runs()
    job = await ours.queue().add("abandoned", 1)
    redis86.call("XGROUP", "CREATE", keys.stream, "default", "0")
    redis86.call("XREADGROUP", "GROUP", "default", "dead", "STREAMS", keys.stream, ">")
    async with ours.worker(runs, claim_min_idle_ms=200):
        events = await theirs.events_until(is_last("completed"))
    assert ("stalled", job.id, "abandoned", {"attempt": 1, "prev": "active"}) in told(events)
