"""A full queue refuses adds: nothing unread is ever trimmed, and the cap holds to the job."""

import asyncio
from typing import Any

import pytest

from relevo import Queue, RepeatPattern
from relevo.engine.producing import stream_writer
from relevo.engine.producing.stream_writer import HEADROOM
from relevo.errors import QueueFull
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.patience import until
from tests.servers.server import Client
from tests.support.held import HeldRuns
from tests.support.runs import Runs


async def stored(raw: Client, keys: QueueKeys) -> list[str]:
    return [Envelope.decode(fields[b"d"]).id for _, fields in await raw.xrange(keys.stream)]


async def add_or_refused(queue: Queue, data: Any) -> str | None:
    try:
        return (await queue.add("job", data)).id
    except QueueFull:
        return None


async def test_an_add_over_the_cap_is_refused_and_says_why(queue_of: QueueOf, keys: QueueKeys) -> None:
    queue = queue_of(max_stream_len=3)
    for number in range(3):
        await queue.add("job", number)
    with pytest.raises(QueueFull) as refused:
        await queue.add("job", 3)
    assert (refused.value.queue, refused.value.length, refused.value.cap) == (keys.queue, 3, 3)
    assert "max_stream_len" in str(refused.value)


async def test_the_cap_holds_to_the_job_under_many_producers(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    producers = [queue_of(max_stream_len=100) for _ in range(4)]
    answers = await asyncio.gather(*(add_or_refused(each, number) for each in producers for number in range(50)))
    accepted = [answer for answer in answers if answer is not None]
    assert len(accepted) == 100
    assert sorted(await stored(raw, keys)) == sorted(accepted)


async def test_a_refused_add_trims_nothing(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    queue = queue_of(max_stream_len=20)
    jobs = await queue.add_bulk([{"name": "job", "data": number} for number in range(20)])
    answers = await asyncio.gather(*(add_or_refused(queue, number) for number in range(200)))
    assert set(answers) == {None}
    assert await stored(raw, keys) == [job.id for job in jobs]


async def test_a_bulk_without_room_for_all_of_it_adds_none(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    queue = queue_of(max_stream_len=10)
    await queue.add_bulk([{"name": "job", "data": number} for number in range(8)])
    with pytest.raises(QueueFull):
        await queue.add_bulk([{"name": "job", "data": number} for number in range(3)])
    assert await raw.xlen(keys.stream) == 8
    await queue.add_bulk([{"name": "job", "data": number} for number in range(2)])
    assert await raw.xlen(keys.stream) == 10


async def test_a_bulk_of_own_ids_without_room_for_all_of_it_adds_none(
    queue_of: QueueOf, keys: QueueKeys, raw: Client
) -> None:
    queue = queue_of(max_stream_len=2)
    with pytest.raises(QueueFull):
        await queue.add_bulk([{"name": "job", "data": 1, "job_id": f"own-{number}"} for number in range(3)])
    assert await raw.exists(keys.stream, *(keys.once(f"own-{number}") for number in range(3))) == 0


async def test_a_mixed_bulk_without_room_for_all_of_it_adds_none(
    queue_of: QueueOf, keys: QueueKeys, raw: Client
) -> None:
    queue = queue_of(max_stream_len=2)
    jobs: list[dict[str, Any]] = [{"name": "job", "data": 1}, {"name": "job", "data": 1, "job_id": "own"}]
    with pytest.raises(QueueFull):
        await queue.add_bulk([*jobs, {"name": "job", "data": 2}])
    assert await raw.exists(keys.stream, keys.once("own")) == 0


async def test_a_bulk_larger_than_the_cap_adds_none(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    with pytest.raises(QueueFull):
        await queue_of(max_stream_len=2_500).add_bulk([{"name": "job", "data": 0}] * 2_501)
    assert await raw.exists(keys.stream) == 0


async def test_refusals_of_one_turn_spare_the_adds_that_still_fit(
    queue_of: QueueOf, keys: QueueKeys, raw: Client
) -> None:
    queue = queue_of(max_stream_len=10)
    five = [{"name": "job", "data": 0}] * 5
    sizes = await asyncio.gather(*(queue.add_bulk(five) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in sizes] == [list, list, QueueFull]
    assert await raw.xlen(keys.stream) == 10


async def test_adds_go_on_after_a_worker_made_room(queue_of: QueueOf, worker_of: WorkerOf) -> None:
    queue = queue_of(max_stream_len=5)
    await queue.add_bulk([{"name": "job", "data": number} for number in range(5)])
    with pytest.raises(QueueFull):
        await queue.add("job", 5)
    runs = Runs()
    async with worker_of(runs, concurrency=1) as worker:
        await worker.until(done=5)
        await queue.add("job", 5)
        await worker.until(done=6)
    assert runs.data == list(range(6))


async def test_a_delayed_add_does_not_count_against_the_cap(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    queue = queue_of(max_stream_len=1)
    await queue.add("now", 1)
    await queue.add("later", 2, delay_ms=60_000)
    assert await raw.zcard(keys.delayed) == 1


async def test_far_from_the_cap_adds_take_the_fast_path_and_write_the_same(
    queue_of: QueueOf, keys: QueueKeys, raw: Client, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of what a producer sent tells the path: a counted write keeps its verdicts there, a fast one only its number."""
    monkeypatch.setattr(stream_writer, "FRESH", 60.0)  # the length it learnt stays fresh however slow the machine is
    queue = queue_of(max_stream_len=HEADROOM + 100)
    await queue.add("job", 1)
    (counted,) = [key async for key in raw.scan_iter(match=f"*{keys.queue}*:sent:*")]
    assert await raw.get(counted) == b"1:1"
    await queue.add("job", 2)
    (fast,) = [key async for key in raw.scan_iter(match=f"*{keys.queue}*:sent:*") if key != counted]
    assert await raw.get(fast) == b"2"
    entries = [(list(fields), Envelope.decode(fields[b"d"]).payload) for _, fields in await raw.xrange(keys.stream)]
    assert entries == [([b"d", b"n"], b"\x01"), ([b"d", b"n"], b"\x02")]


async def test_near_the_cap_every_write_is_counted(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    queue = queue_of(max_stream_len=HEADROOM)
    for number in range(3):
        await queue.add("job", number)
    (sent,) = [key async for key in raw.scan_iter(match=f"*{keys.queue}*:sent:*")]
    assert await raw.get(sent) == b"3:1"


@pytest.mark.parametrize(("told", "given"), [(5, {}), (50, {"max_stream_len": 5})], ids=["the-queue", "the-worker"])
async def test_workers_keep_the_cap_too(
    queue_of: QueueOf, worker_of: WorkerOf, raw: Client, keys: QueueKeys, told: int, given: dict[str, int]
) -> None:
    """Promoter and scheduler once had a cap of their own: 50 delayed jobs filled a queue of 5. What a worker was given itself
    counts more than what the queue was."""
    queue = queue_of(max_stream_len=told)
    await queue.add_bulk([{"name": "later", "data": at, "delay_ms": 1} for at in range(50)])
    held, lengths = HeldRuns(), list[int]()

    async with worker_of(held, **given, promote_every_ms=10) as worker:
        await held.until(5)
        for _ in range(3):  # it has looked again and again, and moved nothing more
            await worker.promoter.promoted.wait_for()
            lengths.append(await raw.xlen(keys.stream))
        held.let_go()
        await worker.until(done=50)

    assert lengths == [5, 5, 5]


async def test_schedules_keep_the_cap_of_the_queue(
    queue_of: QueueOf, worker_of: WorkerOf, raw: Client, keys: QueueKeys
) -> None:
    """What fires into a full stream waits in the delayed set."""
    queue = queue_of(max_stream_len=1)
    held = HeldRuns()
    async with worker_of(held, scheduler_tick_ms=10, delayed_enabled=False):
        await queue.add("first", 1)
        await held.until(1)
        await queue.upsert_repeatable_job("slot", 1, repeat=RepeatPattern.every(50))
        await until(lambda: waits(raw, keys))
        assert await raw.xlen(keys.stream) == 1
        held.let_go()


async def waits(raw: Client, keys: QueueKeys) -> bool:
    return await raw.zcard(keys.delayed) > 0
