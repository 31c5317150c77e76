"""ChasquiMQ's low-level classes: payloads are bytes that nobody touches."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from relevo import Consumer, Producer, Queue, RawJob
from relevo.engine.settling.settle_request import SettleResult
from relevo.errors import BadArgument, BadInterval, NameTooLong, WrongType
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.conformance.conftest import WorkerOf
from tests.conformance.group import Group
from tests.pace import limit
from tests.servers.server import Client, Server
from tests.support.runs import Runs

NO_MSGPACK = b"\xc1 plain bytes"
SCHEDULE: dict[str, Any] = {
    "job_name": "ping",
    "pattern": {"kind": "every", "interval_ms": 60_000},
    "payload": b"\xc0",
}


@pytest.fixture
async def producer(server: Server, queue_name: str) -> AsyncGenerator[Producer]:
    made = Producer(server.url, queue_name, pool_size=4)
    yield made
    await made.shutdown()


@asynccontextmanager
async def consuming(
    server: Server, queue_name: str, handler: Callable[[RawJob], Awaitable[Any]], **options: Any
) -> AsyncGenerator[Consumer]:
    consumer = Consumer(server.url, queue_name, read_block_ms=100, **options)
    running = asyncio.ensure_future(consumer.run(handler))
    yield consumer
    consumer.shutdown()
    await asyncio.wait_for(running, limit(30))


class Settled:
    """Counts what a consumer has settled, from now on."""

    def __init__(self, consumer: Consumer) -> None:
        self._count = 0
        consumer.worker.settled.listen(self._add_up)
        self._wake = asyncio.Event()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(limit(20)):
            while self._count < count:
                self._wake.clear()
                await self._wake.wait()

    def _add_up(self, settlement: SettleResult) -> None:
        self._count += settlement.done + settlement.dead
        self._wake.set()


async def test_bytes_travel_untouched_from_producer_to_consumer(
    producer: Producer, server: Server, queue_name: str
) -> None:
    seen: asyncio.Queue[RawJob] = asyncio.Queue()
    async with consuming(server, queue_name, seen.put):
        job_id = await producer.add_with_options(NO_MSGPACK, {"name": "raw"})
        job = await asyncio.wait_for(seen.get(), limit(20))
    assert (job.id, job.name, job.payload, job.attempt) == (job_id, "raw", NO_MSGPACK, 0)
    assert job.created_at_ms > 1_600_000_000_000


async def test_a_worker_decodes_what_a_producer_has_encoded(producer: Producer, worker_of: WorkerOf) -> None:
    runs = Runs()
    await producer.add(b"\x81\xa1i\x01")
    async with worker_of(runs):
        await runs.until(1)
    assert runs.data == [{"i": 1}]


async def test_a_consumer_gets_the_msgpack_that_a_queue_has_made(queue: Queue, server: Server, queue_name: str) -> None:
    seen: asyncio.Queue[RawJob] = asyncio.Queue()
    await queue.add("ping", {"i": 1})
    async with consuming(server, queue_name, seen.put):
        job = await asyncio.wait_for(seen.get(), limit(20))
    assert job.payload == b"\x81\xa1i\x01"


async def test_bytes_a_handler_returns_are_the_result_and_nothing_else_is(
    producer: Producer, server: Server, queue_name: str
) -> None:
    async def handler(job: RawJob) -> Any:
        return b"as it is" if job.payload == b"1" else {"no": "bytes"}

    async with consuming(server, queue_name, handler, store_results=True) as consumer:
        settled = Settled(consumer)
        kept, dropped = await producer.add_bulk([b"1", b"2"])
        await settled.until(2)
    assert await producer.get_result(kept) == b"as it is"
    assert await producer.get_result_bulk([kept, dropped, "nope"]) == [b"as it is", None, None]


async def test_every_way_to_add_puts_the_job_where_it_belongs(producer: Producer, raw: Client, keys: QueueKeys) -> None:
    await producer.add(b"1")
    await producer.add_bulk([b"2", b"3"])
    await producer.add_bulk_named([("n", b"4")])
    await producer.add_bulk_with_options([b"5", b"6"], {"name": "n", "retry": {"max_attempts": 3, "backoff": 250}})
    await producer.add_at(1, b"7")
    await producer.add_in(60_000, b"a")
    await producer.add_in_with_options(60_000, b"b", {"id": "mine"})
    await producer.add_at_with_options(time.time_ns() // 1_000_000 + 60_000, b"c", {"name": "n"})
    await producer.add_in_bulk(60_000, [b"d", b"e"])
    entries = await raw.xrange(keys.stream)
    added = [(Envelope.decode(fields[b"d"]), fields.get(b"n")) for _, fields in entries]
    assert [envelope.payload for envelope, _ in added] == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert [name for _, name in added] == [None, None, None, b"n", b"n", b"n", None]
    retry = added[4][0].retry
    assert retry is not None
    assert (retry.max_attempts, retry.backoff and retry.backoff.delay_ms) == (3, 250)
    assert await raw.zcard(keys.delayed) == 5


async def test_delayed_jobs_are_cancelled_by_id(producer: Producer, raw: Client, keys: QueueKeys) -> None:
    for job_id in ("a", "b", "c"):
        await producer.add_in_with_options(60_000, b"x", {"id": job_id})
    assert await producer.cancel_delayed("a")
    assert await producer.cancel_delayed_bulk(["a", "b", "c", "d"]) == [False, True, True, False]
    assert await raw.zcard(keys.delayed) == 0


async def test_an_id_makes_an_add_idempotent(producer: Producer, group: Group) -> None:
    ids = [await producer.add_with_options(b"x", {"id": "order-7"}) for _ in range(2)]
    assert ids == ["order-7", "order-7"]
    assert await group.length() == 1


async def test_dead_letters_are_seen_and_sent_back(
    producer: Producer, server: Server, queue_name: str, group: Group
) -> None:
    async def fail(_: RawJob) -> None:
        raise RuntimeError("no")

    async with consuming(server, queue_name, fail, max_attempts=1) as consumer:
        settled = Settled(consumer)
        await producer.add_with_options(NO_MSGPACK, {"name": "raw"})
        await settled.until(1)
    (letter,) = await producer.peek_dlq(10)
    assert (letter["reason"], letter["name"]) == ("retries_exhausted", "raw")
    assert await producer.replay_dlq(10) == 1
    assert await group.length() == 1


async def test_schedules_are_made_listed_and_removed_in_their_dict_forms(producer: Producer) -> None:
    key = await producer.upsert_repeatable({**SCHEDULE, "key": ""})
    await producer.upsert_repeatable(
        {**SCHEDULE, "key": "mine", "limit": 3, "missed_fires": {"kind": "fire-all", "max_catchup": 4}}
    )
    listed = {each["key"]: each for each in await producer.list_repeatable(10)}
    assert key == "ping::every:60000"
    assert set(listed) == {key, "mine"}
    assert listed["mine"]["next_fire_ms"] > 1_600_000_000_000
    assert {name: listed["mine"][name] for name in ("job_name", "pattern", "limit", "missed_fires")} == {
        "job_name": "ping",
        "pattern": {"kind": "every", "interval_ms": 60_000},
        "limit": 3,
        "missed_fires": {"kind": "fire-all", "max_catchup": 4},
    }
    assert [await producer.remove_repeatable_by_key(each) for each in ("mine", "mine")] == [True, False]


def test_a_producer_names_its_keys_before_it_connects() -> None:
    producer = Producer("redis://127.0.0.1:1", "emails")
    assert producer.stream_key() == "{chasqui:emails}:stream"
    assert producer.delayed_key() == "{chasqui:emails}:delayed"
    assert producer.dlq_key() == "{chasqui:emails}:dlq"
    assert len(producer.producer_id()) == 36


@pytest.mark.parametrize(
    ("method", "arguments", "error", "says"),
    [
        ("add", ("text",), WrongType, "payload='text': expected bytes, got str"),
        ("add_with_options", (b"x", {"naem": "n"}), BadArgument, "unknown \\['naem'\\]"),
        ("add_with_options", (b"x", {"retry": {"attempts": 3}}), BadArgument, "unknown \\['attempts'\\]"),
        ("add_with_options", (b"x", {"name": "n" * 257}), NameTooLong, "257 bytes"),
        ("add_bulk_with_options", ([b"x", b"y"], {"id": "one"}), BadArgument, "2 payloads share it"),
        ("add_in", (-1, b"x"), BadArgument, "-1"),
        ("add_at", ("now", b"x"), WrongType, "when_ms='now'"),
        ("upsert_repeatable", ({"job_name": "n", "payload": b"x"},), BadArgument, "no 'pattern'"),
        ("upsert_repeatable", ({**SCHEDULE, "pattern": {"kind": "every", "interval_ms": 0}},), BadInterval, "of 0 ms"),
    ],
)
async def test_what_a_producer_cannot_use_is_refused(
    producer: Producer, method: str, arguments: tuple[Any, ...], error: type[Exception], says: str, group: Group
) -> None:
    with pytest.raises(error, match=says):
        await getattr(producer, method)(*arguments)
    assert await group.length() == 0


async def test_a_consumer_runs_one_handler(server: Server, queue_name: str) -> None:
    async def other(_: RawJob) -> None: ...

    seen: asyncio.Queue[RawJob] = asyncio.Queue()
    async with consuming(server, queue_name, seen.put) as consumer:
        await consumer.worker.started.wait_for(timeout=limit(20))
        with pytest.raises(BadArgument, match="another one runs already"):
            await consumer.run(other)
