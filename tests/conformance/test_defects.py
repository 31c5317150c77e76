"""The defects of ChasquiMQ's shipped engine that touch queues and workers, by their numbers: none of them is ours.

Those of schedules are in test_schedules.py and test_schedule_life.py.
"""

import asyncio
import time

import pytest

from relevo import Job, Queue, QueueFull
from relevo.wire.dead import decode_raw
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.servers.server import Client, Server
from tests.support.held import HeldRuns
from tests.support.runs import Runs
from tests.support.watched import kept_idle_ms

LONG_IDLE_MS = 30_000
QUIET = {"delayed_enabled": False, "stalled_detector_enabled": False, "run_scheduler": False}
ENVELOPE = Envelope("id", b"\xc0", 1_700_000_000_000).encode()


@pytest.mark.parametrize(("deaths", "runs_wanted"), [(1, 1), (2, 1), (3, 0), (4, 0)])
async def test_defect_01_a_job_delivered_as_often_as_allowed_does_not_run_once_more(
    deaths: int, runs_wanted: int, queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    await group.make()
    job = await queue.add("job", {})
    await group.die_with(1, times=deaths)
    runs = Runs()
    async with worker_of(runs, claim_min_idle_ms=200, max_stalled_attempts=3) as worker, asyncio.timeout(limit(20)):
        while await group.length():  # reader or detector, whichever is first
            await worker.stalled_detector.scanned.wait_for()
        letters = await queue.peek_dlq()
    assert runs.ids == [job.id] * runs_wanted
    assert [letter["detail"] for letter in letters] == [f"its worker died {deaths} times"] * (1 - runs_wanted)


async def test_defect_02_a_handler_longer_than_the_idle_limit_runs_once(queue: Queue, worker_of: WorkerOf) -> None:
    runs = HeldRuns()
    async with worker_of(runs, claim_min_idle_ms=kept_idle_ms()) as worker:
        await queue.add("report", {})
        await runs.until(1)
        await worker.outlast_the_idle_limit()
        runs.let_go()
        total = await worker.until(done=1)
    assert len(runs.jobs) == 1
    assert total.lost == 0


async def test_defect_03_a_worker_that_left_takes_no_later_job_with_it(
    queue: Queue, worker_of: WorkerOf, group: Group
) -> None:
    async with worker_of(Runs(), read_block_ms=5000, claim_min_idle_ms=LONG_IDLE_MS) as worker:
        began = time.monotonic()
    assert time.monotonic() - began < limit(4), "the blocked read was waited for"
    job = await queue.add("job", {})
    assert await group.pending() == []
    other = Runs()
    async with worker_of(other, claim_min_idle_ms=LONG_IDLE_MS):
        await other.until(1)
    assert other.ids == [job.id]
    assert worker.consumer_id not in await group.consumers()


async def test_defect_07_a_unique_add_is_remembered_after_hundreds_of_others_and_by_other_processes(
    queue: Queue, queue_of: QueueOf, group: Group
) -> None:
    await queue.add_unique("job", {}, job_id="mine")
    await queue.add_bulk([{"name": "job", "data": {}, "job_id": f"other-{at}"} for at in range(300)])
    await queue.add_unique("job", {}, job_id="mine")
    await queue_of().add_unique("job", {}, job_id="mine")
    assert await group.length() == 301


async def test_defect_08_consumers_nobody_runs_leave_the_group(queue: Queue, worker_of: WorkerOf, group: Group) -> None:
    """Those that end in order; test_crashes.py has those that die."""
    for _ in range(3):
        async with worker_of(Runs()) as worker:
            await queue.add("job", {})
            await worker.until(done=1)
    assert await group.consumers() == set()


async def test_defect_09_a_malformed_delayed_member_does_not_stop_promotion(
    queue: Queue, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    await raw.zadd(keys.delayed, {b"\xff\xff\xff\xff": 1})
    await queue.add("later", {}, delay_ms=1)
    async with worker_of(Runs()) as worker:
        await worker.until(done=1)
        (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["payload"]) == ("malformed", b"\xff\xff\xff\xff")


async def test_defect_10_poison_at_the_head_of_the_dead_letters_does_not_starve_replay(
    queue: Queue, raw: Client, keys: QueueKeys, group: Group
) -> None:
    for _ in range(250):
        await raw.xadd(keys.dead, {"d": b"\xc1", "source_id": "1-0", "reason": "decode_failed"})
    await raw.xadd(keys.dead, {"d": ENVELOPE, "source_id": "1-1", "reason": "unrecoverable"})
    assert await queue.replay_dlq(1) == 1
    assert await group.length() == 1
    assert await raw.xlen(keys.dead) == 250


@pytest.mark.parametrize(
    "fields",
    [{"x": b"1", "y": b"2"}, {"n": b"named", "body": b"\xff"}, {"d": ENVELOPE, "n": b"\xff\xfe"}],
    ids=["strange fields", "a name and no envelope", "a name that is no text"],
)
async def test_defect_11_a_malformed_entry_keeps_all_its_fields(
    fields: dict[str, bytes], worker_of: WorkerOf, queue: Queue, group: Group, raw: Client, keys: QueueKeys
) -> None:
    await group.make()
    source = await raw.xadd(keys.stream, fields)
    async with worker_of(Runs()) as worker:
        await worker.until(dead=1)
        (letter,) = await queue.dead_letters.peek(10)
    assert (letter.source_id, letter.reason) == (source.decode(), "malformed")
    flat = decode_raw(letter.raw)
    assert dict(zip(flat[::2], flat[1::2], strict=True)) == {name.encode(): value for name, value in fields.items()}


async def test_defect_11_an_envelope_that_cannot_be_read_keeps_its_bytes_and_its_name(
    worker_of: WorkerOf, queue: Queue, group: Group, raw: Client, keys: QueueKeys
) -> None:
    await group.make()
    await raw.xadd(keys.stream, {"d": b"\xc1 not msgpack", "n": "import"})
    async with worker_of(Runs()) as worker:
        await worker.until(dead=1)
        (letter,) = await queue.peek_dlq()
    assert (letter["reason"], letter["name"], letter["payload"]) == ("decode_failed", "import", b"\xc1 not msgpack")


async def test_defect_14_waiting_has_a_name_and_comes_before_active(queue: Queue, worker_of: WorkerOf) -> None:
    async with queue.events() as events, worker_of(Runs()):
        job = await queue.add("reminder", {}, delay_ms=20)
        seen: list[tuple[str, str]] = []
        async for event in events:
            if event.job_id == job.id:
                seen.append((event.name, event.job_name))
            if event.name == "completed":
                break
    assert seen == [("waiting", "reminder"), ("active", "reminder"), ("completed", "reminder")]


def calls(server: Server, name: bytes) -> int:
    """How often the server carried a command out since CONFIG RESETSTAT."""
    for line in server.call("INFO", "commandstats").splitlines():
        if line.startswith(b"cmdstat_" + name + b":"):
            return int(line.partition(b"calls=")[2].partition(b",")[0])
    return 0


def reads(server: Server) -> int:
    """How often the server has read from a connection."""
    for line in server.call("INFO", "stats").splitlines():
        if line.startswith(b"total_reads_processed:"):
            return int(line.partition(b":")[2])
    raise AssertionError("this server does not count its reads")


@pytest.mark.parametrize("lane", ["redis86", "redis7", "valkey"], indirect=True)
async def test_defect_16_a_bulk_with_options_is_one_write(queue: Queue, server: Server) -> None:
    await queue.add("first", {})
    before = reads(server)
    await queue.add_bulk(
        [{"name": "job", "data": at, "delay_ms": 60_000} for at in range(50)]
        + [{"name": "job", "data": at, "job_id": f"id-{at}"} for at in range(50)]
        + [{"name": "job", "data": at, "attempts": 3, "backoff": 10} for at in range(50)]
    )
    assert reads(server) - before < 15  # asking for the number costs a few itself


@pytest.mark.parametrize("lane", ["redis86", "redis7", "valkey"], indirect=True)
async def test_defect_16_many_failures_of_one_moment_cost_one_call_and_no_script_text(
    queue: Queue, worker_of: WorkerOf, server: Server
) -> None:
    began, gate = Runs(), asyncio.Event()

    async def fail(job: Job) -> None:
        await began(job)
        await gate.wait()
        raise RuntimeError("again")

    async with worker_of(fail, claim_min_idle_ms=LONG_IDLE_MS, read_block_ms=5000, **QUIET) as worker:
        again = [{"name": "again", "data": at, "backoff": 600_000} for at in range(30)]
        await queue.add_bulk([*again, *({"name": "never", "data": at, "attempts": 1} for at in range(30))])
        await began.until(60)
        server.call("CONFIG", "RESETSTAT")
        gate.set()
        await worker.until(retried=30, dead=30)
        assert calls(server, b"evalsha") <= 4
        assert calls(server, b"eval") == calls(server, b"script|load") == 0


async def test_defect_17_a_payload_that_is_no_msgpack_inside_is_dead_at_once(
    worker_of: WorkerOf, queue: Queue, group: Group, raw: Client, keys: QueueKeys
) -> None:
    await group.make()
    envelope = Envelope("bad", b"\xc1\xff", 1_700_000_000_000).encode()
    await raw.xadd(keys.stream, {"d": envelope, "n": "import"})
    runs = Runs()
    async with worker_of(runs) as worker:
        total = await worker.until(dead=1)
        (letter,) = await queue.peek_dlq()
    assert (runs.jobs, total.retried) == ([], 0)
    assert (letter["reason"], letter["name"], letter["payload"]) == ("decode_failed", "import", envelope)


async def test_defect_18_a_queue_at_its_cap_refuses_and_trims_nothing(queue_of: QueueOf, group: Group) -> None:
    queue = queue_of(max_stream_len=5)
    jobs = [await queue.add("job", {}) for _ in range(5)]
    await group.make()
    with pytest.raises(QueueFull):
        await queue.add("job", {})
    assert len(await group.die_with(10)) == len(jobs)
