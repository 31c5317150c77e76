"""Rows into work queues over HTTP: a real `relevo serve`, the sink's task without a JVM, and then Spark itself."""

import json
import threading
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from relevo.client import Client
from relevo.contract.messages import Message
from relevo.errors import BadArgument, NotFound, RowRefused
from relevo.pipeline.connector.spark_api import arrow_schema
from relevo.pipeline.connector.work_sink import Published, WorkSinkOptions, publish
from relevo.pipeline.connector.work_source import WorkSource
from tests.servers.process import wait_until
from tests.spark.queries import finish
from tests.support.serve_process import ServeProcess, sqlite_in

BODIES = StructType([StructField("body", StringType())])
KEYED = StructType([StructField("idempotency_key", StringType()), StructField("body", StringType())])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServeProcess]:
    """One `relevo serve` for the tests of this file: each has a scope of its own."""
    process = ServeProcess(sqlite_in(tmp_path_factory.mktemp("work")))
    yield process
    process.close()


class Desk:
    """A scope with the queue `orders`."""

    def __init__(self, served: ServeProcess, folder: Path) -> None:
        self.served = served
        self.scope = f"s-{uuid.uuid4().hex[:8]}"
        self.client = Client(served.url, key=served.key)
        self.client.create_scope(self.scope)
        self.client.create_queue(self.scope, "orders")
        (folder / "key").write_text(served.key + "\n")
        self.options = {
            "url": served.url,
            "keyFile": str(folder / "key"),
            "scope": self.scope,
            "queue": "orders",
            "batchRows": "100",
        }

    def publish(self, batches: Iterator[Any], schema: StructType = BODIES, **options: str) -> Published:
        """What a task does, with the first micro-batch of a query called `w`."""
        sink = WorkSinkOptions.parse({**self.options, **options}, queue_by_row=False)
        return publish(sink, schema, batches, write="w", epoch=0)

    def messages(self, queue: str = "orders") -> list[Message]:
        found: list[Message] = []
        cursor = None
        while True:
            page = self.client.search(self.scope, queue=queue, limit=500, cursor=cursor)
            found += page.items
            if (cursor := page.next_cursor) is None:
                return found

    def bodies(self, queue: str = "orders") -> Counter[Any]:
        return Counter(json.dumps(self.client.message(self.scope, each.id).body) for each in self.messages(queue))


@pytest.fixture
def desk(served: ServeProcess, tmp_path: Path) -> Generator[Desk]:
    desk = Desk(served, tmp_path)
    yield desk
    desk.client.close()


def batches(rows: list[dict[str, Any]], size: int = 250, kinds: Any = None) -> Iterator[Any]:
    for at in range(0, len(rows), size):
        yield cast("Any", pa.RecordBatch.from_pylist(rows[at : at + size], schema=kinds))  # pyright: ignore[reportUnknownMemberType]


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"body": f'{{"n": {n}}}'} for n in range(count)]


def test_a_task_that_runs_again_publishes_nothing_twice(desk: Desk) -> None:
    first = desk.publish(batches(numbered(620)))
    again = desk.publish(batches(numbered(620)))
    assert (first.published, first.known, again.published, again.known) == (620, 0, 0, 620)
    assert desk.client.queue(desk.scope, "orders").depth_pending == 620


def test_a_task_that_died_half_way_is_ended_by_the_next(desk: Desk) -> None:
    def dying() -> Iterator[Any]:
        yield from batches(numbered(350), size=70)
        raise OSError("the executor is gone")

    with pytest.raises(OSError, match="gone"):
        desk.publish(dying())
    assert 0 < desk.client.queue(desk.scope, "orders").depth_pending < 350
    ended = desk.publish(batches(numbered(400)))
    assert ended.published + ended.known == 400
    assert desk.client.queue(desk.scope, "orders").depth_pending == 400


@pytest.mark.whole  # a micro-batch that runs again is tested here too
def test_a_server_that_is_killed_in_the_middle_takes_every_row_once(desk: Desk) -> None:
    def with_a_kill() -> Iterator[Any]:
        yield from batches(numbered(300))
        desk.served.kill()
        desk.served.start()
        yield from batches([{"body": f'{{"n": {n}}}'} for n in range(300, 500)])

    assert desk.publish(with_a_kill()).published == 500
    assert desk.client.queue(desk.scope, "orders").depth_pending == 500


def test_rows_in_another_order_are_refused_by_name(desk: Desk) -> None:
    desk.publish(batches(numbered(20)))
    with pytest.raises(RowRefused, match=r"Row 0 of partition 0 .*sortWithinPartitions"):
        desk.publish(batches(numbered(20)[::-1]))
    assert desk.client.queue(desk.scope, "orders").depth_pending == 20


def test_rows_with_a_key_of_their_own_are_known_by_it(desk: Desk) -> None:
    rows = [{"idempotency_key": f"order-{n}", "body": str(n)} for n in range(30)]
    assert desk.publish(batches(rows[:20]), KEYED).published == 20
    again = desk.publish(batches(rows[::-1]), KEYED)
    assert (again.published, again.known) == (10, 20)
    with pytest.raises(RowRefused, match="Two rows with one `idempotency_key`"):
        desk.publish(batches([{"idempotency_key": "order-3", "body": "99"}]), KEYED)


