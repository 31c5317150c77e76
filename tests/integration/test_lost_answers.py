"""The server did what it was asked, and its answer was lost on the way: nothing is done twice, nothing is forgotten."""

import asyncio
import math
import time
from typing import Any

import pytest

from relevo import Job, Queue
from relevo.engine.producing import stream_writer
from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.integration.staff import Staff
from tests.pace import limit
from tests.patience import until
from tests.servers.proxy import Fate, Proxy
from tests.servers.server import EmbeddedValkey, Redis7, Redis86, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs

LONG_IDLE_MS = 30_000
QUIET = {"delayed_enabled": False, "stalled_detector_enabled": False, "run_scheduler": False, "events_enabled": False}


@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AFTER], ids=lambda fate: fate.name)
@pytest.mark.parametrize(
    ("queue_options", "add_options"),
    [
        ({}, {}),
        ({"max_stream_len": 100}, {}),
        ({}, {"job_id": "mine"}),
        ({}, {"delay_ms": 600_000}),
        ({}, {"delay_ms": 600_000, "job_id": "mine"}),
    ],
    ids=["single", "capped", "unique", "delayed", "delayed unique"],
)
async def test_an_add_is_done_once(
    fate: Fate, queue_options: dict[str, Any], add_options: dict[str, Any], redis86: Server, queue_name: str
) -> None:
    keys = QueueKeys(queue_name)
    async with Proxy(redis86.url) as proxy, Queue(queue_name, redis_url=proxy.url, **queue_options) as queue:
        await queue.add("first", {})  # connected, and far from the cap as it knows
        proxy.fates.append(fate)
        await queue.add("second", {}, **add_options)
        assert proxy.cuts == 1
    delayed = "delay_ms" in add_options
    assert redis86.call("XLEN", keys.stream) == (1 if delayed else 2)
    assert redis86.call("ZCARD", keys.delayed) == (1 if delayed else 0)


@pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey])
async def test_a_write_that_was_refused_is_not_taken_for_one_that_landed(
    kind: type[Server], launch: Launch, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is lost, and so is that of the next write, which the server took: only the second number has arrived."""
    monkeypatch.setattr(stream_writer, "FRESH", math.inf)  # both at once in flight, however slow the machine
    server, keys = launch(kind, settings={"maxmemory-policy": "noeviction"}), QueueKeys(queue_name)
    async with Proxy(server.url) as proxy, Queue(queue_name, redis_url=proxy.url) as queue:
        await queue.add("first", {})  # connected, and far from the cap as it knows
        proxy.hold_replies()
        server.call("CONFIG", "SET", "maxmemory", "1")
        refused = asyncio.create_task(_added(queue, "second"))
        await until(lambda: b"errorstat_OOM" in server.call("INFO", "errorstats"))
        server.call("CONFIG", "SET", "maxmemory", "0")
        taken = asyncio.create_task(_added(queue, "third"))
        await until(lambda: server.call("XLEN", keys.stream) == 2)
        proxy.cut()
        proxy.release()
        await asyncio.gather(refused, taken)
    found = [
        dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in server.call("XRANGE", keys.stream, "-", "+")
    ]
    assert sorted(fields[b"n"] for fields in found) == [b"first", b"second", b"third"]


async def _added(queue: Queue, name: str) -> None:
    await queue.add(name, {})


@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AFTER], ids=lambda fate: fate.name)
async def test_a_bulk_of_all_sorts_is_added_once(fate: Fate, redis86: Server, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    jobs: list[dict[str, Any]] = [{"name": "plain", "data": at} for at in range(50)]
    jobs += [{"name": "by id", "data": at, "job_id": f"id-{at}"} for at in range(50)]
    jobs += [{"name": "delayed", "data": at, "delay_ms": 600_000} for at in range(50)]
    async with Proxy(redis86.url) as proxy, Queue(queue_name, redis_url=proxy.url) as queue:
        await queue.add("first", {})
        proxy.fates.append(fate)
        await queue.add_bulk(jobs)
        assert proxy.cuts == 1
    assert redis86.call("XLEN", keys.stream) == 101
    assert redis86.call("ZCARD", keys.delayed) == 50


async def lose_the_next_answer(proxy: Proxy) -> None:
    """To the next read of an idle worker; it is sent when the one under way ends, and waits for a job when we return."""
    proxy.fates.append(Fate.CUT_AFTER)
    await until(lambda: not proxy.fates)


async def test_jobs_in_a_lost_answer_to_a_read_are_taken_up_at_once(redis86: Server, staff: Staff) -> None:
    """They are ours by the group's books: nobody would give them to us, or to others, before the idle limit."""
    queue, runs = await staff.queue(redis86.url), Runs()
    async with Proxy(redis86.url) as proxy:
        worker = await staff.worker(proxy.url, runs, claim_min_idle_ms=LONG_IDLE_MS, read_block_ms=400, **QUIET)
        await lose_the_next_answer(proxy)
        began = time.monotonic()
        job = await queue.add("job", {})
        await worker.until(done=1)
        assert time.monotonic() - began < limit(10)
        assert runs.ids == [job.id]
        assert proxy.cuts == 1
        await staff.close()
    assert redis86.call("XLEN", QueueKeys(staff.name).stream) == 0


async def test_a_lost_answer_to_a_read_is_not_counted_as_a_death(redis86: Server, staff: Staff) -> None:
    queue = await staff.queue(redis86.url)
    stream, seen = QueueKeys(staff.name).stream, list[int]()

    async def look(job: Job) -> None:
        seen.append(redis86.call("XPENDING", stream, "default", "-", "+", 1)[0][3])

    async with Proxy(redis86.url) as proxy:
        worker = await staff.worker(proxy.url, look, claim_min_idle_ms=LONG_IDLE_MS, read_block_ms=400, **QUIET)
        await lose_the_next_answer(proxy)
        await queue.add("job", {})
        await worker.until(done=1)
        assert proxy.cuts == 1
        await staff.close()
    assert seen == [1]


def blocked_clients(server: Server) -> bytes:
    return b"\n".join(line for line in server.call("CLIENT", "LIST").splitlines() if b" flags=b " in line)


async def test_jobs_whose_notes_could_not_be_fetched_are_taken_up_again(redis86: Server, staff: Staff) -> None:
    """Between the read and the notes the connection breaks: the jobs must not be held for ever by a worker that forgot."""
    queue, runs, keys = await staff.queue(redis86.url), Runs(), QueueKeys(staff.name)
    redis86.call("HSET", keys.notes, "of another job", b"\x80")
    async with Proxy(redis86.url) as proxy:
        worker = await staff.worker(proxy.url, runs, claim_min_idle_ms=LONG_IDLE_MS, read_block_ms=3000, **QUIET)
        await until(lambda: b"name=relevo-read" in blocked_clients(redis86))
        proxy.fates.append(Fate.CUT_BEFORE)  # the read is under way: next are the notes of what it finds
        job = await queue.add("job", {})
        await worker.until(done=1)
        assert proxy.cuts == 1
        assert runs.ids == [job.id]
        await staff.close()
    redis86.call("DEL", keys.notes)


async def test_a_flush_whose_answer_was_lost_is_settled_once(redis86: Server, staff: Staff) -> None:
    queue, runs = await staff.queue(redis86.url), Runs()
    keys = QueueKeys(staff.name)
    async with Proxy(redis86.url) as proxy:

        async def handler(job: Job) -> str:
            await runs(job)
            # What leaves next are the settle and the next read, in either order: both answers are lost.
            proxy.fates.extend([Fate.CUT_AFTER, Fate.CUT_AFTER])
            if job.name == "fails":
                raise RuntimeError("again")
            return "an answer"

        options = {**QUIET, "claim_min_idle_ms": LONG_IDLE_MS, "concurrency": 1, "store_results": True}
        worker = await staff.worker(proxy.url, handler, **options)
        job = await queue.add("job", {})
        await worker.settled.wait_for(timeout=limit(20))
        await queue.add("fails", {}, backoff=600_000)
        await worker.settled.wait_for(timeout=limit(20))
        assert proxy.cuts >= 2
        proxy.fates.clear()
        await staff.close()
    assert runs.names == ["job", "fails"]
    assert redis86.call("XLEN", keys.stream) == 0
    assert redis86.call("ZCARD", keys.delayed) == 1
    assert redis86.call("EXISTS", keys.result(job.id)) == 1


@pytest.mark.parametrize("kind", [Redis86, Redis7, EmbeddedValkey])
async def test_a_lease_connection_that_falls_silent_is_replaced_before_the_lease_is_over(
    kind: type[Server], launch: Launch, staff: Staff
) -> None:
    """Nothing is reset, and the worker's other connections live: another worker once took its job over."""
    idle_s, server, runs = 9.0, launch(kind), HeldRuns()
    queue = await staff.queue(server.url)
    async with Proxy(server.url) as proxy:
        worker = await staff.worker(proxy.url, runs, claim_min_idle_ms=int(idle_s * 1000))
        await queue.add("job", {})
        await runs.until(1)
        await worker.leases.renewed.wait_for(lambda renewal: renewal.kept == 1, timeout=limit(60))
        assert proxy.silence(b"relevo-lease") == 1
        began = time.monotonic()
        await worker.leases.renewed.wait_for(lambda renewal: renewal.kept == 1, timeout=limit(60))
        assert time.monotonic() - began < limit(idle_s)
        runs.let_go()
        await worker.until(done=1)
