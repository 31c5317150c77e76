"""`import relevo as chasquimq` runs a program written for chasquimq: small programs, written once, run on both."""

import asyncio
import dataclasses
import gc
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import msgpack
import pytest

import relevo
from relevo.wire.keys import QueueKeys
from tests.interop.conftest import Until
from tests.pace import limit
from tests.servers.child import Child
from tests.servers.server import Server
from tests.support.runs import Runs
from tests.support.side import Side

pytestmark = pytest.mark.interop

LATER = datetime.now(UTC) + timedelta(days=400)

BAD_ADDS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "name over 256 bytes": (("ñ" * 129, 1), {}),
    "name not text": ((5, 1), {}),
    "name not UTF-8": (("\ud800", 1), {}),
    "data of no known kind": (("n", object()), {}),
    "data: a set": (("n", {1}), {}),
    "data: a datetime": (("n", LATER), {}),
    "data: beyond 64 bits": (("n", 2**64), {}),
    "data: text that is not UTF-8": (("n", "\ud800"), {}),
    "negative delay": (("n", 1), {"delay_ms": -1}),
    "infinite delay": (("n", 1), {"delay_ms": float("inf")}),
    "delay without a number": (("n", 1), {"delay_ms": float("nan")}),
    "delay that is a bool": (("n", 1), {"delay_ms": True}),
    "delay that is text": (("n", 1), {"delay_ms": "5"}),
    "both delays": (("n", 1), {"delay_ms": 5, "delay": timedelta(seconds=1)}),
    "milliseconds as timedelta": (("n", 1), {"delay": 5}),
    "negative timedelta": (("n", 1), {"delay": timedelta(seconds=-1)}),
    "delay over the limit": (("n", 1), {"delay_ms": 10**13}),
    "date over the limit": (("n", 1), {"delay_ms": LATER}),
    "negative attempts": (("n", 1), {"attempts": -1}),
    "attempts as text": (("n", 1), {"attempts": "3"}),
    "attempts beyond 32 bits": (("n", 1), {"attempts": 2**32}),
    "negative backoff": (("n", 1), {"backoff": -1}),
    "backoff that is a bool": (("n", 1), {"backoff": True}),
    "backoff that is text": (("n", 1), {"backoff": "1s"}),
    "backoff that is a float": (("n", 1), {"backoff": 1.5}),
    "backoff of nothing": (("n", 1), {"backoff": {}}),
    "backoff of no known kind": (("n", 1), {"backoff": {"kind": "linear", "delay_ms": 1}}),
    "backoff without a delay": (("n", 1), {"backoff": {"kind": "fixed"}}),
    "blank id": (("n", 1), {"job_id": " "}),
    "id not text": (("n", 1), {"job_id": 5}),
    "missed_fires without repeat": (("n", 1), {"missed_fires": {"kind": "skip"}}),
    "repeat of no known kind": (("n", 1), {"repeat": {"kind": "sometimes"}}),
    "repeat that is text": (("n", 1), {"repeat": "@daily"}),
}


# --- the shape of a program ---------------------------------------------------------------------------------------------


async def test_a_worker_is_closed_and_its_run_awaited(side: Side, keys: QueueKeys, redis86: Server) -> None:
    runs = Runs()
    worker = side.module.Worker(keys.queue, runs, redis_url=redis86.url, read_block_ms=50)
    seen = [(worker.name, worker.is_running, worker.is_closed)]
    running = asyncio.create_task(worker.run())
    await side.queue().add("one", 1)
    await runs.until(1)
    seen.append((worker.name, worker.is_running, worker.is_closed))
    await worker.close()
    await worker.close()
    await asyncio.wait_for(running, limit(20))
    seen.append((worker.name, worker.is_running, worker.is_closed))
    assert seen == [(keys.queue, False, False), (keys.queue, True, False), (keys.queue, False, True)]


