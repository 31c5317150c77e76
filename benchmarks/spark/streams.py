"""A stream of events as a busy queue writes them, and two plain processes that only read it: what Spark is compared with."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from typing import Any

from relevo import Job, Queue, Worker
from relevo.broker.address import Address
from relevo.engine.settling.settle_request import SettleResult
from relevo.pipeline.connector.connection import Connection, pack
from relevo.pipeline.connector.offsets import NOTHING
from relevo.pipeline.connector.ranks import sampled_cuts
from relevo.pipeline.connector.streams import states
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys
from tests.spark.connector.filled import directory_of

_PAGE = 1000


def fill(url: str, queue: str, count: int) -> None:
    """Runs that begin and end, and a few failures."""
    key, connection = QueueKeys(queue).events, _connected(url)
    for first in range(0, count, 2000):
        numbers = range(first, min(first + 2000, count))
        connection.send(b"".join(pack(("XADD", key, "*", *_event(number).encode())) for number in numbers))
        for _ in numbers:
            connection.read()
    connection.close()


def _event(number: int) -> EventFields:
    job, now = f"01J9ZQ6XN0{number // 2:016d}", 1_790_000_000_000 + number // 50
    if number % 2 == 0:
        return EventFields("active", job, now, "mail", {"attempt": 1})
    if number % 41 == 0:
        return EventFields("failed", job, now, "mail", {"attempt": 1, "reason": "timed out", "duration_us": 30_000_000})
    return EventFields("completed", job, now, "mail", {"attempt": 1, "duration_us": 1000 + number % 977})


class RawReaders:
    """Two processes with a socket and hiredis each, that read half of the stream and keep nothing. They stay, as Spark's do."""

    def __init__(self, url: str, queue: str) -> None:
        self._url = url
        self._queue = queue
        self._pool: Any = multiprocessing.get_context("spawn").Pool(2)
        self._pool.starmap(read_raw, [(url, queue, "-", "0-1")] * 2, chunksize=1)  # both are there and warm
        directory, key = directory_of(url), QueueKeys(queue).events
        (state,) = states(directory, [key.decode()])
        (self._middle,) = sampled_cuts(directory, key, NOTHING, state.last, 2)
        directory.close()

    def read(self) -> int:
        halves = [(self._url, self._queue, "-", str(self._middle)), (self._url, self._queue, f"({self._middle}", "+")]
        return sum(self._pool.starmap(read_raw, halves, chunksize=1))

    def close(self) -> None:
        self._pool.terminate()
        self._pool.join()


def read_raw(url: str, queue: str, start: str, end: str) -> int:
    """Reads a range, page by page, and returns how many entries it had."""
    key, count, connection = QueueKeys(queue).events, 0, _connected(url)
    while True:
        connection.send(pack(("XRANGE", key, start, end, "COUNT", _PAGE)))
        page = connection.read()
        count += len(page)
        if len(page) < _PAGE:
            connection.close()
            return count
        start = "(" + page[-1][0].decode()


async def _add(url: str, queue: str, jobs: list[dict[str, Any]]) -> float:
    async with Queue(queue, redis_url=url, max_stream_len=100_000_000) as feeding:
        began = time.perf_counter()
        for first in range(0, len(jobs), 10_000):
            await feeding.add_bulk(jobs[first : first + 10_000])
        return time.perf_counter() - began


def bulk_add(url: str, queue: str, count: int, *, keep: bool = False) -> float:
    """How long our own bulk add takes for so many jobs; with `keep` they stay there."""
    jobs: list[dict[str, Any]] = [
        {"name": "mail", "data": {"to": f"user-{number}", "n": number}} for number in range(count)
    ]
    took = asyncio.run(_add(url, queue, jobs))
    if not keep:
        drop(url, queue, count)
    return took


def drain(url: str, queue: str, count: int) -> float:
    """How long one worker of ours takes to run and settle so many jobs that do nothing."""
    return asyncio.run(_drain(url, queue, count))


async def _drain(url: str, queue: str, count: int) -> float:
    done, left = asyncio.Event(), count

    async def nothing(_: Job) -> None:
        return None

    def settled(result: SettleResult) -> None:
        nonlocal left
        left -= result.done
        if left <= 0:
            done.set()

    worker = Worker(queue, nothing, redis_url=url)
    worker.settled.listen(settled)
    began = time.perf_counter()
    async with worker:
        await done.wait()
        return time.perf_counter() - began


def drop(url: str, queue: str, expected: int) -> None:
    """Deletes a queue's stream, which must have so many entries."""
    connection, key = _connected(url), QueueKeys(queue).stream
    length = int(connection.call("XLEN", key))
    connection.call("DEL", key)
    connection.close()
    assert length == expected, f"{queue} has {length} jobs, not {expected}"


def _connected(url: str) -> Connection:
    address = Address.parse(url)
    return Connection(address, address.nodes[0], timeout_s=60)
