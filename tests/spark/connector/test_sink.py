"""The sink's task, without a JVM: rows that name their queue."""

import asyncio
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from relevo import Job, LaneLimit, Queue, Worker
from relevo.errors import BadArgument
from relevo.pipeline.connector.options import SinkOptions
from relevo.pipeline.connector.sink import feed
from relevo.pipeline.connector.source import RelevoSource
from relevo.wire.envelope import Envelope
from relevo.wire.keys import REGISTRY, QueueKeys
from relevo.wire.payload import decode_payload
from tests.servers.server import Server
from tests.spark.connector.filled import send

SCHEMA = StructType([StructField(name, StringType()) for name in ("queue", "name", "data")])


def batch(rows: list[tuple[str | None, int]]) -> Any:
    columns = {
        "queue": [queue for queue, _ in rows],
        "name": ["x"] * len(rows),
        "data": [str(data) for _, data in rows],
    }
    return cast("Any", pa.RecordBatch.from_pydict(columns))  # pyright: ignore[reportUnknownMemberType]


def jobs(server: Server, queue: str) -> list[int]:
    key = QueueKeys(queue).stream
    (entries,) = cast("list[Any]", send(server.url, key, [("XRANGE", key, "-", "+")]))
    return [decode_payload(Envelope.decode(entry[1][1]).payload) for entry in entries]


def test_rows_go_to_the_queue_that_they_name_each_once(server: Server, queue_name: str) -> None:
    sink = SinkOptions.parse({"url": server.url, "queue": queue_name}, queue_by_row=True)
    other = f"{queue_name}-b"
    rows: list[tuple[str | None, int]] = [(other if each % 3 == 0 else None, each) for each in range(3500)]
    given = [batch(rows[:1000]), batch(rows[1000:])]
    assert feed(sink, SCHEMA, iter(given), write="w", epoch=0).written == 3500
    again = feed(sink, SCHEMA, iter(given), write="w", epoch=0)  # a task that runs once more
    assert (again.written, again.passed_over) == (0, 3500)
    assert jobs(server, other) == [each for each in range(3500) if each % 3 == 0]
    assert jobs(server, queue_name) == [each for each in range(3500) if each % 3]
    (named,) = send(server.url, REGISTRY, [("SMEMBERS", REGISTRY)])
    assert set(cast("list[bytes]", named)) == {queue_name.encode(), other.encode()}


def test_a_row_without_a_queue_is_refused_where_the_options_name_none(redis86: Server) -> None:
    sink = SinkOptions.parse({"url": redis86.url}, queue_by_row=True)
    with pytest.raises(BadArgument, match="a row names no queue"):
        feed(sink, SCHEMA, iter([batch([(None, 1)])]), write="w", epoch=0)


async def test_rows_with_a_lane_run_in_their_order_one_at_a_time(redis86: Server, queue_name: str) -> None:
    schema = StructType([StructField(name, StringType()) for name in ("name", "data", "lane")])
    sink = SinkOptions.parse({"url": redis86.url, "queue": queue_name})
    columns = {"name": ["ab", "c"] * 20, "data": [str(each) for each in range(40)], "lane": ["t7"] * 40}
    rows: list[Any] = [pa.RecordBatch.from_pydict(columns)]  # pyright: ignore[reportUnknownMemberType]
    written = [await asyncio.to_thread(feed, sink, schema, iter(rows), write="w", epoch=0) for _ in range(2)]
    assert [each.written for each in written] == [40, 0]  # the second is a task that runs once more
    seen, running, most, done = list[int](), 0, 0, asyncio.Event()

    async def handle(job: Job) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        seen.append(job.data)
        if len(seen) == 40:
            done.set()

    async with Queue(queue_name, redis_url=redis86.url) as queue:
        await queue.lanes.limit("t7", LaneLimit(concurrency=1))
        async with Worker(queue_name, handle, redis_url=redis86.url):
            await done.wait()
    assert (seen, most) == (list(range(40)), 1)


@pytest.mark.refusal
def test_a_queue_column_must_be_text() -> None:
    wrong = StructType([StructField("queue", LongType()), StructField("data", StringType())])
    with pytest.raises(BadArgument, match="Cast it to string"):
        RelevoSource({}).writer(wrong, overwrite=False)