async def test_closing_may_be_a_task_a_gathering_or_bounded_in_time(side: Side, keys: QueueKeys) -> None:
    worker = side.module.Worker(keys.queue, Runs())
    await asyncio.create_task(worker.close())
    await asyncio.gather(worker.close())
    await asyncio.wait_for(worker.close(), limit(5))
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(worker.close(), loop).result(limit(5)))
    assert worker.is_closed


def test_our_worker_may_be_closed_without_await_and_without_a_warning() -> None:
    relevo.Worker("nowhere", Runs()).close()
    gc.collect()  # a coroutine that nobody awaited complains when it goes, and warnings are errors here


async def test_a_worker_closed_before_it_runs_ends_at_once(side: Side, keys: QueueKeys, redis86: Server) -> None:
    worker = side.module.Worker(keys.queue, Runs(), redis_url=redis86.url)
    await worker.close()
    await asyncio.wait_for(worker.run(), limit(10))


async def test_a_second_run_waits_for_the_first(side: Side, keys: QueueKeys, redis86: Server) -> None:
    runs = Runs()
    worker = side.module.Worker(keys.queue, runs, redis_url=redis86.url, read_block_ms=50)
    both = [asyncio.create_task(worker.run()), asyncio.create_task(worker.run())]
    await side.queue().add("one", 1)
    await runs.until(1)
    assert [each.done() for each in both] == [False, False]
    await worker.close()
    await asyncio.wait_for(asyncio.gather(*both), limit(20))
    assert len(runs.jobs) == 1


async def test_context_managers_close_what_they_opened(side: Side, keys: QueueKeys, redis86: Server) -> None:
    runs = Runs()
    async with side.module.Queue(keys.queue, redis_url=redis86.url) as queue:
        async with side.module.Worker(keys.queue, runs, redis_url=redis86.url, read_block_ms=50) as worker:
            running = asyncio.create_task(worker.run())
            await queue.add("one", 1)
            await runs.until(1)
        await asyncio.wait_for(running, limit(20))
    assert (queue.name, queue.is_closed, worker.is_closed) == (keys.queue, True, True)


async def test_a_closed_queue_opens_again_by_use(side: Side, keys: QueueKeys, redis86: Server) -> None:
    queue = side.queue()
    await queue.add("one", 1)
    await queue.close()
    await queue.add("two", 2)
    assert redis86.call("XLEN", keys.stream) == 2


async def test_events_are_followed_until_closed(side: Side, until: Until) -> None:
    events, names = side.events(), list[str]()

    async def follow() -> None:
        async for event in events:
            names.append(event.name)

    following = asyncio.create_task(follow())
    async with side.worker(Runs()):
        await side.queue().add("one", 1)
        await until(lambda: "completed" in names)
    await events.close()
    await asyncio.wait_for(following, limit(20))
    assert names[:2] == ["active", "completed"]


@pytest.mark.parametrize("module", ["chasquimq", "relevo"])
def test_one_queue_serves_one_loop_after_another_and_threads(module: str, redis86: Server, keys: QueueKeys) -> None:
    program = f"""
import asyncio, threading, {module} as chasquimq
queue = chasquimq.Queue({keys.queue!r}, redis_url={redis86.url!r})
for i in range(3):
    asyncio.run(queue.add("from a loop of its own", i))
threads = [threading.Thread(target=lambda: asyncio.run(queue.add("from a thread", i))) for i in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
asyncio.run(queue.close())
"""
    if (
        module == "chasquimq"
    ):  # its binding may crash when the interpreter ends (SIGSEGV, SIGABRT): it leaves without an end
        program += "import os, sys\nsys.stdout.flush()\nos._exit(0)\n"
    done = Child.run(sys.executable, "-c", program)
    assert (done.code, done.err) == (0, "")
    assert redis86.call("XLEN", keys.stream) == 6


# --- jobs ---------------------------------------------------------------------------------------------------------------


