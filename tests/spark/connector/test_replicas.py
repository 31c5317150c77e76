"""Tasks that read from replicas: which server they ask, and what they do where it is behind or away."""

import logging
import threading

import pytest

from relevo.errors import BadArgument
from relevo.pipeline.connector import replicas
from relevo.pipeline.connector.offsets import NOTHING, EntryId
from relevo.pipeline.connector.options import SourceOptions
from relevo.pipeline.connector.ranges import IdRange
from relevo.pipeline.connector.stream_reader import StreamReader
from relevo.pipeline.connector.task import read_ranges
from relevo.wire.keys import QueueKeys
from tests.conftest import Launch
from tests.servers.cluster import RedisCluster
from tests.servers.process import ServerProcess, wait_until
from tests.servers.sentinel import Sentinel
from tests.servers.server import Server
from tests.spark.connector.filled import add_events, arrow_schema
from tests.spark.connector.test_readers import all_rows, batch_reader, rows


def asked(server: ServerProcess, command: str) -> int:
    """How often a server was asked this since `CONFIG RESETSTAT`."""
    told: bytes = server.call("INFO", "commandstats")
    lines = [line for line in told.decode().splitlines() if line.startswith(f"cmdstat_{command}:")]
    return int(lines[0].partition("calls=")[2].partition(",")[0]) if lines else 0


def begin_to_count(*servers: ServerProcess) -> None:
    for server in servers:
        server.call("CONFIG", "RESETSTAT")


def source_of(server: Server, queue: str, **options: str) -> SourceOptions:
    return SourceOptions.parse({"url": server.url, "queues": queue, "readFrom": "replica", **options})


def ids_of(source: SourceOptions, part: IdRange) -> list[str]:
    batches = read_ranges(source, [part], arrow_schema("events"), None)
    return [row["_id"] for batch in batches for row in batch.to_pylist()]


def test_the_plan_is_the_master_s_and_a_replica_is_read(sentinel: Sentinel, queue_name: str) -> None:
    ids = add_events(sentinel.url, queue_name, 700)
    reader = batch_reader(sentinel, queues=queue_name, readFrom="replica", pageRows="300")
    parts = reader.partitions()
    begin_to_count(*sentinel.processes, sentinel.replica)
    assert [row["_id"] for row in rows(reader, parts)] == ids
    assert asked(sentinel.replica, "xrange") == 3
    assert asked(sentinel.processes[0], "xrange") == 0


def test_a_stream_is_followed_on_a_replica(sentinel: Sentinel, queue_name: str) -> None:
    first = add_events(sentinel.url, queue_name, 50)
    reader = StreamReader(source_of(sentinel, queue_name), arrow_schema("events"))
    start = reader.initialOffset()
    middle = reader.latestOffset(start)
    then = add_events(sentinel.url, queue_name, 50)
    end = reader.latestOffset(middle)
    batches = [rows(reader, reader.partitions(*ends)) for ends in ((start, middle), (middle, end))]
    reader.stop()
    assert [[row["_id"] for row in batch] for batch in batches] == [first, then]


def test_a_node_of_a_cluster_is_read_by_its_replica(launch: Launch, queue_name: str) -> None:
    cluster = launch(RedisCluster)
    key = QueueKeys(queue_name).events
    replica = cluster.add_replica(key)
    ids = add_events(cluster.url, queue_name, 700)
    begin_to_count(replica, cluster.process_of(key))
    assert [row["_id"] for row in all_rows(batch_reader(cluster, queues=queue_name, readFrom="replica"))] == ids
    assert asked(replica, "xrange") == 1
    assert asked(cluster.process_of(key), "xrange") == 0


def test_a_task_waits_until_the_replica_has_what_was_planned(
    sentinel: Sentinel, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "CATCH_UP_S", 60.0)
    add_events(sentinel.url, queue_name, 2, ids=["5000-0", "6000-0"])
    part, found = IdRange(QueueKeys(queue_name).events.decode(), NOTHING, EntryId(7000)), list[str]()
    begin_to_count(sentinel.replica)
    task = threading.Thread(target=lambda: found.extend(ids_of(source_of(sentinel, queue_name), part)))
    task.start()
    wait_until(lambda: asked(sentinel.replica, "xinfo|stream") > 1, "the task to have asked twice")
    assert not found
    add_events(sentinel.url, queue_name, 1, ids=["7000-0"])
    task.join()
    assert found == ["5000-0", "6000-0", "7000-0"]


def test_the_master_is_read_where_the_replica_does_not_catch_up(
    sentinel: Sentinel, queue_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replicas, "CATCH_UP_S", 0.0)
    caplog.set_level(logging.WARNING, "relevo.spark")
    add_events(sentinel.url, queue_name, 2, ids=["5000-0", "6000-0"])
    begin_to_count(*sentinel.processes, sentinel.replica)
    part = IdRange(QueueKeys(queue_name).events.decode(), NOTHING, EntryId(7000))
    assert ids_of(source_of(sentinel, queue_name), part) == ["5000-0", "6000-0"]
    assert asked(sentinel.replica, "xrange") == 0
    assert f"the replica 127.0.0.1:{sentinel.replica.port} is not read: it has not caught up in 0 s" in caplog.text


def test_the_master_is_read_where_the_replica_is_gone(launch: Launch, queue_name: str) -> None:
    sentinel = launch(Sentinel)
    ids = add_events(sentinel.url, queue_name, 700)
    sentinel.replica.kill()  # sentinels do not know it yet
    reader = batch_reader(sentinel, queues=queue_name, readFrom="replica", timeoutSeconds="10")
    assert [row["_id"] for row in all_rows(reader)] == ids


def test_one_server_alone_has_no_replicas_to_ask_for(redis86: Server) -> None:
    with pytest.raises(BadArgument, match="Give the replica's own address as url"):
        source_of(redis86, "a")


def test_a_replica_itself_can_be_the_source(sentinel: Sentinel, queue_name: str) -> None:
    add_events(sentinel.url, queue_name, 5)
    port = sentinel.replica.port
    options = {"url": f"redis://127.0.0.1:{port}", "queues": queue_name, "source": "the master's name"}
    copied = f"{queue_name}: the replica has it"
    wait_until(lambda: sentinel.replica.call("EXISTS", QueueKeys(queue_name).events) == 1, copied)
    reader = batch_reader(sentinel, **options)
    assert {row["source"] for row in all_rows(reader)} == {"the master's name"}
