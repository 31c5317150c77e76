"""A queue's events: what they say, in which order, and that a reader misses none."""

import asyncio
from typing import Any

import pytest

from relevo import Job, Queue, QueueEvent, QueueEvents, UnrecoverableError
from relevo.engine.settling.tracebacks import LONGEST_ERROR
from relevo.errors import EventsTrimmed
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.pace import limit
from tests.patience import until
from tests.servers.server import Client, Server
from tests.support.runs import Runs


async def collect(events: QueueEvents, last: str, *, of: str | None = None, count: int = 1) -> list[QueueEvent]:
    """The events up to the `count`th named `last`; only those of one job when `of` is its id."""
    found: list[QueueEvent] = []
    async with asyncio.timeout(limit(20)):
        async for event in events:
            if of is None or event.job_id == of:
                found.append(event)
                count -= event.name == last
                if count == 0:
                    break
    return found


def shown(events: list[QueueEvent]) -> list[tuple[str, dict[str, Any]]]:
    """Name and fields without the times, which no test can foretell."""
    untimed = ("ts", "duration_us")
    return [(each.name, {key: value for key, value in each.fields.items() if key not in untimed}) for each in events]


async def test_a_job_that_succeeds_is_active_then_completed(queue: Queue, worker_of: WorkerOf) -> None:
    async with queue.events() as events, worker_of(Runs()):
        job = await queue.add("send", 1)
        found = await collect(events, "completed", of=job.id)
    assert shown(found) == [("active", {"attempt": 1}), ("completed", {"attempt": 1})]
    assert {(event.job_id, event.job_name) for event in found} == {(job.id, "send")}
    assert found[1].fields["duration_us"] >= 0
    assert found[0].fields["ts"] <= found[1].fields["ts"]


async def test_a_delayed_job_is_waiting_before_it_is_active(queue: Queue, worker_of: WorkerOf) -> None:
    async with queue.events() as events, worker_of(Runs()):
        job = await queue.add("send", 1, delay_ms=20)
        found = await collect(events, "completed", of=job.id)
    assert [event.name for event in found] == ["waiting", "active", "completed"]
    assert {event.job_name for event in found} == {"send"}


async def test_a_job_that_fails_tells_of_its_retry(queue: Queue, worker_of: WorkerOf) -> None:
    failures = [RuntimeError("no route")]
    async with queue.events() as events, worker_of(Runs(fail=lambda _: failures.pop() if failures else None)):
        job = await queue.add("send", 1, backoff={"kind": "fixed", "delay_ms": 7, "jitter_ms": 0})
        found = await collect(events, "completed", of=job.id)
    assert shown(found) == [
        ("active", {"attempt": 1}),
        ("failed", {"attempt": 1, "reason": "RuntimeError: no route"}),
        ("retry-scheduled", {"attempt": 2, "backoff_ms": 7}),
        ("waiting", {}),
        ("active", {"attempt": 2}),
        ("completed", {"attempt": 2}),
    ]


async def test_a_retry_is_told_before_the_job_waits_again_however_short_the_wait(
    queue: Queue, worker_of: WorkerOf
) -> None:
    failed: set[str] = set()

    def once(job: Job) -> Exception | None:
        if job.id in failed:
            return None
        failed.add(job.id)
        return RuntimeError("no route")

    told: dict[str, list[str]] = {}
    async with queue.events() as events, worker_of(Runs(fail=once)):
        backoff = {"kind": "fixed", "delay_ms": 1, "jitter_ms": 0}
        jobs = await queue.add_bulk([{"name": "send", "data": n, "backoff": backoff} for n in range(30)])
        async for event in events:
            if event.job_id is not None:
                told.setdefault(event.job_id, []).append(event.name)
            if sum(names[-1] == "completed" for names in told.values()) == len(jobs):
                break
    in_order = ["active", "failed", "retry-scheduled", "waiting", "active", "completed"]
    assert {tuple(names) for names in told.values()} == {tuple(in_order)}


async def test_a_job_that_dies_tells_why(queue: Queue, worker_of: WorkerOf) -> None:
    async with queue.events() as events, worker_of(Runs(fail=lambda _: UnrecoverableError("no such address"))):
        job = await queue.add("send", 1)
        found = await collect(events, "dlq", of=job.id)
    assert shown(found) == [
        ("active", {"attempt": 1}),
        ("failed", {"attempt": 1, "reason": "relevo.errors.UnrecoverableError: no such address"}),
        ("dlq", {"attempt": 1, "reason": "unrecoverable"}),
    ]


async def test_a_queue_that_ran_empty_says_drained_once(queue: Queue, worker_of: WorkerOf) -> None:
    async with queue.events() as events, worker_of(Runs(), read_block_ms=20):
        await queue.add("send", 1)
        found = await collect(events, "drained")
        await queue.add("send", 2)
        found += await collect(events, "drained")
    assert [event.name for event in found] == ["active", "completed", "drained"] * 2
    assert (found[2].job_id, found[2].job_name) == (None, "")


