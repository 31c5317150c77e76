"""The sink without Spark: every row once, whoever runs the partition again, on every kind of server."""

import logging
import threading
import time
from collections.abc import Iterator
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import cast

import pytest

from relevo.errors import QueueFull, RowsChanged, ServerRefused
from relevo.pipeline.connector.connection import Connection
from relevo.pipeline.connector.feed import CHUNK, Feed, Row
from relevo.pipeline.connector.options import SinkOptions
from relevo.wire.delayed import DelayedMember
from relevo.wire.envelope import Envelope
from relevo.wire.keys import QueueKeys
from tests.pace import limit
from tests.servers.server import Server
from tests.spark.connector.filled import directory_of, send


def made(first: int, last: int, *, chosen: bool = False, run_at: int | None = None) -> Iterator[Row]:
    for number in range(first, last):
        envelope = Envelope(f"job-{number}", b"\xc0", 5).encode()
        member = DelayedMember("mail", envelope).encode() if run_at else b""
        yield Row(envelope, b"mail", run_at, f"job-{number}" if chosen else "", member, b"%d" % number)


def feed_of(server: Server, queue: str, *, epoch: int = 0, partition: int = 0, **options: str) -> Feed:
    sink = SinkOptions.parse({"url": server.url, "queue": queue, **options})
    return Feed(directory_of(server.url), sink, write="w", partition=partition, epoch=epoch)


