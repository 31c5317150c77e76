"""A streaming query as a worker: what its parts do, planned and read as Spark would, on a real server and without a JVM."""

import asyncio
from typing import Any, cast

import pytest
from pyspark.sql.types import StructType

from relevo import Job, Queue, Worker
from relevo.errors import BadArgument
from relevo.pipeline.connector.consume import ConsumeOptions, ConsumeReader
from relevo.pipeline.connector.settle_sink import SettleOptions, settle
from relevo.pipeline.connector.source import RelevoSource
from relevo.pipeline.connector.spark_api import ReadMaxRows, arrow_schema
from relevo.wire.keys import QueueKeys
from tests.pace import limit
from tests.servers.server import Server
from tests.spark.connector.filled import send

ALL = ReadMaxRows(1000)
SCHEMA = StructType.fromJson(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": "string", "nullable": True, "metadata": {}}
            for name in ("job_id", "name", "data", "_id", "_taken_by")
        ],
    }
)


class Query:
    """What Spark does with the source of one query, step by step. A new one with the same offset is a restart."""

    def __init__(self, url: str, queue: str, offset: dict[str, Any] | None = None, **options: str) -> None:
        self.lease_s = round(limit(2))
        given = {"url": url, "queue": queue, "leaseSeconds": f"{self.lease_s}", "rowsPerPartition": "2", **options}
        self.reader = ConsumeReader(ConsumeOptions.parse(given), arrow_schema(SCHEMA))
        self.offset = offset or self.reader.initialOffset()

    def next(self) -> list[dict[str, Any]]:
        """The rows of the next batch; none when there is none."""
        end = self.reader.latestOffset(self.offset, ALL)
        rows = self.planned(end)
        self.offset = end
        return rows

    def planned(self, end: dict[str, Any]) -> list[dict[str, Any]]:
        parts = self.reader.partitions(self.offset, end)
        return [row for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]

    def close(self) -> None:
        self.reader.stop()


async def add(url: str, name: str, *data: int) -> None:
    async with Queue(name, redis_url=url) as queue:
        await queue.add_bulk([{"name": "score", "data": {"x": each}} for each in data])


def held(server: Server, name: str) -> int:
    (pending,) = cast(
        "list[Any]", send(server.url, QueueKeys(name).stream, [("XPENDING", QueueKeys(name).stream, "default")])
    )
    return int(pending[0])


def there(server: Server, name: str) -> int:
    (length,) = cast("list[Any]", send(server.url, QueueKeys(name).stream, [("XLEN", QueueKeys(name).stream)]))
    return int(length)


def test_a_batch_is_taken_under_a_lease_and_settled_once_spark_has_committed_it(
    server: Server, queue_name: str
) -> None:
    asyncio.run(add(server.url, queue_name, *range(5)))
    query = Query(server.url, queue_name)
    rows = query.next()
    assert sorted(row["data"] for row in rows) == [f'{{"x":{each}}}' for each in range(5)]
    assert len({row["_taken_by"] for row in rows}) == 1
    assert (held(server, queue_name), there(server, queue_name)) == (5, 5)
    assert query.next() == []  # Spark asks for more only when it has committed
    assert (held(server, queue_name), there(server, queue_name)) == (0, 0)
    query.close()


def test_a_batch_that_is_planned_again_is_what_is_left_of_it(redis86: Server, queue_name: str) -> None:
    asyncio.run(add(redis86.url, queue_name, *range(4)))
    query = Query(redis86.url, queue_name)
    start = query.offset
    rows = query.next()
    query.close()
    done = settle(SettleOptions.parse({"url": redis86.url, "queue": queue_name}), iter([told(rows[:1])]))
    assert (done.done, done.lost) == (1, 0)
    again = Query(redis86.url, queue_name, start)
    assert [row["_id"] for row in again.planned(query.offset)] == [row["_id"] for row in rows[1:]]
    again.offset = query.offset
    assert again.next() == []
    assert there(redis86, queue_name) == 0
    again.close()