async def test_an_added_job_tells_what_was_added(side: Side) -> None:
    job = await side.queue().add("send", {"x": 1}, job_id="chosen")
    assert (job.id, job.name, job.data, job.attempt, job.attempts_made) == ("chosen", "send", {"x": 1}, 0, 0)
    same = side.module.Job(id="chosen", name="send", data={"x": 1}, attempt=0, created_at_ms=job.created_at_ms)
    assert job == same
    assert repr(job) == repr(same)
    assert repr(job).startswith("Job(id='chosen', name='send', data={'x': 1}, attempt=0, created_at_ms=")


async def test_a_handler_may_keep_something_on_its_job(side: Side) -> None:
    job = await side.queue().add("send", 1)
    job.trace = "of my own"
    assert job.trace == "of my own"
    assert dataclasses.replace(job, attempt=3).attempts_made == 3


async def test_a_minted_id_is_a_ulid(side: Side) -> None:
    ids = [job.id for job in await side.queue().add_bulk([{"name": "n", "data": i} for i in range(50)])]
    assert {len(each) for each in ids} == {26}
    assert len(set(ids)) == 50


async def test_an_empty_bulk_adds_nothing(side: Side) -> None:
    assert await side.queue().add_bulk([]) == []


async def test_what_is_not_there_is_none_or_false_or_nothing(side: Side) -> None:
    queue = side.queue()
    assert await queue.get_job_result("nobody") is None
    assert await queue.get_job_result_bulk([]) == []
    assert await queue.get_job_result_bulk(["nobody"]) == [None]
    assert await queue.cancel_delayed("nobody") is False
    assert await queue.peek_dlq() == []
    assert await queue.replay_dlq() == 0
    assert await queue.get_repeatable_jobs() == []
    assert await queue.remove_repeatable_by_key("nobody") is False


async def test_extension_types_arrive_as_msgpack_has_them(side: Side) -> None:
    sent = [msgpack.ExtType(5, b"five"), msgpack.Timestamp(1_700_000_000, 123_456_789)]
    runs = Runs()
    await side.queue().add("typed", sent)
    async with side.worker(runs):
        (job,) = await runs.until(1)
    assert job.data == sent
    assert [type(each) for each in job.data] == [type(each) for each in sent]


async def test_no_attempts_means_no_run(
    side: Side, theirs: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    """Our producer refuses such a job, theirs makes it."""
    runs = Runs()
    async with side.worker(runs):
        await theirs.queue().add("never", 1, attempts=0)
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    assert runs.jobs == []


async def test_a_subclass_of_unrecoverable_is_unrecoverable(
    side: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    class PoisonPill(side.module.UnrecoverableError): ...

    runs = Runs(fail=lambda _: PoisonPill("bitter"))
    async with side.worker(runs):
        await side.queue().add("poison", 1, attempts=5)
        await until(lambda: redis86.call("XLEN", keys.dead) == 1)
    assert len(runs.jobs) == 1


async def test_a_result_that_cannot_be_written_fails_the_job_of_theirs_and_not_of_ours(
    side: Side, keys: QueueKeys, redis86: Server, until: Until
) -> None:
    dead = 0 if side.module.__name__ == "relevo" else 1
    runs = Runs(lambda _: object())
    async with side.worker(runs, store_results=True):
        await side.queue().add("odd", 1, attempts=1)
        await runs.until(1)
        await until(lambda: redis86.call("XLEN", keys.stream) == 0)
        await until(lambda: redis86.call("XLEN", keys.dead) == dead)


# --- waiting for results --------------------------------------------------------------------------------------------------


async def test_a_wait_that_is_over_is_a_timeout(side: Side) -> None:
    job = await side.queue().add("nobody works", 1)
    with pytest.raises(TimeoutError):
        await job.wait_for_result(timeout=0.3)


async def test_a_handler_that_returns_nothing_gives_no_result(side: Side) -> None:
    async with side.worker(Runs(), store_results=True):
        job = await side.queue().add("void", 1)
        if side.module.__name__ == "relevo":  # theirs waits until its time is over, and then raises TimeoutError
            assert await job.wait_for_result(timeout=limit(20)) is None
        else:
            with pytest.raises(TimeoutError):
                await job.wait_for_result(timeout=0.6)
    assert await side.queue().get_job_result(job.id) is None


async def test_a_job_without_a_queue_cannot_wait(side: Side) -> None:
    with pytest.raises(RuntimeError):
        await side.module.Job("id", "name", None, 0, 0).wait_for_result()


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1}, {"poll_interval": 0}])
async def test_a_wait_needs_positive_seconds(side: Side, options: dict[str, Any]) -> None:
    job = await side.queue().add("send", 1)
    with pytest.raises(ValueError, match=next(iter(options))):
        await job.wait_for_result(**options)


