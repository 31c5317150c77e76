"""Jobs that one library adds and the other runs, in both directions: nothing of a job is lost or changed on the way."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.pace import limit
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop

DATA: list[Any] = [
    None,
    True,
    0,
    -1,
    2**64 - 1,
    -(2**63),
    0.1,
    "",
    "ñandú 🏃",
    b"\x00\xff",
    [],
    {},
    {"nested": [{"deep": [1, "two", 3.0, None]}]},
    "x" * 70_000,
]


async def test_an_immediate_job_arrives_as_it_was_added(giver: Side, taker: Side) -> None:
    runs = Runs()
    before = int(time.time() * 1000)
    async with taker.worker(runs):
        added = await giver.queue().add("welcome", {"to": "ada"})
        (job,) = await runs.until(1)
    assert (job.id, job.name, job.data, job.attempt) == (added.id, "welcome", {"to": "ada"}, 0)
    assert before <= job.created_at_ms <= int(time.time() * 1000)


@pytest.mark.parametrize("data", DATA, ids=lambda data: repr(data)[:30])
async def test_data_of_every_kind_arrives_unchanged(giver: Side, taker: Side, data: Any) -> None:
    runs = Runs()
    await giver.queue().add("data", data)
    async with taker.worker(runs):
        (job,) = await runs.until(1)
    assert job.data == data
    assert type(job.data) is type(data)


@pytest.mark.parametrize("name", ["", "a", "días:ß/🏃", "n" * 256, "nul\x00inside"])
@pytest.mark.parametrize("options", [{}, {"delay_ms": 20}, {"attempts": 3}], ids=["now", "later", "override"])
async def test_the_name_arrives_by_every_path(giver: Side, taker: Side, name: str, options: dict[str, Any]) -> None:
    runs = Runs()
    await giver.queue().add(name, 1, **options)
    async with taker.worker(runs):
        (job,) = await runs.until(1)
    assert job.name == name


async def test_a_bulk_arrives_whole_and_in_order(giver: Side, taker: Side) -> None:
    runs = Runs()
    added = await giver.queue().add_bulk([{"name": f"n{i}", "data": i} for i in range(500)])
    async with taker.worker(runs, concurrency=1):
        jobs = await runs.until(500)
    assert [(job.id, job.name, job.data) for job in jobs] == [(job.id, job.name, job.data) for job in added]


async def test_a_bulk_with_options_arrives_whole(giver: Side, taker: Side) -> None:
    runs = Runs()
    await giver.queue().add_bulk(
        [
            {"name": "now", "data": 1},
            {"name": "later", "data": 2, "delay_ms": 30},
            {"name": "by id", "data": 3, "job_id": "chosen"},
            {"name": "later by id", "data": 4, "job_id": "chosen later", "delay": timedelta(milliseconds=30)},
            {"name": "override", "data": 5, "attempts": 2, "backoff": {"kind": "fixed", "delay_ms": 1}},
        ]
    )
    async with taker.worker(runs):
        jobs = await runs.until(5)
    assert sorted((job.name, job.data) for job in jobs) == [
        ("by id", 3),
        ("later", 2),
        ("later by id", 4),
        ("now", 1),
        ("override", 5),
    ]
    assert {job.id for job in jobs if job.name.endswith("by id")} == {"chosen", "chosen later"}


@pytest.mark.parametrize("delay", ["milliseconds", "timedelta", "datetime"])
async def test_a_delayed_job_is_promoted_by_the_other_side_and_not_before_its_time(
    giver: Side, taker: Side, delay: str
) -> None:
    runs, arrived = Runs(), list[float]()
    due = time.time() + 0.4
    options: dict[str, Any] = {
        "milliseconds": {"delay_ms": 400},
        "timedelta": {"delay": timedelta(milliseconds=400)},
        "datetime": {"delay_ms": datetime.fromtimestamp(due, UTC)},
    }[delay]

    async def handle(job: Any) -> None:
        arrived.append(time.time())
        await runs(job)

    async with taker.worker(handle):
        added = await giver.queue().add("later", {"when": delay}, **options)
        (job,) = await runs.until(1)
    assert (job.id, job.data) == (added.id, {"when": delay})
    assert arrived[0] >= due - 0.002  # the datetime was cut to whole milliseconds


@pytest.mark.parametrize("delay_ms", [0, datetime(2001, 1, 1, tzinfo=UTC)])
async def test_a_delay_that_is_over_means_now(giver: Side, taker: Side, keys: QueueKeys, delay_ms: Any) -> None:
    runs = Runs()
    await giver.queue().add("now", 1, delay_ms=delay_ms)
    async with taker.worker(runs, delayed_enabled=False):
        await runs.until(1)


async def test_an_override_of_attempts_and_backoff_is_obeyed_by_the_other_side(giver: Side, taker: Side) -> None:
    runs = Runs(fail=lambda _: ValueError("always"))
    backoff = giver.module.BackoffSpec.fixed(1, jitter_ms=0)
    async with taker.worker(runs, max_attempts=1):
        await giver.queue().add("stubborn", 1, attempts=3, backoff=backoff)
        events = await taker.events_until(lambda event: event.name == "dlq")
    assert [job.attempt for job in runs.jobs] == [0, 1, 2]
    assert [event.fields["backoff_ms"] for event in events if event.name == "retry-scheduled"] == [1, 1]


async def test_an_exponential_override_grows_on_the_other_side(giver: Side, taker: Side) -> None:
    runs = Runs(fail=lambda _: ValueError("always"))
    backoff = giver.module.BackoffSpec.exponential(2, multiplier=3.0, max_ms=20, jitter_ms=0)
    async with taker.worker(runs):
        await giver.queue().add("stubborn", 1, attempts=5, backoff=backoff)
        events = await taker.events_until(lambda event: event.name == "dlq")
    assert [event.fields["backoff_ms"] for event in events if event.name == "retry-scheduled"] == [2, 6, 18, 20]


async def test_a_delayed_job_is_cancelled_by_the_other_side(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server
) -> None:
    await giver.queue().add_unique("later", 1, job_id="x", delay_ms=60_000)
    queue = taker.queue()
    assert await queue.cancel_delayed("x") is True
    assert await queue.cancel_delayed("x") is False
    assert redis86.call("EXISTS", keys.delayed, keys.once("x"), keys.member_of("x")) == 0


async def test_an_id_cancelled_by_the_other_side_can_be_added_again(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server
) -> None:
    queue = giver.queue()
    await queue.add_unique("later", 1, job_id="x", delay_ms=60_000)
    await taker.queue().cancel_delayed("x")
    await queue.add_unique("later", 2, job_id="x", delay_ms=60_000)
    assert redis86.call("ZCARD", keys.delayed) == 1


async def test_a_job_promoted_by_the_other_side_can_no_longer_be_cancelled(giver: Side, taker: Side) -> None:
    runs, queue = Runs(), giver.queue()
    await queue.add_unique("soon", 1, job_id="x", delay_ms=10)
    async with taker.worker(runs):
        await runs.until(1)
    assert await queue.cancel_delayed("x") is False


async def test_an_id_delayed_by_one_side_is_a_duplicate_on_the_other(
    giver: Side, taker: Side, keys: QueueKeys, redis86: Server
) -> None:
    first = await giver.queue().add_unique("later", "first", job_id="x", delay_ms=60_000)
    second = await taker.queue().add_unique("later", "second", job_id="x", delay_ms=60_000)
    assert (first.id, second.id) == ("x", "x")
    assert redis86.call("ZCARD", keys.delayed) == 1
    assert b"first" in redis86.call("ZRANGE", keys.delayed, 0, -1)[0]


async def test_an_id_we_added_at_once_is_a_duplicate_when_they_delay_it(
    ours: Side, theirs: Side, keys: QueueKeys, redis86: Server
) -> None:
    await ours.queue().add_unique("now", 1, job_id="x")
    await theirs.queue().add_unique("later", 1, job_id="x", delay_ms=60_000)
    assert (redis86.call("XLEN", keys.stream), redis86.call("ZCARD", keys.delayed)) == (1, 0)


async def test_an_id_they_delayed_is_a_duplicate_when_we_add_it_at_once(
    ours: Side, theirs: Side, keys: QueueKeys, redis86: Server
) -> None:
    await theirs.queue().add_unique("later", 1, job_id="x", delay_ms=60_000)
    await ours.queue().add_unique("now", 1, job_id="x")
    assert (redis86.call("XLEN", keys.stream), redis86.call("ZCARD", keys.delayed)) == (0, 1)


async def test_the_other_sides_worker_stores_a_result_that_the_producer_waits_for(giver: Side, taker: Side) -> None:
    async with taker.worker(Runs(lambda job: {"double": job.data * 2}), store_results=True):
        job = await giver.queue().add("double", 21)
        assert await job.wait_for_result(timeout=limit(20)) == {"double": 42}


async def test_results_of_the_other_sides_worker_are_read_one_by_one_and_in_bulk(giver: Side, taker: Side) -> None:
    queue = giver.queue()
    async with taker.worker(Runs(lambda job: [job.data]), store_results=True):
        jobs = await queue.add_bulk([{"name": "echo", "data": i} for i in range(3)])
        for job in jobs:
            await job.wait_for_result(timeout=limit(20))
    assert await queue.get_job_result(jobs[1].id) == [1]
    assert await queue.get_job_result_bulk([*(job.id for job in jobs), "nobody"]) == [[0], [1], [2], None]


async def test_many_waits_for_the_other_sides_results_all_end(giver: Side, taker: Side, until: Until) -> None:
    """Their workers tell of the end before they store the result: a wait must not take the news for the whole."""
    async with taker.worker(Runs(lambda job: job.data + 1), store_results=True):
        jobs = await giver.queue().add_bulk([{"name": "next", "data": i} for i in range(200)])
        assert [await job.wait_for_result(timeout=limit(20)) for job in jobs] == list(range(1, 201))