def test_jobs_taken_before_the_batch_was_written_down_are_its_jobs_after_a_crash(
    redis86: Server, queue_name: str
) -> None:
    asyncio.run(add(redis86.url, queue_name, 1, 2))
    killed = Query(redis86.url, queue_name)
    first = killed.next()
    again = Query(redis86.url, queue_name, {**killed.offset, "batch": 0})
    assert again.next() == first
    for query in (killed, again):
        query.close()


def test_a_batch_that_was_committed_and_not_settled_is_settled_by_the_next_driver(
    redis86: Server, queue_name: str
) -> None:
    asyncio.run(add(redis86.url, queue_name, 1, 2, 3, 4))
    killed = Query(redis86.url, queue_name)
    committed = killed.reader.latestOffset(killed.offset, ReadMaxRows(2))
    running = {**committed, "batch": 2}
    assert killed.reader._open().take(committed["taker"], 2, 2)  # pyright: ignore[reportPrivateUsage] - and dies before it settles
    again = Query(redis86.url, queue_name, committed)
    assert sorted(row["data"] for row in again.planned(running)) == ['{"x":3}', '{"x":4}']
    again.close()
    assert (held(redis86, queue_name), there(redis86, queue_name)) == (2, 2)
    killed.close()


@pytest.mark.whole  # a driver of its own, which dies
def test_leases_are_renewed_while_a_batch_runs_and_lapse_when_the_driver_is_gone(
    redis86: Server, queue_name: str
) -> None:
    asyncio.run(add(redis86.url, queue_name, 1))
    query, other = Query(redis86.url, queue_name), Query(redis86.url, queue_name)
    assert len(query.next()) == 1
    keys = QueueKeys(queue_name)
    renewed = query.reader._open().renewed  # pyright: ignore[reportPrivateUsage] - the signal of the thread
    for _ in range(4):  # longer than the lease
        renewed.clear()
        assert renewed.wait(limit(20))
        asked = ("XPENDING", keys.stream, "default", "-", "+", "10")
        (pending,) = cast("list[Any]", send(redis86.url, keys.stream, [asked]))
        assert pending[0][2] < query.lease_s * 1000
    assert other.next() == []
    query.close()  # nobody renews any more
    taken = until_taken(other)
    assert [row["data"] for row in taken] == ['{"x":1}']
    other.close()


def until_taken(query: Query) -> list[dict[str, Any]]:
    """What comes once a lease has lapsed; the test's own limit ends the wait."""
    while not (rows := query.next()):
        pass
    return rows


def told(rows: list[dict[str, Any]], **columns: Any) -> Any:
    import pyarrow as pa

    named = {"_id": [row["_id"] for row in rows], "_taken_by": [row["_taken_by"] for row in rows]}
    return pa.RecordBatch.from_pydict({**named, **{key: [value] * len(rows) for key, value in columns.items()}})  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def test_a_batch_whose_entries_lie_between_those_of_others_is_its_own_jobs(server: Server, queue_name: str) -> None:
    asyncio.run(add(server.url, queue_name, *range(20)))
    query, key = Query(server.url, queue_name, rowsPerPartition="20"), QueueKeys(queue_name).stream
    taken = [row["_id"] for row in query.next()]
    theirs = [entry_id for place, entry_id in enumerate(taken) if place % 4]
    send(server.url, key, [("XCLAIM", key, "default", "another", 0, *theirs), ("XDEL", key, taken[0])])
    end, query.offset = query.offset, {**query.offset, "batch": 0}
    rows = query.planned(end)
    assert [row["_id"] for row in rows] == [entry_id for entry_id in taken[1:] if entry_id not in theirs]
    assert held(server, queue_name) == len(taken) - 1  # what was deleted is nobody's any more
    query.offset = end
    assert query.next() == []
    assert (
        there(server, queue_name) == held(server, queue_name) == len(theirs)
    )  # no lease of ours, so not ours to settle
    query.close()