def written(server: Server, queue: str) -> list[str]:
    """The ids of the jobs in the stream, in their order."""
    key = QueueKeys(queue).stream
    (entries,) = send(server.url, key, [("XRANGE", key, "-", "+")])
    assert isinstance(entries, list)
    return [Envelope.decode(entry[1][1]).id for entry in entries]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes every connection that a test opened: feeds leave theirs to their task."""
    opened: list[Connection] = []
    make = Connection._sign_in  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Connection, "_sign_in", lambda self, address: (opened.append(self), make(self, address))[1])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    yield
    for connection in opened:
        connection.close()


def jobs(first: int, last: int) -> list[str]:
    return [f"job-{number}" for number in range(first, last)]


def test_rows_become_jobs_in_their_order(server: Server, queue_name: str) -> None:
    assert feed_of(server, queue_name).write(made(0, 2500)) == 2500
    assert written(server, queue_name) == jobs(0, 2500)


def test_a_partition_that_runs_again_adds_nothing(server: Server, queue_name: str) -> None:
    feed_of(server, queue_name).write(made(0, 2500))
    again = feed_of(server, queue_name)
    assert (again.write(made(0, 2500)), again.passed_over) == (0, 2500)
    assert written(server, queue_name) == jobs(0, 2500)


def test_a_partition_goes_on_where_a_killed_task_stopped(server: Server, queue_name: str) -> None:
    def dies() -> Iterator[Row]:
        yield from made(0, 2300)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        feed_of(server, queue_name).write(dies())
    assert feed_of(server, queue_name).write(made(0, 2500)) <= 1500
    assert written(server, queue_name) == jobs(0, 2500)


def test_batches_and_partitions_do_not_take_each_other_for_the_same(redis86: Server, queue_name: str) -> None:
    for epoch, partition in ((0, 0), (0, 1), (1, 0)):
        feed_of(redis86, queue_name, epoch=epoch, partition=partition).write(made(0, 10))
    assert written(redis86, queue_name) == jobs(0, 10) * 3


def test_a_task_of_a_batch_long_done_adds_nothing(redis86: Server, queue_name: str) -> None:
    feed_of(redis86, queue_name, epoch=4).write(made(0, 10))
    feed_of(redis86, queue_name, epoch=5).write(made(10, 20))
    with pytest.raises(RowsChanged):
        feed_of(redis86, queue_name, epoch=4).write(made(0, 10))
    assert written(redis86, queue_name) == jobs(0, 20)


def test_other_rows_in_a_partition_that_was_begun_stop_the_write(redis86: Server, queue_name: str) -> None:
    feed_of(redis86, queue_name).write(made(0, CHUNK + 1))
    with pytest.raises(RowsChanged, match="sortWithinPartitions"):
        feed_of(redis86, queue_name).write(made(5, CHUNK + 6))
    with pytest.raises(RowsChanged):
        feed_of(redis86, queue_name).write(made(0, CHUNK))
    assert len(written(redis86, queue_name)) == CHUNK + 1


def test_rows_with_ids_of_their_own_may_come_in_any_order(server: Server, queue_name: str) -> None:
    feed_of(server, queue_name).write(made(0, 1500, chosen=True))
    feed_of(server, queue_name).write(made(500, 1700, chosen=True))
    assert sorted(written(server, queue_name)) == sorted(jobs(0, 1700))


def test_an_id_twice_in_one_write_is_one_job(redis86: Server, queue_name: str) -> None:
    feed_of(redis86, queue_name).write([*made(0, 3, chosen=True), *made(0, 3, chosen=True)])
    assert written(redis86, queue_name) == jobs(0, 3)


def test_delayed_rows_wait_in_the_delayed_set(server: Server, queue_name: str) -> None:
    later = int(time.time() * 1000) + 60_000
    feed_of(server, queue_name).write([*made(0, 3, run_at=later), *made(3, 5, run_at=later, chosen=True)])
    keys = QueueKeys(queue_name)
    (members,) = send(server.url, keys.delayed, [("ZRANGE", keys.delayed, 0, -1)])
    assert isinstance(members, list)
    found: list[bytes] = sorted(cast("list[bytes]", members))
    assert found == [row.member for row in made(0, 5, run_at=later)]
    (ttl,) = send(server.url, keys.delayed, [("TTL", keys.once("job-4"))])
    assert isinstance(ttl, int)
    assert 3600 < ttl <= 3662


def test_two_attempts_at_once_add_every_row_once(server: Server, queue_name: str) -> None:
    counts: list[int] = []

    def attempt() -> None:
        counts.append(feed_of(server, queue_name).write(made(0, 20 * CHUNK)))

    twins = [threading.Thread(target=attempt) for _ in range(2)]
    for twin in twins:
        twin.start()
    for twin in twins:
        twin.join()
    assert sum(counts) == 20 * CHUNK
    assert written(server, queue_name) == jobs(0, 20 * CHUNK)


def test_a_full_queue_makes_the_sink_wait_for_room(server: Server, queue_name: str) -> None:
    key = QueueKeys(queue_name).stream
    send(server.url, key, [("XADD", key, "*", "d", "x") for _ in range(1500)])
    feeding = feed_of(server, queue_name, maxStreamLen="2000")
    counts: list[int] = []
    said: SimpleQueue[logging.LogRecord] = SimpleQueue()
    hearing = QueueHandler(said)
    logging.getLogger("relevo.spark").addHandler(hearing)
    try:
        thread = threading.Thread(target=lambda: counts.append(feeding.write(made(0, 1800))))
        thread.start()
        assert "is full (1500 jobs)" in said.get(timeout=limit(20)).getMessage()  # a thousand find no room
        for left in (1400, 900):  # workers finish jobs: not enough of them, then enough
            send(server.url, key, [("XTRIM", key, "MAXLEN", left)])
        assert "is full (1900 jobs)" in said.get(timeout=limit(20)).getMessage()  # nor do the other eight hundred
        assert send(server.url, key, [("XLEN", key)]) == [1900]
        send(server.url, key, [("XTRIM", key, "MAXLEN", 500)])
        thread.join(limit(20))
    finally:
        logging.getLogger("relevo.spark").removeHandler(hearing)
    assert counts == [1800]
    assert send(server.url, key, [("XLEN", key)]) == [1300]


def test_a_queue_that_stays_full_is_told(redis86: Server, queue_name: str) -> None:
    key = QueueKeys(queue_name).stream
    send(redis86.url, key, [("XADD", key, "*", "d", "x") for _ in range(10)])
    with pytest.raises(QueueFull, match="holds 10 jobs, its cap is 12"):
        feed_of(redis86, queue_name, maxStreamLen="12", fullTimeoutSeconds="1").write(made(0, 3))


def test_a_key_of_another_type_is_refused_before_anything_is_written(redis86: Server, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    send(redis86.url, keys.stream, [("SET", keys.stream, "x", "EX", 60)])
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        feed_of(redis86, queue_name).write(made(0, 3))
    assert send(redis86.url, keys.stream, [("EXISTS", keys.sent("spark:w:0"))]) == [0]
