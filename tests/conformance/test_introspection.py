from typing import Any

import pytest

from relevo import Job, Queue, UnrecoverableError
from relevo.engine.admin.job_pages import JobPage
from relevo.errors import BadArgument
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs

HOUR_MS = 3_600_000


def numbers(count: int, **options: Any) -> list[dict[str, Any]]:
    return [{"name": "job", "data": number, **options} for number in range(count)]


async def dead(queue: Queue, worker_of: WorkerOf, *jobs: str) -> list[Job]:
    """Jobs that were dead-lettered."""
    async with worker_of(Runs(fail=lambda _: UnrecoverableError("no"))) as worker:
        added = [await queue.add(name, name) for name in jobs]
        await worker.until(dead=len(jobs))
    return added


async def all_pages(queue: Queue, state: str, limit: int) -> list[JobPage]:
    pages = [await queue.get_jobs_page(state, limit=limit)]
    while pages[-1].cursor is not None:
        pages.append(await queue.get_jobs_page(state, limit=limit, cursor=pages[-1].cursor))
    return pages


# --- numbers ----------------------------------------------------------------------------------------------------------


async def test_an_unused_queue_counts_nothing(queue: Queue) -> None:
    counts = {"waiting": 0, "active": 0, "delayed": 0, "completed": 0, "failed": 0, "paused": 0}
    assert await queue.get_job_counts() == counts
    assert (await queue.stats()).as_dict() | {"queue": ""} == {
        "queue": "",
        "group": "default",
        "group_exists": False,
        "stream": 0,
        "pending": 0,
        "handed_back": 0,
        "consumers": 0,
        "dead": 0,
        "delayed": 0,
        "overdue_ms": None,
        "next_due_ms": None,
        "repeatable": 0,
        "oldest_waiting_ms": None,
        "due": 0,
        "paused": False,
        "laned": 0,
        "active": 0,
        "waiting": 0,
        "backlog": 0,
    }


async def test_each_job_is_counted_in_its_state(queue: Queue, worker_of: WorkerOf) -> None:
    await dead(queue, worker_of, "one", "two")
    async with worker_of(Runs(answer=lambda job: job.data), store_results=True) as worker:
        await queue.add_bulk(numbers(3))
        await worker.until(done=3)
    await queue.add_bulk(numbers(4, delay_ms=HOUR_MS))
    runs = HeldRuns()
    async with worker_of(runs, concurrency=2) as worker:
        await queue.add_bulk(numbers(7))
        await runs.until(2)
        await queue.pause()
        await worker.pausing.changed.wait_for(timeout=limit(20))
        counts = await queue.get_job_counts()
        single = [
            await queue.get_waiting_count(),
            await queue.get_active_count(),
            await queue.get_delayed_count(),
            await queue.get_completed_count(),
            await queue.get_failed_count(),
            await queue.count(),
        ]
        runs.let_go()
    assert counts == {"waiting": 5, "active": 2, "delayed": 4, "completed": 3, "failed": 2, "paused": 1}
    assert single == [5, 2, 4, 3, 2, 11]


async def test_only_the_counts_asked_for_are_given(queue: Queue) -> None:
    await queue.add("job", 1)
    assert await queue.get_job_counts("waiting", "failed") == {"waiting": 1, "failed": 0}
    with pytest.raises(BadArgument, match=r"'done'.*Use waiting, active"):
        await queue.get_job_counts("done")


async def test_a_group_that_nobody_reads_for_has_the_whole_stream_waiting(
    queue_of: QueueOf, worker_of: WorkerOf
) -> None:
    queue = queue_of(consumer_group="audit")
    await queue.add("job", 1)
    assert await queue.get_job_counts("waiting", "active") == {"waiting": 1, "active": 0}