def test_every_option_of_a_message_is_a_column(desk: Desk) -> None:
    desk.client.create_queue(desk.scope, "other")
    schema = StructType(
        [
            StructField("body", StructType([StructField("order", LongType())])),
            StructField("queue", StringType()),
            StructField("message_type", StringType()),
            StructField("priority_tier", StringType()),
            StructField("priority_score", IntegerType()),
            StructField("labels", MapType(StringType(), StringType())),
            StructField("deadline", TimestampType()),
            StructField("correlation_id", StringType()),
        ]
    )
    kinds = arrow_schema(schema)
    deadline = datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)
    row = {
        "body": {"order": 17},
        "queue": "other",
        "message_type": "order",
        "priority_tier": "high",
        "priority_score": 7,
        "labels": [("city", "Turin")],
        "deadline": deadline,
        "correlation_id": "o-17",
    }
    desk.publish(batches([row, {"body": {"order": 18}}], kinds=kinds), schema)
    (listed,) = desk.messages("other")
    told = desk.client.message(desk.scope, listed.id)
    assert (told.body, told.message_type, told.priority_tier) == ({"order": 17}, "order", "high")
    assert (told.priority_score, told.labels, told.correlation_id) == (7, {"city": "Turin"}, "o-17")
    assert told.deadline == deadline.timestamp() * 1000
    assert desk.bodies() == {'{"order": 18}': 1}


def test_rows_wait_while_the_queue_is_full(desk: Desk) -> None:
    desk.client.change_queue(desk.scope, "orders", max_depth=30)
    done: list[Published] = []
    task = threading.Thread(target=lambda: done.append(desk.publish(batches(numbered(50)))))
    task.start()
    wait_until(lambda: desk.client.queue(desk.scope, "orders").depth_pending == 30, "the queue is full")
    for message in desk.client.claim(desk.scope, "orders", batch_size=30):
        desk.client.complete(desk.scope, message)
    task.join()
    assert [each.published for each in done] == [50]


def test_a_queue_that_stays_full_is_told(desk: Desk) -> None:
    desk.client.change_queue(desk.scope, "orders", max_depth=3)
    with pytest.raises(RowRefused, match=r"Row 3 .*no room in time \(QUEUE_FULL\).*fullTimeoutSeconds"):
        desk.publish(batches(numbered(5)), fullTimeoutSeconds="1")


def test_what_the_server_refuses_is_told_with_the_row(desk: Desk) -> None:
    kinds = StructType([StructField("body", StringType()), StructField("priority_tier", StringType())])
    rows = [{"body": "1", "priority_tier": "normal"}, {"body": "2", "priority_tier": "utmost"}]
    with pytest.raises(Exception, match="utmost"):
        desk.publish(batches(rows), kinds)
    with pytest.raises(NotFound, match="nowhere"):
        desk.publish(batches(numbered(1)), queue="nowhere")
    with pytest.raises(BadArgument, match="JSON of row 1"):
        desk.publish(batches([{"body": "1"}, {"body": "no JSON"}]))
    assert desk.publish(batches([{"body": "no JSON"}]), dataFormat="text").published == 1


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("options", "schema", "complaint"),
    [
        ({"url": "postgresql://host/db"}, BODIES, "relevo serve"),
        ({"keyFile": ""}, BODIES, "keyFile"),
        ({"scope": ""}, BODIES, "scope"),
        ({"queue": ""}, BODIES, "queue"),
        ({"batchRows": "1001"}, BODIES, "1000 messages at most"),
        ({"table": "messages"}, BODIES, "none of that name"),
        ({"writeId": "w" * 101}, BODIES, "shorter"),
        ({}, StructType([StructField("data", StringType())]), "no such column"),
        ({}, StructType([StructField("queue", StringType())]), "it is missing"),
        ({}, StructType([*BODIES.fields, StructField("ttl_s", StringType())]), "Cast it to bigint"),
        ({}, StructType([*BODIES.fields, StructField("deadline", StringType())]), "Give a timestamp"),
        ({}, StructType([*BODIES.fields, StructField("labels", StringType())]), "Give a map of strings"),
        ({}, StructType([*BODIES.fields, StructField("delay_s", StringType())]), "Give seconds"),
        ({}, StructType([*BODIES.fields, StructField("parent_id", LongType())]), "Cast it to string"),
    ],
)
def test_what_cannot_be_written_is_told_before_anything_runs(
    options: dict[str, str], schema: StructType, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RELEVO_KEY", raising=False)
    (tmp_path / "key").write_text("rk_x")
    good = {"url": "http://127.0.0.1:1", "keyFile": str(tmp_path / "key"), "scope": "s", "queue": "q"}
    for write in (WorkSource({**good, **options}).writer, WorkSource({**good, **options}).streamWriter):
        with pytest.raises(BadArgument, match=complaint):
            write(schema, overwrite=False)
    with pytest.raises(BadArgument, match="append"):
        WorkSource(good).writer(BODIES, overwrite=True)


@pytest.mark.whole
def test_a_frame_is_published_by_all_its_tasks(spark: SparkSession, desk: Desk) -> None:
    frame = spark.range(0, 300, numPartitions=3).selectExpr("named_struct('n', id) as body", "'order' as message_type")
    for _ in range(2):  # the same write, run again
        frame.write.format("relevo-work").options(**desk.options, writeId="orders-of-today").mode("append").save()
    assert Counter(each.message_type for each in desk.messages()) == {"order": 300}


def test_a_micro_batch_that_runs_again_after_a_crash_publishes_nothing_twice(
    spark: SparkSession, desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()

    def run() -> None:
        source = spark.readStream.schema("n bigint").json(str(tmp_path / "in")).selectExpr("to_json(struct(n)) as body")
        sink = source.writeStream.format("relevo-work").options(**desk.options)
        finish(sink.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start)

    (tmp_path / "in" / "orders.json").write_text("".join(f'{{"n": {n}}}\n' for n in range(40)))
    run()
    last = max((tmp_path / "at" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for file in (last, last.with_name(f".{last.name}.crc")):  # as if the driver had died before it wrote that down
        file.unlink(missing_ok=True)
    run()
    assert desk.bodies() == Counter({json.dumps({"n": n}): 1 for n in range(40)})
