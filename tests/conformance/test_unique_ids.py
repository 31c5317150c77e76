"""Ids chosen by the caller: the same id again, from anywhere, within the window, adds nothing."""

import asyncio
import sys

import pytest

from relevo import Queue
from relevo.errors import BadArgument, QueueFull
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import QueueOf, WorkerOf
from tests.servers.child import Child
from tests.servers.server import Client, Server
from tests.support.runs import Runs

ANOTHER_PROCESS = """
import asyncio, sys
from relevo import Queue

async def main(url, name):
    async with Queue(name, redis_url=url) as queue:
        await queue.add_unique("now", "second", job_id="now")
        await queue.add_unique("later", "second", job_id="later", delay_ms=60_000)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_the_same_id_twice_adds_one_job_and_answers_with_the_id(
    queue: Queue, keys: QueueKeys, raw: Client
) -> None:
    first = await queue.add("charge", 1, job_id="order-7")
    second = await queue.add_unique("charge", 1, job_id="order-7")
    assert (first.id, second.id) == ("order-7", "order-7")
    assert await raw.xlen(keys.stream) == 1


async def test_the_same_id_twice_delays_one_job(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("charge", 1, job_id="order-7", delay_ms=60_000)
    await queue.add("charge", 2, job_id="order-7", delay_ms=90_000)
    assert await raw.zcard(keys.delayed) == 1


@pytest.mark.parametrize(("first", "second"), [(None, 60_000), (60_000, None)])
async def test_an_id_is_one_job_whether_it_is_delayed_or_not(
    queue: Queue, keys: QueueKeys, raw: Client, first: int | None, second: int | None
) -> None:
    await queue.add("charge", 1, job_id="order-7", delay_ms=first)
    await queue.add("charge", 1, job_id="order-7", delay_ms=second)
    assert await raw.xlen(keys.stream) + await raw.zcard(keys.delayed) == 1


async def test_an_id_is_known_to_other_processes(queue: Queue, server: Server, keys: QueueKeys, raw: Client) -> None:
    await queue.add("now", "first", job_id="now")
    await queue.add("later", "first", job_id="later", delay_ms=60_000)
    done = await asyncio.to_thread(Child.run, sys.executable, "-c", ANOTHER_PROCESS, server.url, keys.queue)
    assert done.code == 0, done.err
    assert await raw.xlen(keys.stream) == 1
    assert await raw.zcard(keys.delayed) == 1


async def test_an_id_is_remembered_after_hundreds_of_others(
    queue: Queue, queue_of: QueueOf, keys: QueueKeys, raw: Client
) -> None:
    await queue.add("charge", 1, job_id="order-7")
    await queue.add_bulk([{"name": "other", "data": 1, "job_id": f"other-{number}"} for number in range(300)])
    await queue_of().add("charge", 1, job_id="order-7")
    assert await raw.xlen(keys.stream) == 301


async def test_an_id_is_remembered_after_its_job_has_run(queue: Queue, worker_of: WorkerOf) -> None:
    runs = Runs()
    async with worker_of(runs) as worker:
        await queue.add("charge", 1, job_id="order-7")
        await worker.until(done=1)
        await queue.add("charge", 1, job_id="order-7")
        await queue.add("the end", 2)
        await worker.until(done=2)
    assert runs.names == ["charge", "the end"]


@pytest.mark.parametrize("delay_ms", [None, 60_000])
async def test_of_many_adds_at_once_with_one_id_one_counts(
    queue_of: QueueOf, keys: QueueKeys, raw: Client, delay_ms: int | None
) -> None:
    producers = [queue_of() for _ in range(4)]
    adds = (each.add("charge", 1, job_id="order-7", delay_ms=delay_ms) for each in producers for _ in range(10))
    await asyncio.gather(*adds)
    assert await raw.xlen(keys.stream) + await raw.zcard(keys.delayed) == 1


async def test_a_bulk_that_names_an_id_twice_adds_it_once(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    jobs = await queue.add_bulk([{"name": "charge", "data": number, "job_id": "order-7"} for number in range(3)])
    assert [job.id for job in jobs] == ["order-7"] * 3
    assert await raw.xlen(keys.stream) == 1


async def test_the_first_payload_wins(queue: Queue, queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    await queue.add("charge", "first", job_id="order-7")
    await queue_of().add("refund", "second", job_id="order-7")
    ((_, fields),) = await raw.xrange(keys.stream)
    assert (fields[b"n"], Envelope.decode(fields[b"d"]).payload) == (b"charge", b"\xa5first")


async def test_the_window_is_an_hour_from_the_add(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("charge", 1, job_id="order-7")
    assert 3590 <= await raw.ttl(keys.once("order-7")) <= 3600


async def test_the_window_of_a_delayed_job_is_an_hour_from_its_time(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("charge", 1, job_id="order-7", delay_ms=100_000)
    for key in (keys.once("order-7"), keys.member_of("order-7")):
        assert 3690 <= await raw.ttl(key) <= 3700


async def test_the_id_may_be_used_again_when_the_window_is_over(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("charge", 1, job_id="order-7")
    await raw.pexpireat(keys.once("order-7"), 1)  # long ago: gone at once
    await queue.add("charge", 1, job_id="order-7")
    assert await raw.xlen(keys.stream) == 2


async def test_cancelling_frees_the_id(queue: Queue, keys: QueueKeys, raw: Client) -> None:
    await queue.add("charge", "first", job_id="order-7", delay_ms=60_000)
    await queue.cancel_delayed("order-7")
    await queue.add("charge", "second", job_id="order-7", delay_ms=60_000)
    ((member, _),) = await raw.zrange(keys.delayed, 0, -1, withscores=True)
    assert b"\xa6second" in member


async def test_a_full_queue_does_not_use_the_id_up(queue_of: QueueOf, keys: QueueKeys, raw: Client) -> None:
    queue = queue_of(max_stream_len=1)
    await queue.add("first", 1)
    with pytest.raises(QueueFull):
        await queue.add("charge", 1, job_id="order-7")
    await raw.xtrim(keys.stream, maxlen=0, approximate=False)
    await queue.add("charge", 1, job_id="order-7")
    assert await raw.xlen(keys.stream) == 1


@pytest.mark.parametrize("job_id", ["", " ", "\n"])
async def test_a_blank_id_is_refused(queue: Queue, job_id: str) -> None:
    with pytest.raises(BadArgument, match="job_id"):
        await queue.add_unique("charge", 1, job_id=job_id)


@pytest.mark.parametrize("job_id", ["a b", "ü\U0001f98a", "x" * 1000, "a:b}{c", "a\r\nb"])
async def test_an_id_is_any_text(queue: Queue, worker_of: WorkerOf, job_id: str) -> None:
    runs = Runs()
    async with worker_of(runs):
        await queue.add("now", 1, job_id=job_id)
        await queue.add("again", 1, job_id=job_id, delay_ms=1)
        await queue.add("later", 2, job_id=job_id + "!", delay_ms=1)
        await runs.until(2)
    assert sorted(runs.ids) == sorted([job_id, job_id + "!"])