async def test_jobs_that_were_handed_back_wait(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    group = Group(raw, keys)
    await group.make()
    first = await queue.add("job", 1)
    await queue.add("job", 2)
    ids = await group.die_with(2)
    await raw.xclaim(keys.stream, "default", "c-handed-back", 0, ids[:1], idle=1000)
    stats = await queue.stats()
    assert await queue.get_job_counts("waiting", "active") == {"waiting": 1, "active": 1}
    assert (stats.waiting, stats.active, stats.backlog) == (1, 1, 1)
    assert stats.oldest_waiting_ms is not None
    assert await queue.get_job_state(first.id) == "waiting"
    assert [job.data for job in await queue.get_jobs("waiting")] == [1]
    assert [job.data for job in await queue.get_jobs("active")] == [2]


async def test_the_number_to_scale_on_is_what_could_run_now(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    await queue.add_bulk(numbers(3))
    await queue.add_bulk(numbers(2, delay_ms=HOUR_MS))
    # Due, and nobody there to promote it: a queue scaled down to nothing must call for a worker.
    member = DelayedMember("job", Envelope("due", b"\x01", 1).encode()).encode()
    await raw.zadd(keys.delayed, {member: 1})
    stats = await queue.stats()
    assert (stats.waiting, stats.due, stats.backlog, stats.delayed) == (3, 1, 4, 3)


async def test_the_oldest_age_is_that_of_the_first_job_nobody_holds(
    queue: Queue, server: Server, raw: Client, keys: QueueKeys
) -> None:
    group = Group(raw, keys)
    await group.make()
    now_ms = int(server.call("TIME")[0]) * 1000
    for seconds in (100, 50):
        envelope = Envelope(f"{seconds}", b"\x01", 1).encode()
        await raw.xadd(keys.stream, {"d": envelope}, id=f"{now_ms - seconds * 1000}-0")
    await group.die_with(1)
    age = (await queue.stats()).oldest_waiting_ms
    assert age is not None
    assert 50_000 <= age < 100_000


# --- one job ----------------------------------------------------------------------------------------------------------


async def test_a_job_is_found_in_every_state_it_goes_through(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    job = await queue.add("job", {"n": 1}, job_id="order-17", delay_ms=300)
    states = [await queue.get_job_state(job.id)]
    async with worker_of(runs, store_results=True) as worker:
        await runs.until(1)
        states.append(await queue.get_job_state(job.id))
        runs.let_go()
        await worker.until(done=1)
    states.append(await queue.get_job_state(job.id))
    waiting = await queue.add("job", 2)
    states.append(await queue.get_job_state(waiting.id))
    assert states == ["delayed", "active", "unknown", "waiting"]


async def test_a_dead_job_has_failed_and_one_with_a_result_is_completed(queue: Queue, worker_of: WorkerOf) -> None:
    (gone,) = await dead(queue, worker_of, "bad")
    async with worker_of(Runs(answer=lambda _: 42), store_results=True) as worker:
        done = await queue.add("good", 1)
        await worker.until(done=1)
    assert await queue.get_job_state(gone.id) == "failed"
    assert await queue.get_job_state(done.id) == "completed"
    found = await queue.get_job(done.id)
    assert found is not None
    assert await found.wait_for_result(timeout=limit(5)) == 42


async def test_a_job_comes_back_as_it_was_added(queue: Queue, worker_of: WorkerOf) -> None:
    added = [
        await queue.add("now", {"a": [1, b"x"]}),
        await queue.add("later", {"b": None}, delay_ms=HOUR_MS, job_id="mine"),
        await queue.add("", "nameless"),
    ]
    assert [await queue.get_job(job.id) for job in added] == added


async def test_an_unknown_job_is_not_found(queue: Queue) -> None:
    await queue.add("job", {"mentions": "order-17"})
    assert await queue.get_job("order-17") is None
    assert await queue.get_job_state("order-17") == "unknown"
    with pytest.raises(BadArgument, match="job_id"):
        await queue.get_job(" ")


async def test_a_job_that_runs_and_is_dead_too_runs(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    group = Group(raw, keys)
    await group.make()
    await group.put("twice")
    await group.die_with(1)
    await raw.xadd(keys.dead, {"d": Envelope("twice", b"\x01", 1).encode(), "reason": "stalled"})
    await raw.set(keys.result("twice"), b"\x01", ex=60)
    assert await queue.get_job_state("twice") == "active"
    await raw.xadd(keys.stream, {"d": Envelope("again", b"\x01", 1).encode()})
    member = DelayedMember("", Envelope("again", b"\x01", 1).encode()).encode()
    await raw.zadd(keys.delayed, {member: 9e15})
    assert await queue.get_job_state("again") == "delayed"


async def test_a_recent_job_is_found_at_the_end_of_a_long_queue_and_a_bound_that_was_met_is_said(
    queue: Queue, caplog: pytest.LogCaptureFixture, raw: Client, keys: QueueKeys
) -> None:
    for number in range(30):  # entries of last year
        await raw.xadd(keys.stream, {"d": Envelope(f"old-{number}", b"\x01", 1).encode()}, id=f"{1000 + number}-0")
    job = await queue.add("job", "new")
    found = await queue.jobs.find(job.id, most=5)
    assert (found.state, found.job, found.complete) == ("waiting", job, False)
    nowhere = await queue.jobs.find("old-29", most=5)
    assert (nowhere.state, nowhere.complete) == ("unknown", False)
    assert (await queue.jobs.find("old-29")).state == "waiting"
    assert (await queue.jobs.find("old-30")).complete


async def test_random_bytes_in_the_keys_of_a_queue_do_not_stop_a_search_or_a_listing(
    queue: Queue, raw: Client, keys: QueueKeys
) -> None:
    await raw.xadd(keys.stream, {b"\xff": b"order-17 \x00\xff"})
    await raw.xadd(keys.stream, {"d": b"\xc1order-17", "n": b"\xff"})
    await raw.zadd(keys.delayed, {b"\xff\xff\xff\xfforder-17": 5, b"": 6})
    await raw.xadd(keys.dead, {"reason": "order-17"})
    job = await queue.add("job", 1, job_id="order-17")
    assert await queue.get_job("order-17") == job
    pages = [await queue.get_jobs_page(state) for state in ("waiting", "delayed", "failed")]
    assert [(len(page.jobs), page.unreadable) for page in pages] == [(1, 2), (0, 2), (0, 1)]


# --- listings ---------------------------------------------------------------------------------------------------------


async def test_waiting_jobs_are_listed_in_order_without_those_that_run(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    async with worker_of(runs, concurrency=3):
        jobs = await queue.add_bulk(numbers(10))
        await runs.until(3)
        waiting = [[job.data for job in page.jobs] for page in await all_pages(queue, "waiting", 3)]
        active = [[job.data for job in page.jobs] for page in await all_pages(queue, "active", 2)]
        sliced = await queue.get_jobs("waiting", offset=2, limit=3)
        runs.let_go()
    assert [data for page in waiting for data in page] == list(range(3, 10))
    assert max(map(len, waiting)) == 3
    assert [data for page in active for data in page] == [0, 1, 2]
    assert sliced == jobs[5:8]


async def test_pages_of_delayed_jobs_of_one_millisecond_show_each_once_while_others_come_and_go(
    queue: Queue, raw: Client, keys: QueueKeys
) -> None:
    def member(job_id: str) -> bytes:
        return DelayedMember("job", Envelope(job_id, b"\x01", 1).encode()).encode()

    ids = [f"j-{number:03}" for number in range(60)]
    await raw.zadd(keys.delayed, {member(each): 9_000_000_000_000 for each in ids})
    await raw.zadd(keys.delayed, {member("early"): 8_000_000_000_000, member("late"): 9_500_000_000_000})
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await queue.get_jobs_page("delayed", limit=7, cursor=cursor)
        seen += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
        # The one the cursor stands on leaves, and so does the first; another comes in front.
        await raw.zrem(keys.delayed, member(seen[-1]), member(seen[0]))
        await raw.zadd(keys.delayed, {member(f"a-{len(seen)}"): 9_000_000_000_000})
    assert seen == ["early", *ids, "late"]


async def test_delayed_jobs_larger_than_a_cursor_are_paged_too(queue: Queue) -> None:
    jobs = await queue.add_bulk(
        numbers(5, delay_ms=HOUR_MS) + [{"name": "b", "data": "x" * 9000, "delay_ms": HOUR_MS}] * 5
    )
    pages = await all_pages(queue, "delayed", 1)
    assert sorted(job.id for page in pages for job in page.jobs) == sorted(job.id for job in jobs)


async def test_failed_jobs_are_listed_oldest_first(queue: Queue, worker_of: WorkerOf) -> None:
    jobs = await dead(queue, worker_of, "one", "two", "three", "four")
    pages = await all_pages(queue, "failed", 3)
    assert {job.id for page in pages for job in page.jobs} == {job.id for job in jobs}
    assert [len(page.jobs) for page in pages] == [3, 1]


async def test_completed_jobs_are_listed_by_id(queue: Queue, worker_of: WorkerOf, raw: Client) -> None:
    await raw.set("{chasqui:other}:result:x", "1", ex=60)
    async with worker_of(Runs(answer=lambda job: job.data), store_results=True) as worker:
        jobs = await queue.add_bulk(numbers(12))
        await worker.until(done=12)
    pages = await all_pages(queue, "completed", 5)
    assert {job.id for page in pages for job in page.jobs} == {job.id for job in jobs}
    assert len(await queue.get_jobs("completed", limit=5)) == 5


async def test_a_page_that_met_its_bound_says_so_and_goes_on(queue: Queue, raw: Client, keys: QueueKeys) -> None:
    group = Group(raw, keys)
    await group.make()
    await queue.add_bulk(numbers(10))
    await group.die_with(8)
    page = await queue.jobs.page("waiting", limit=5, most=4)
    assert (page.jobs, page.bounded) == ([], True)
    rest = await queue.jobs.page("waiting", limit=5, cursor=page.cursor)
    assert ([job.data for job in rest.jobs], rest.bounded, rest.cursor) == ([8, 9], False, None)


@pytest.mark.parametrize("state", ["waiting", "active", "delayed", "failed", "completed"])
async def test_an_empty_state_has_one_empty_page(queue: Queue, state: str) -> None:
    assert await queue.get_jobs_page(state) == JobPage([], None)
    assert await queue.get_jobs(state, limit=0) == []


@pytest.mark.parametrize("state", ["waiting", "active", "delayed", "failed", "completed"])
async def test_a_cursor_that_is_none_is_refused(queue: Queue, state: str) -> None:
    for cursor in ("", "x", "5:0:?", "(1-1", "1-1 "):
        with pytest.raises(BadArgument, match="cursor"):
            await queue.get_jobs_page(state, cursor=cursor)


async def test_an_unknown_state_and_negative_numbers_are_refused(queue: Queue) -> None:
    with pytest.raises(BadArgument, match=r"'paused'.*Use waiting"):
        await queue.get_jobs("paused")
    with pytest.raises(BadArgument, match="offset"):
        await queue.get_jobs("waiting", offset=-1)
    with pytest.raises(BadArgument, match="limit"):
        await queue.get_jobs("waiting", limit=-1)