# --- mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", BAD_ADDS)
async def test_a_mistake_raises_what_chasquimq_raises(theirs: Side, ours: Side, mistake: str, redis86: Server) -> None:
    arguments, options = BAD_ADDS[mistake]
    with pytest.raises(Exception) as expected:  # noqa: PT011 - which one is what this finds out
        await theirs.queue().add(*arguments, **options)
    # What lies below ValueError in Unicode's tree cannot be made without the text that failed.
    kind: type[Exception] = ValueError if issubclass(expected.type, UnicodeError) else expected.type
    with pytest.raises(kind):
        await ours.queue().add(*arguments, **options)
    assert redis86.call("DBSIZE") == 0


@pytest.mark.parametrize("job_id", ["", "  ", None, 7])
async def test_a_unique_job_needs_an_id(side: Side, job_id: Any) -> None:
    with pytest.raises(ValueError, match="job_id"):
        await side.queue().add_unique("send", 1, job_id=job_id)


@pytest.mark.parametrize("result_ttl_ms", [0, -1])
def test_a_result_needs_a_life(side: Side, keys: QueueKeys, result_ttl_ms: int) -> None:
    with pytest.raises(RuntimeError, match="result_ttl_ms"):
        side.module.Worker(keys.queue, Runs(), result_ttl_ms=result_ttl_ms)


@pytest.mark.parametrize("max_catchup", [0, -1, True, 1.5, "3"])
def test_catching_up_needs_a_positive_number(side: Side, max_catchup: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="max_catchup"):
        side.module.MissedFiresPolicy.fire_all(max_catchup)


# --- schedules ------------------------------------------------------------------------------------------------------------


async def test_a_schedule_is_listed_and_removed(side: Side) -> None:
    queue, pattern = side.queue(), side.module.RepeatPattern
    cron = await queue.add("report", {"x": 1}, repeat=pattern.cron("0 9 * * *", tz="Europe/Madrid"))
    every = await queue.upsert_repeatable_job(
        "tick", 1, repeat=pattern.every(86_400_000), limit=3, missed_fires=side.module.MissedFiresPolicy.fire_all(2)
    )
    assert (cron.id, every.id) == ("report::cron:0 9 * * *:Europe/Madrid", "tick::every:86400000")
    metas = {meta.key: meta for meta in await queue.get_repeatable_jobs()}
    assert metas[cron.id].pattern.to_dict() == {"kind": "cron", "expression": "0 9 * * *", "tz": "Europe/Madrid"}
    assert (metas[cron.id].job_name, metas[cron.id].limit, metas[cron.id].missed_fires) == ("report", None, None)
    assert metas[every.id].pattern == pattern.every(86_400_000)
    assert (metas[every.id].limit, metas[every.id].missed_fires.to_dict()) == (
        3,
        {"kind": "fire-all", "max_catchup": 2},
    )
    assert await queue.remove_repeatable_by_key(cron.id) is True
    assert [meta.key for meta in await queue.get_repeatable_jobs()] == [every.id]
