"""Messages of work queues as a stream of changes: a real `relevo serve` writes them, and Spark follows."""

import json
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from sqlalchemy import create_engine, delete, insert, select, text

from relevo.client import Client
from relevo.errors import BadArgument
from relevo.pipeline.connector.message_changes import MessageChanges
from relevo.pipeline.connector.spark_api import ReadAllAvailable
from relevo.pipeline.connector.work_source import WorkSource
from relevo.work.store.tables import archive, audit, messages
from tests.spark.queries import finish
from tests.support.serve_process import ServeProcess, sqlite_in

SOME = StructType(
    [StructField("id", StringType()), StructField("state", StringType()), StructField("attempts", IntegerType())]
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServeProcess]:
    process = ServeProcess(sqlite_in(tmp_path_factory.mktemp("work")))
    yield process
    process.close()


@pytest.fixture
def client(served: ServeProcess) -> Generator[Client]:
    with Client(served.url, key=served.key) as client:
        yield client


@pytest.fixture
def scope(client: Client) -> str:
    """A scope with the queue `orders`."""
    name = f"s-{uuid.uuid4().hex[:8]}"
    client.create_scope(name)
    client.create_queue(name, "orders", max_retries=0)
    return name


class Followed:
    """A stream without Spark, read batch by batch."""

    def __init__(self, url: str, **options: str) -> None:
        found = WorkSource({"url": url, "table": "messages", "startingOffsets": "latest", **options}).streamReader(SOME)
        assert isinstance(found, MessageChanges)
        self.stream = found
        self.at = found.initialOffset()

    def batch(self) -> dict[str, str]:
        """The messages of the next batch and their states."""
        end = json.loads(json.dumps(self.stream.latestOffset(self.at, ReadAllAvailable())))
        rows = self.between(self.at, end)
        self.at = end
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["state"] for row in rows}

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        parts = self.stream.partitions(start, end)
        return [row for part in parts for batch in self.stream.read(part) for row in batch.to_pylist()]


def test_every_message_that_changed_is_a_row_with_its_state(served: ServeProcess, client: Client, scope: str) -> None:
    followed = Followed(served.database_url)
    first, second, third = (
        outcome.id for outcome in client.publish_batch(scope, "orders", [{"body": n} for n in range(3)])
    )
    assert first is not None
    assert second is not None
    assert followed.batch() == {first: "pending", second: "pending", third: "pending"}
    assert followed.batch() == {}
    done, failed = client.claim(scope, "orders", batch_size=2)
    client.complete(scope, done, result={"ok": True})
    client.fail(scope, failed, reason="no such order", dead=True)
    assert followed.batch() == {first: "completed", second: "dead"}  # claimed and settled: one row
    client.cancel(scope, str(third))
    assert followed.batch() == {third: "cancelled"}
    review = client.review_dead_letter(scope, second)
    assert followed.batch() == {second: "in_review"}
    client.withdraw_review(scope, review.id)
    assert followed.batch() == {second: "dead"}  # by way of the review, which names itself only


def test_a_batch_that_is_planned_again_names_the_same_messages(
    served: ServeProcess, client: Client, scope: str
) -> None:
    followed = Followed(served.database_url)
    begun = followed.at
    ids = [client.publish(scope, "orders", n).id for n in range(3)]
    followed.batch()
    client.claim(scope, "orders", batch_size=3)
    again = followed.between(begun, followed.at)
    assert [(row["id"], row["state"], row["attempts"]) for row in again] == [(each, "claimed", 1) for each in ids]


def test_a_message_is_found_in_the_archive_too(served: ServeProcess, client: Client, scope: str) -> None:
    followed = Followed(served.database_url)
    published = client.publish(scope, "orders", 1).id
    client.complete(scope, client.claim(scope, "orders")[0])
    engine = create_engine(served.database_url)
    with engine.begin() as connection:  # as the archiver does an hour later
        row = connection.execute(select(messages).where(messages.c.id == published)).mappings().one()
        kept = {name: row[name] for name in row if name in archive.columns}
        connection.execute(insert(archive), [{**kept, "state": "completed", "archived_at": 1}])
        connection.execute(delete(messages).where(messages.c.id == published))
    engine.dispose()
    assert followed.batch() == {published: "completed"}


@pytest.mark.refusal
def test_the_archive_is_no_stream() -> None:
    with pytest.raises(BadArgument, match="messages"):
        WorkSource({"url": "sqlite:///nowhere.db", "table": "archive"}).streamReader(SOME)


@pytest.mark.whole  # a query goes on from its checkpoint in test_spark.py
@pytest.mark.parametrize("table", ["messages", "audit"])
def test_a_query_that_crashed_goes_on_from_its_checkpoint_and_has_every_change_once(
    spark: SparkSession, served: ServeProcess, client: Client, scope: str, tmp_path: Path, table: str
) -> None:
    url = served.database_url

    def run() -> None:
        source = spark.readStream.format("relevo-work").options(url=url, table=table).load()
        sink = source.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "at"))
        finish(lambda: sink.trigger(availableNow=True).start(str(tmp_path / "table")))

    for n in range(5):
        client.publish(scope, "orders", n)
    run()
    for file in (tmp_path / "at" / "commits").glob("*[0-9]*"):  # it died before it wrote down that its batch is done
        file.unlink()
    for claimed in client.claim(scope, "orders", batch_size=3):
        client.complete(scope, claimed)
    run()
    frame = spark.read.parquet(str(tmp_path / "table"))
    engine = create_engine(url)
    with engine.connect() as connection:
        if table == "audit":
            there = [row[0] for row in connection.execute(select(audit.c.id).order_by(audit.c.id))]
            assert sorted(row["id"] for row in frame.select("id").collect()) == there
        else:
            rows = connection.execute(text("SELECT id, state, updated_at FROM relevo_messages"))
            latest = frame.selectExpr("id", "state", "updated_at").orderBy("updated_at").collect()
            assert {row["id"]: (row["state"], row["updated_at"]) for row in latest} == {
                key: (state, at) for key, state, at in rows
            }
            own = [row["state"] for row in latest if row["state"] == "pending"]
            assert len(own) >= 5
    engine.dispose()


def test_a_schema_of_other_columns_is_refused() -> None:
    wrong = StructType([StructField("id", LongType())])
    with pytest.raises(BadArgument, match="no such column"):
        WorkSource({"url": "sqlite:///nowhere.db", "table": "messages"}).streamReader(wrong)