async def test_a_worker_without_events_writes_none(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    failures = [RuntimeError("once")]
    runs = Runs(fail=lambda _: failures.pop() if failures else None)
    async with worker_of(runs, events_enabled=False) as worker:
        await queue.add("send", 1, delay_ms=1, backoff=1)
        await worker.until(done=1)
    assert await raw.exists(keys.events) == 0


async def test_as_many_events_are_kept_as_the_worker_s_option_says(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    """Redis drops whole blocks of a hundred."""
    async with worker_of(Runs(), events_max_stream_len=150) as worker:
        for _ in range(4):
            await queue.add_bulk([{"name": "send", "data": number} for number in range(100)])
        await worker.until(done=400)
    assert 150 <= await raw.xlen(keys.events) < 600


async def test_fields_stand_in_the_order_of_the_wire(
    queue: Queue, worker_of: WorkerOf, keys: QueueKeys, raw: Client
) -> None:
    async with worker_of(Runs()) as worker:
        await queue.add("send", 1)
        await queue.add("", 2)
        await worker.until(done=2)
    entries = [fields for _, fields in await raw.xrange(keys.events) if fields[b"e"] == b"completed"]
    assert [list(fields) for fields in entries] == [
        [b"e", b"id", b"ts", b"n", b"attempt", b"duration_us"],
        [b"e", b"id", b"ts", b"attempt", b"duration_us"],
    ]


@pytest.mark.parametrize("text", ["größe", "\U0001f98a", "a\r\nb", "\udcff", "x" * 5000])
async def test_a_reason_of_any_text_costs_no_event(queue: Queue, worker_of: WorkerOf, text: str) -> None:
    async with queue.events() as events, worker_of(Runs(fail=lambda _: UnrecoverableError(text))):
        job = await queue.add("näme\r\n", 1)
        found = await collect(events, "dlq", of=job.id)
    assert [event.name for event in found] == ["active", "failed", "dlq"]
    said = f"relevo.errors.UnrecoverableError: {text.encode(errors='replace').decode()}"
    assert found[1].fields["reason"] == (said if len(said) <= LONGEST_ERROR else said[: LONGEST_ERROR - 1] + "…")


# --- reading ---------------------------------------------------------------------------------------------------------


async def test_a_reader_misses_nothing_from_the_moment_it_is_ready(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs()) as worker:
        await queue.add("before", 0)
        await worker.until(done=1)
        async with queue.events() as events:  # ready; the first read comes only after all has happened
            jobs = await queue.add_bulk([{"name": "during", "data": number} for number in range(250)])
            await worker.until(done=251)
            found = await collect(events, "completed", count=250)
    completed = [event.job_id for event in found if event.name == "completed"]
    assert sorted(map(str, completed)) == sorted(job.id for job in jobs)


async def test_a_reader_from_the_beginning_sees_what_has_been(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs()) as worker:
        job = await queue.add("send", 1)
        await worker.until(done=1)
    async with queue.events(last_event_id="0") as events:
        assert [event.name for event in await collect(events, "completed", of=job.id)] == ["active", "completed"]


async def test_a_reader_resumes_after_the_event_it_saw_last(queue: Queue, worker_of: WorkerOf) -> None:
    async with worker_of(Runs()) as worker:
        await queue.add_bulk([{"name": "send", "data": number} for number in range(20)])
        await worker.until(done=20)
    async with queue.events(last_event_id="0") as events:
        everything = await collect(events, "completed", count=20)
    for at in (0, 7, 30):
        async with queue.events(last_event_id=everything[at].id) as events:
            rest = await collect(events, "completed", count=[e.name for e in everything[at + 1 :]].count("completed"))
        assert [event.id for event in rest] == [event.id for event in everything[at + 1 :]]


async def test_a_reader_tells_the_place_to_resume_from(queue: Queue, worker_of: WorkerOf) -> None:
    async with queue.events() as events, worker_of(Runs()):
        await queue.add("send", 1)
        found = await collect(events, "completed")
        assert events.last_event_id == found[-1].id


async def test_events_trimmed_before_they_were_read_are_said_to_be_so(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    ids = [(await raw.xadd(keys.events, {"e": "active", "id": "a", "ts": "1"})).decode() for _ in range(5)]
    await raw.xtrim(keys.events, maxlen=2, approximate=False)
    with pytest.raises(EventsTrimmed) as gap:
        async with queue.events(last_event_id=ids[0]):
            pass
    assert (gap.value.last_id, gap.value.first_id) == (ids[0], ids[3])


def reads_block(server: Server) -> bool:
    return any(b" flags=b " in process.call("CLIENT", "LIST") for process in server.processes)


async def test_a_reader_that_closes_ends_its_loop(queue: Queue, server: Server) -> None:
    events = queue.events()
    await events.ready()
    reading = asyncio.ensure_future(collect(events, "never"))
    await until(lambda: reads_block(server))
    await events.close()
    assert await asyncio.wait_for(reading, limit(10)) == []


async def test_an_event_of_any_shape_stops_no_reader(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    async with queue.events() as events:
        await raw.xadd(keys.events, {b"\xff": b"\xfe"})
        await raw.xadd(keys.events, {b"e": b"active", b"id": b"\xff", b"ts": b"soon", b"attempt": b"9" * 5000})
        await raw.xadd(keys.events, {b"e": b"completed", b"id": b"a", b"ts": b"1", b"colour": b"red"})
        found = await collect(events, "completed")
    assert [event.name for event in found] == ["", "active", "completed"]
    assert (found[2].job_id, found[2].fields) == ("a", {"ts": 1, "colour": "red"})
