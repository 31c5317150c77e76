"""Adding jobs: what arrives, in which order, in how many writes."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import pytest

from relevo import Job, Queue, RepeatPattern, Tasks
from relevo.errors import BadArgument, NotEncodable
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from relevo.wire.retry import Backoff, RetryOverride
from tests.conformance.conftest import WorkerOf
from tests.pace import limit
from tests.patience import turn
from tests.servers.server import Client, Server
from tests.support.runs import Runs

NUMBERS: list[Any] = [0, -1, 2**63, 2**64 - 1, -(2**63), 1.5]
TEXTS: list[Any] = ["", "ñandú \U0001f98a", "x" * 100_000, b"", b"\x00\xff"]
NESTED: list[Any] = [[], {}, [1, [2, [3]]], {"a": {"b": [None, b"x"]}}, {1: "int key"}]
PAYLOADS: list[Any] = [None, True, *NUMBERS, *TEXTS, *NESTED]


async def test_an_added_job_runs_once_with_its_id_name_and_data(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        job = await queue.add("welcome", {"to": "ada"})
        await worker.until(done=1)
    assert [(run.id, run.name, run.data, run.attempt) for run in runs.jobs] == [(job.id, "welcome", {"to": "ada"}, 0)]


async def test_an_added_job_tells_when_it_was_made(queue: Queue) -> None:
    before = time.time_ns() // 1_000_000
    job = await queue.add("welcome", {"to": "ada"})
    assert before <= job.created_at_ms <= time.time_ns() // 1_000_000
    assert (job.name, job.data, job.attempt, len(job.id)) == ("welcome", {"to": "ada"}, 0, 26)


async def test_an_entry_holds_the_envelope_and_the_name_and_nothing_else(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    job = await queue.add("welcome", {"to": "ada"})
    envelope: bytes = msgpack.packb(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        [job.id, msgpack.packb({"to": "ada"}), job.created_at_ms, 0], use_bin_type=True
    )
    ((_, fields),) = await raw.xrange(keys.stream)
    assert fields == {b"d": envelope, b"n": b"welcome"}


async def test_an_empty_name_is_left_out_of_the_entry(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("", 1)
    await queue.add("", 2)
    assert [list(fields) for _, fields in await raw.xrange(keys.stream)] == [[b"d"], [b"d"]]


@pytest.mark.parametrize("name", ["", "a", "größe \U0001f98a", "n" * 256, "a\r\nb", "\x00"])
async def test_a_name_arrives_as_it_was_given(queue: Queue, worker_of: WorkerOf, name: str) -> None:
    runs = Runs()
    async with worker_of(runs):
        await queue.add(name, 1)
        await queue.add(name, 2)
        await runs.until(2)
    assert runs.names == [name, name]


async def test_every_kind_of_data_arrives_as_it_was_given(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    await queue.add_bulk([{"name": "kind", "data": data} for data in PAYLOADS])
    async with worker_of(runs, concurrency=1):
        await runs.until(len(PAYLOADS))
    assert runs.data == PAYLOADS


async def test_a_tuple_arrives_as_a_list(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs):
        await queue.add("pair", (1, 2))
        await runs.until(1)
    assert runs.data == [[1, 2]]


async def test_jobs_of_one_producer_run_in_the_order_of_their_adds(queue: Queue, worker_of: WorkerOf) -> None:
    ids = [(await queue.add("step", number)).id for number in range(20)]
    ids += [job.id for job in await queue.add_bulk([{"name": "step", "data": number} for number in range(20, 60)])]
    runs = Runs()
    async with worker_of(runs, concurrency=1):
        await runs.until(60)
    assert runs.data == list(range(60))
    assert runs.ids == ids == sorted(ids)


async def test_a_bulk_returns_its_jobs_in_the_order_given_whatever_their_options(queue: Queue) -> None:
    jobs = await queue.add_bulk(
        [
            {"name": "late", "data": 1, "delay_ms": 60_000},
            {"name": "now", "data": 2},
            {"name": "own", "data": 3, "job_id": "mine"},
            {"name": "now", "data": 4, "attempts": 2},
        ]
    )
    assert [(job.name, job.data) for job in jobs] == [("late", 1), ("now", 2), ("own", 3), ("now", 4)]
    assert jobs[2].id == "mine"


async def test_every_job_of_a_bulk_keeps_its_own_options(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add_bulk(
        [
            {"name": "plain", "data": 1},
            {"name": "thrice", "data": 2, "attempts": 3, "backoff": 250},
            {"name": "own", "data": 3, "job_id": "mine", "attempts": 4},
            {"name": "late", "data": 4, "delay_ms": 60_000},
        ]
    )
    entries = [Envelope.decode(fields[b"d"]) for _, fields in await raw.xrange(keys.stream)]
    by_data = {entry.payload: entry for entry in entries}
    assert by_data[b"\x01"].retry is None
    assert by_data[b"\x02"].retry == RetryOverride(3, Backoff("fixed", 250))
    assert (by_data[b"\x03"].id, by_data[b"\x03"].retry) == ("mine", RetryOverride(4, None))
    assert await raw.zcard(keys.delayed) == 1


async def test_a_bulk_larger_than_one_write_lands_whole_and_in_order(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    for size in (4_500, 4_501):  # the first goes through the script that counts, the second by the fast path
        jobs = await queue.add_bulk([{"name": "many", "data": number} for number in range(size)])
        entries = await raw.xrange(keys.stream)
        assert [Envelope.decode(fields[b"d"]).id for _, fields in entries] == [job.id for job in jobs]
        await raw.xtrim(keys.stream, maxlen=0, approximate=False)


@pytest.mark.parametrize("options", [{}, {"attempts": 3}, {"job_id": True}, {"delay_ms": 60_000}])
async def test_a_bulk_leaves_in_a_few_writes_with_and_without_options(
    queue: Queue, server: Server, options: dict[str, Any]
) -> None:
    await queue.add("first", 0)
    jobs = [{"name": "many", "data": number, **options} for number in range(200)]
    for number, job in enumerate(jobs):
        if "job_id" in job:
            job["job_id"] = f"own-{number}"
    before = reads_of(server)
    await queue.add_bulk(jobs)
    assert reads_of(server) - before < 30  # one by one it would be 200 and more


async def test_adds_of_one_loop_turn_leave_in_one_write(
    queue: Queue, server: Server, keys: QueueKeys, raw: Client
) -> None:
    await queue.add("first", 0)
    before = reads_of(server)
    await asyncio.gather(*(queue.add("turn", number) for number in range(100)))
    assert reads_of(server) - before < 20  # one by one it would be 100 and more
    assert await raw.xlen(keys.stream) == 101


@pytest.mark.parametrize(
    "spoilt",
    [{"name": "set", "data": {1}}, {"name": "x" * 257, "data": 1}, {"name": "odd", "data": 1, "colour": "red"}],
)
async def test_a_bulk_with_one_bad_job_writes_nothing(
    queue: Queue, keys: QueueKeys, raw: Client, spoilt: dict[str, Any]
) -> None:
    good: list[dict[str, Any]] = [{"name": "good", "data": 1}, {"name": "late", "data": 2, "delay_ms": 1000}]
    with pytest.raises((NotEncodable, ValueError)):
        await queue.add_bulk([*good, spoilt, *good])
    assert await raw.exists(keys.stream, keys.delayed) == 0


async def test_a_bulk_job_without_data_names_its_place(queue: Queue) -> None:
    with pytest.raises(BadArgument, match=r"jobs\[1\]"):
        await queue.add_bulk([{"name": "good", "data": 1}, {"name": "bad"}])


async def test_an_empty_bulk_adds_nothing(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    assert await queue.add_bulk([]) == []
    assert await raw.exists(keys.stream) == 0


async def test_a_closed_queue_opens_again_when_it_is_used(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("before", 1)
    await queue.close()
    assert queue.is_closed
    await queue.add("after", 2)
    assert not queue.is_closed
    assert await raw.xlen(keys.stream) == 2


async def test_closing_waits_for_adds_under_way(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    adding = [asyncio.ensure_future(queue.add("last", number)) for number in range(50)]
    await turn()
    await queue.close()
    await asyncio.gather(*adding)
    assert await raw.xlen(keys.stream) == 50


def reads_of(server: Server) -> int:
    """How often the server has read from a socket: what many small writes would drive up."""
    total = 0
    for process in server.processes:
        for line in process.call("INFO", "stats").splitlines():
            name, _, value = line.partition(b":")
            if name == b"total_reads_processed":
                total += int(value)
    assert total > 0, "this server does not count its reads"
    return total


async def test_an_add_may_be_awaited_gathered_made_a_task_of_or_given_a_time_limit(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    await queue.add("n", 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.add("n", 1))
    ensured = asyncio.ensure_future(queue.add("n", 2))
    jobs = [task.result(), await ensured, *await asyncio.gather(queue.add("n", 3), queue.add("n", 4, attempts=2))]
    jobs.append(await asyncio.wait_for(queue.add("n", 5), timeout=limit(30)))
    assert [job.data for job in jobs] == [1, 2, 3, 4, 5]
    assert await raw.xlen(keys.stream) == 6


async def test_adds_that_nobody_awaits_yet_keep_the_order_of_their_calls(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    tasks = [asyncio.create_task(queue.add(str(n), n, attempts=None if n % 2 else 3)) for n in range(6)]
    await asyncio.gather(*tasks)
    assert [fields[b"n"] for _, fields in await raw.xrange(keys.stream)] == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_what_is_wrong_with_an_add_is_told_to_whoever_awaits_it(queue: Queue) -> None:
    good, bad = await asyncio.gather(queue.add("n", 1), queue.add("n", object()), return_exceptions=True)
    assert isinstance(good, Job)
    assert isinstance(bad, NotEncodable)


async def test_a_task_that_was_cancelled_does_not_take_its_add_back(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("n", 0)
    task = asyncio.create_task(queue.add("n", 1))
    await turn()  # begun, and not answered
    task.cancel()
    await asyncio.wait([task])
    await queue.add("n", 2)
    assert task.cancelled()
    assert await raw.xlen(keys.stream) == 3


def test_an_add_may_be_all_that_a_loop_is_run_for(server: Server, queue_name: str) -> None:
    queue = Queue(queue_name, redis_url=server.url)
    with asyncio.Runner() as runner:
        assert runner.run(queue.add("n", 1)).data == 1
        runner.run(queue.close())


async def test_an_add_that_nobody_awaits_adds_nothing_and_says_so(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    tasks: Tasks[None] = Tasks()

    @tasks.task()
    async def send(to: str) -> None: ...

    calls: list[Callable[[], object]] = [
        lambda: queue.add("send", 1),
        lambda: queue.add("send", 1, attempts=3),
        lambda: queue.add("send", 1, job_id="a"),
        lambda: queue.add("send", 1, delay_ms=50),
        lambda: queue.add("send", 1, repeat=RepeatPattern.every(1000)),
        lambda: send.enqueue(queue, "ada"),
        lambda: send.options(lane="a").enqueue(queue, "ada"),
    ]
    for call in calls:
        said = f"the add of job 'send' to queue '{queue.name}' was never awaited: nothing was added"
        with pytest.warns(RuntimeWarning, match=re.escape(said)):
            call()
    with pytest.warns(RuntimeWarning, match=r"Queue\.add_bulk' was never awaited"):
        queue.add_bulk([{"name": "send", "data": 1}])  # pyright: ignore[reportUnusedCoroutine] - the type checker says it too
    with pytest.warns(RuntimeWarning, match=r"Queue\.upsert_repeatable_job' was never awaited"):
        queue.upsert_repeatable_job("send", 1, repeat=RepeatPattern.every(1000))  # pyright: ignore[reportUnusedCoroutine]
    await queue.add("last", 1)
    assert await raw.xlen(keys.stream) == 1
    assert await raw.exists(keys.delayed, keys.repeat, keys.lanes) == 0


async def test_an_add_begins_when_it_is_made_a_future_and_may_be_waited_for_like_one(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    options: dict[str, Any]
    for options in ({}, {"job_id": "a"}):
        await asyncio.gather(asyncio.create_task(queue.add("n", 0)))  # must not stay known as a coroutine for ever
        ensured = asyncio.ensure_future(queue.add("n", 1, **options))
        done, _ = await asyncio.wait([ensured, asyncio.create_task(queue.add("n", 2))])
        assert sorted(each.result().data for each in done) == [1, 2]
        assert (await asyncio.shield(queue.add("n", 3))).data == 3
        assert [(await each).data for each in asyncio.as_completed([queue.add("n", 4)])] == [4]
    assert await raw.xlen(keys.stream) == 10


async def test_an_add_whose_task_is_cancelled_before_its_first_step_adds_nothing(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    options: dict[str, Any]
    for options in ({}, {"job_id": "a"}):
        task = asyncio.create_task(queue.add("n", 1, **options))
        task.cancel()
        await asyncio.wait([task])
        queue.add("n", 1, **options).close()  # as a coroutine: closed, it has nothing to complain of
    await queue.add("last", 1)
    assert await raw.xlen(keys.stream) == 1


async def test_plain_adds_are_written_in_the_order_in_which_they_were_gathered(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    await asyncio.gather(*[queue.add(str(number), number) for number in range(300)])
    assert [fields[b"n"] for _, fields in await raw.xrange(keys.stream)] == [b"%d" % number for number in range(300)]