def test_a_row_with_an_error_is_tried_again_and_in_the_end_dead(server: Server, queue_name: str) -> None:
    asyncio.run(add(server.url, queue_name, 1, 2, 3))
    query = Query(server.url, queue_name)
    options = SettleOptions.parse({"url": server.url, "queue": queue_name, "maxAttempts": "2"})
    first, second, third = query.next()
    assert settle(options, iter([told([first], error="no model")])).retried == 1
    assert settle(options, iter([told([second], error="never", final=True)])).dead == 1
    assert settle(options, iter([told([first], error="no model")])).lost == 1  # a task that runs again
    assert settle(options, iter([told([third])])).done == 1
    (again,) = until_taken(query)
    assert again["job_id"] == first["job_id"]
    assert settle(options, iter([told([again], error="no model")])).dead == 1
    letters = asyncio.run(dead(server.url, queue_name))
    assert letters == {
        ("retries_exhausted", "RuntimeError: no model"),
        ("unrecoverable", "relevo.errors.UnrecoverableError: never"),
    }
    assert query.next() == []
    query.close()


async def dead(url: str, name: str) -> set[tuple[str, str]]:
    async with Queue(name, redis_url=url) as queue:
        return {(letter["reason"], letter["detail"]) for letter in await queue.peek_dlq(10)}


def test_workers_and_queries_share_a_queue(redis86: Server, queue_name: str) -> None:
    asyncio.run(add(redis86.url, queue_name, *range(20)))
    query = Query(redis86.url, queue_name, maxRowsPerTrigger="8")
    end = query.reader.latestOffset(query.offset, ReadMaxRows(8))
    ours = {row["data"] for row in query.planned(end)}
    theirs = asyncio.run(work(redis86.url, queue_name, 12))
    assert len(ours) == 8
    assert ours.isdisjoint(theirs)
    assert len(ours | theirs) == 20
    query.offset = end
    assert query.next() == []
    assert there(redis86, queue_name) == 0
    query.close()


async def work(url: str, name: str, count: int) -> set[str]:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def handle(job: Job) -> None:
        seen.put_nowait(f'{{"x":{job.data["x"]}}}')

    async with Worker(name, handle, redis_url=url):
        return {await seen.get() for _ in range(count)}


def test_a_paused_queue_gives_nothing_and_a_query_for_now_stops_after_what_waited(
    redis86: Server, queue_name: str
) -> None:
    asyncio.run(add(redis86.url, queue_name, 1, 2))
    asyncio.run(pause(redis86.url, queue_name, paused=True))
    query = Query(redis86.url, queue_name)
    assert query.next() == []
    asyncio.run(pause(redis86.url, queue_name, paused=False))
    query.reader.prepareForTriggerAvailableNow()
    asyncio.run(add(redis86.url, queue_name, 3))
    assert len(query.next()) == 2
    assert query.next() == []
    assert there(redis86, queue_name) == 1
    query.close()


async def pause(url: str, name: str, *, paused: bool) -> None:
    async with Queue(name, redis_url=url) as queue:
        await (queue.pause() if paused else queue.resume())


@pytest.mark.refusal
def test_what_cannot_be_consumed_or_settled_is_refused_by_name() -> None:
    source = RelevoSource({"mode": "consume", "queue": "q"})
    with pytest.raises(BadArgument, match="readStream"):
        source.reader(SCHEMA)
    with pytest.raises(BadArgument, match=r'option\("queue"'):
        RelevoSource({"mode": "consume"}).schema()
    with pytest.raises(BadArgument, match='"consume" or "settle"'):
        RelevoSource({"mode": "eat"}).schema()
    with pytest.raises(BadArgument, match="a settle has no such column"):
        RelevoSource({"mode": "settle", "queue": "q"}).writer(SCHEMA, overwrite=False)
