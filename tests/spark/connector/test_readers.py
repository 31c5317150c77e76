"""The readers without Spark: what they plan and read, on every kind of server."""

import json
import logging
import time
from collections import Counter
from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, InputPartition, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from relevo.errors import BadArgument, DataLost, ServerRefused, Unreachable
from relevo.pipeline.connector import streams
from relevo.pipeline.connector.batch_reader import BatchReader, RangePartition
from relevo.pipeline.connector.offsets import EntryId
from relevo.pipeline.connector.source import RelevoSource
from relevo.pipeline.connector.stream_reader import StreamReader
from relevo.wire.keys import QueueKeys
from tests.servers.acl import AclUser
from tests.servers.process import wait_until
from tests.servers.server import Server
from tests.servers.tls import TlsRedis
from tests.spark.connector.filled import add_events, add_jobs, send, spark_schema

EVERYTHING = ReadAllAvailable()


def batch_reader(server: Server, **options: str) -> BatchReader:
    found = RelevoSource({"url": server.url, **options}).reader(spark_schema(options.get("what", "events")))
    assert isinstance(found, BatchReader)
    return found


def stream_reader(server: Server, **options: str) -> StreamReader:
    found = RelevoSource({"url": server.url, **options}).streamReader(spark_schema(options.get("what", "events")))
    assert isinstance(found, StreamReader)
    _followed.append(found)
    return found


_followed: list[StreamReader] = []


@pytest.fixture(autouse=True)
def stopped() -> Generator[None]:
    """Spark stops a stream reader with its query; here the end of the test does."""
    yield
    while _followed:
        _followed.pop().stop()


def rows(reader: BatchReader | StreamReader, parts: Sequence[InputPartition]) -> list[dict[str, Any]]:
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def all_rows(reader: BatchReader) -> list[dict[str, Any]]:
    return rows(reader, reader.partitions())


def test_a_batch_reads_every_event_once(server: Server, queue_name: str) -> None:
    ids = add_events(server.url, queue_name, 5000)
    reader = batch_reader(server, queues=queue_name, rowsPerPartition="700", pageRows="300")
    assert len(reader.partitions()) > 2
    assert [row["_id"] for row in all_rows(reader)] == ids


def test_a_glob_finds_queues_on_every_server(server: Server, queue_name: str) -> None:
    for number in range(6):
        add_events(server.url, f"{queue_name}-{number}", 3)
    add_events(server.url, "another", 3)
    found = {row["queue"] for row in all_rows(batch_reader(server, queues=f"{queue_name}-*"))}
    assert found == {f"{queue_name}-{number}" for number in range(6)}


def test_a_queue_of_the_registry_is_seen_at_once_and_a_nameless_one_with_the_next_search(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SCAN_EVERY_S", 3600.0)
    add_events(server.url, queue_name, 3, registered=False)
    reader = stream_reader(server, queues=f"{queue_name}*")
    start = reader.initialOffset()
    add_events(server.url, f"{queue_name}-late", 3, registered=False)
    add_events(server.url, f"{queue_name}-named", 3)
    add_events(server.url, "another", 3)
    end = reader.latestOffset(start, EVERYTHING)
    seen = {row["queue"] for row in rows(reader, reader.partitions(start, end))}
    assert seen == {queue_name, f"{queue_name}-named"}
    monkeypatch.setattr(time, "monotonic", lambda: 10.0**9)  # it is time for the next search
    later = reader.latestOffset(end, EVERYTHING)
    assert {row["queue"] for row in rows(reader, reader.partitions(end, later))} == {f"{queue_name}-late"}


def test_after_the_first_plan_the_keys_are_not_searched(
    redis86: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SCAN_EVERY_S", 3600.0)
    add_events(redis86.url, queue_name, 3)
    reader = stream_reader(redis86, queues="*")
    start = reader.initialOffset()
    before = scans(redis86)
    for _ in range(3):
        reader.latestOffset(start, EVERYTHING)
    assert scans(redis86) == before


def scans(server: Server) -> int:
    """How often the server was asked for a page of its keys."""
    said = cast("bytes", server.call("INFO", "commandstats")).decode()
    return int(next((line.split("calls=")[1].split(",")[0] for line in said.split() if "_scan:" in line), "0"))


def test_a_reader_who_may_not_read_the_registry_finds_its_queues_by_search(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, f"{queue_name}-a", 3)
    rules = (f"~{{chasqui:{queue_name}*", "+@read", "+@connection", "+scan")
    with AclUser(redis86, rules=rules) as user:
        reader = RelevoSource({"url": user.url, "queues": f"{queue_name}*"}).reader(spark_schema("events"))
        assert isinstance(reader, BatchReader)
        assert len(all_rows(reader)) == 3


def test_a_queue_that_is_not_there_has_no_rows(redis86: Server, queue_name: str) -> None:
    assert all_rows(batch_reader(redis86, queues=queue_name)) == []


def test_starting_and_ending_offsets_bound_a_batch(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 5, ids=[f"{ms}-0" for ms in (1000, 2000, 3000, 4000, 5000)])

    def found(**options: str) -> list[str]:
        return [row["_id"] for row in all_rows(batch_reader(redis86, queues=queue_name, **options))]

    assert found(startingOffsets="latest") == []
    assert found(startingOffsets=json.dumps({queue_name: "2000-0"})) == ["3000-0", "4000-0", "5000-0"]
    assert found(startingOffsets="1970-01-01T00:00:03Z") == ["3000-0", "4000-0", "5000-0"]
    assert found(endingOffsets=json.dumps({queue_name: "2000-0"})) == ["1000-0", "2000-0"]
    assert found(endingOffsets="1970-01-01T00:00:03Z") == ["1000-0", "2000-0"]


def test_filters_on_time_and_stream_narrow_what_is_planned(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 5, ids=[f"{ms}-0" for ms in (1000, 2000, 3000, 4000, 5000)])

    def planned(*filters: Filter) -> list[str]:
        reader = batch_reader(redis86, queues=queue_name)
        assert list(reader.pushFilters(list(filters))) == list(filters)  # Spark applies them once more
        return [row["_id"] for row in all_rows(reader)]

    since, before = datetime.fromtimestamp(2, UTC), datetime.fromtimestamp(4, UTC)
    assert planned(GreaterThanOrEqual(("_ts",), since), LessThan(("_ts",), before)) == ["2000-0", "3000-0", "4000-0"]
    assert planned(EqualTo(("_ts",), since)) == ["2000-0"]
    assert planned(EqualTo(("_stream",), "another")) == []


def test_filters_on_event_and_name_drop_entries(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 40)
    add_events(redis86.url, queue_name, 40, name="post")
    reader = batch_reader(redis86, queues=queue_name)
    reader.pushFilters([In(("e",), ("active", "completed")), EqualTo(("n",), "post")])
    found = all_rows(reader)
    assert {(row["e"], row["n"]) for row in found} == {("active", "post"), ("completed", "post")}
    assert len(found) == 20


def test_jobs_and_delayed_jobs_are_read(server: Server, queue_name: str) -> None:
    add_jobs(server.url, queue_name, 30)
    keys = QueueKeys(queue_name)
    members = [b"\4\0\0\0mail" + bytes([0x94, 0xA1, 97 + at, 0xC4, 1, 0xC0, 5, 0]) for at in range(25)]
    send(server.url, keys.delayed, [("ZADD", keys.delayed, at // 10, member) for at, member in enumerate(members)])
    jobs = all_rows(batch_reader(server, queues=queue_name, what="stream"))
    assert [row["data"] for row in jobs] == [f'{{"i":{number}}}' for number in range(30)]
    delayed = all_rows(batch_reader(server, queues=queue_name, what="delayed"))
    assert sorted(row["job_id"] for row in delayed) == [chr(97 + at) for at in range(25)]


def test_more_delayed_jobs_of_one_moment_than_a_page_holds_are_read_once(redis86: Server, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    members = [b"\0\0\0\0" + bytes([0x94, 0xA6]) + b"%06d" % at + bytes([0xC4, 1, 0xC0, 5, 0]) for at in range(2500)]
    send(redis86.url, keys.delayed, [("ZADD", keys.delayed, 77, member) for member in members])
    found = [row["job_id"] for row in all_rows(batch_reader(redis86, queues=queue_name, what="delayed"))]
    assert sorted(found) == [f"{at:06d}" for at in range(2500)]


def test_a_delayed_set_cannot_be_followed(redis86: Server, queue_name: str) -> None:
    with pytest.raises(BadArgument, match="no order of arrival"):
        stream_reader(redis86, queues=queue_name, what="delayed")


def test_columns_that_are_not_there_are_named(redis86: Server) -> None:
    with pytest.raises(BadArgument, match="has no such column"):
        RelevoSource({"url": redis86.url}).reader(spark_schema("dlq"))


# --- streaming ------------------------------------------------------------------------------------------------------


def test_a_stream_is_read_batch_after_batch_within_its_limit(server: Server, queue_name: str) -> None:
    ids = add_events(server.url, queue_name, 3000)
    reader = stream_reader(server, queues=queue_name, maxRowsPerTrigger="450", rowsPerPartition="200")
    assert reader.getDefaultReadLimit() == ReadMaxRows(450)
    start, found = reader.initialOffset(), list[str]()
    while (end := reader.latestOffset(start, ReadMaxRows(450))) != start:
        batch = [row["_id"] for row in rows(reader, reader.partitions(start, end))]
        assert 0 < len(batch) <= 450
        found += batch
        start = json.loads(json.dumps(end))
    assert found == ids


def test_the_limit_holds_where_many_entries_share_a_millisecond(redis86: Server, queue_name: str) -> None:
    """Bursts of 200 and 3 a millisecond, and sequence numbers with gaps: the bound may be early, never late."""
    ids = [
        f"{1000 + burst * 7}-{seq * (1 + burst % 3)}" for burst in range(60) for seq in range(200 if burst % 2 else 3)
    ]
    add_events(redis86.url, queue_name, len(ids), ids=ids)
    reader = stream_reader(redis86, queues=queue_name)
    start, found = reader.initialOffset(), list[str]()
    while (end := reader.latestOffset(start, ReadMaxRows(1300))) != start:
        batch = [row["_id"] for row in rows(reader, reader.partitions(start, end))]
        assert 0 < len(batch) <= 1300
        found += batch
        start = end
    assert found == ids


def test_streams_share_the_limit(redis86: Server, queue_name: str) -> None:
    for number, count in enumerate((1000, 20, 1000)):
        add_events(redis86.url, f"{queue_name}-{number}", count)
    reader = stream_reader(redis86, queues=f"{queue_name}-*")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(300))
    found = [row["queue"] for row in rows(reader, reader.partitions(start, end))]
    assert [found.count(f"{queue_name}-{number}") for number in range(3)] == [140, 20, 140]


def test_many_small_streams_are_read_by_one_task_batch_after_batch(server: Server, queue_name: str) -> None:
    reader = stream_reader(server, queues=f"{queue_name}-*")
    start, told = reader.initialOffset(), set[tuple[str, str]]()
    for round_of_adding in range(3):
        expected = {
            (queue, entry)
            for queue in (f"{queue_name}-{number:02}" for number in range(30))
            for entry in add_events(server.url, queue, 3 + round_of_adding)
        }
        if round_of_adding == 1:  # one odd event sends its page the slow way, and changes nothing else
            key = QueueKeys(f"{queue_name}-07").events
            send(server.url, key, [("XADD", key, "*", "e", "active", "id", "x", "ts", "soon")])
        end = json.loads(json.dumps(reader.latestOffset(start, EVERYTHING)))
        (part,) = reader.partitions(start, end)
        found = rows(reader, [part])
        assert {(row["queue"], row["_id"]) for row in found if row["bad"] is None} == expected
        assert len(found) == len(expected) + (round_of_adding == 1)
        told |= expected
        start = end
    assert len(told) == 30 * (3 + 4 + 5)


def test_a_batch_planned_again_has_the_same_partitions(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 2000)
    options = {"queues": queue_name, "rowsPerPartition": "300"}
    first = stream_reader(redis86, **options)
    start = first.initialOffset()
    end = first.latestOffset(start, ReadMaxRows(1500))
    planned = [repr(part) for part in first.partitions(start, end)]
    assert len(planned) > 3
    add_events(redis86.url, queue_name, 2000)
    again = stream_reader(redis86, queues=queue_name, rowsPerPartition="1000")
    assert [repr(part) for part in again.partitions(start, json.loads(json.dumps(end)))] == planned


def test_what_is_available_now_ends_where_it_ended_then(redis86: Server, queue_name: str) -> None:
    ids = add_events(redis86.url, queue_name, 50)
    reader = stream_reader(redis86, queues=f"{queue_name}*")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    add_events(redis86.url, queue_name, 50)
    add_events(redis86.url, f"{queue_name}-late", 50)
    end = reader.latestOffset(start, EVERYTHING)
    assert [row["_id"] for row in rows(reader, reader.partitions(start, end))] == ids
    assert reader.latestOffset(end, EVERYTHING) == end


def test_a_stream_that_appears_later_is_read_from_its_beginning(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 5)
    reader = stream_reader(redis86, queues=f"{queue_name}*", startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start, EVERYTHING) == start
    ids = add_events(redis86.url, f"{queue_name}-late", 3)
    end = reader.latestOffset(start, EVERYTHING)
    assert [row["_id"] for row in rows(reader, reader.partitions(start, end))] == ids


# --- what was trimmed -----------------------------------------------------------------------------------------------


def trimmed(server: Server, queue: str, **options: str) -> list[dict[str, Any]]:
    """Reads ten events, trims the stream to its last five of thirty, and reads on."""
    ids = add_events(server.url, queue, 10)
    reader = stream_reader(server, queues=queue, **options)
    middle = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert len(ids) == 10
    add_events(server.url, queue, 20)
    key = QueueKeys(queue).events
    send(server.url, key, [("XTRIM", key, "MAXLEN", 5)])
    return rows(reader, reader.partitions(middle, reader.latestOffset(middle, EVERYTHING)))


def test_events_that_were_trimmed_before_they_were_read_stop_the_query(server: Server, queue_name: str) -> None:
    with pytest.raises(DataLost, match="trimmed before Spark read them"):
        trimmed(server, queue_name)


def test_lost_events_are_only_told_when_asked_so(
    redis86: Server, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(trimmed(redis86, queue_name, failOnDataLoss="false")) == 5
    assert "trimmed before Spark read them" in caplog.text


def test_trimming_what_was_read_is_no_loss(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 10)
    reader = stream_reader(redis86, queues=queue_name)
    middle = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    ids = add_events(redis86.url, queue_name, 20)
    key = QueueKeys(queue_name).events
    send(redis86.url, key, [("XTRIM", key, "MAXLEN", 21)])
    end = reader.latestOffset(middle, EVERYTHING)
    assert [row["_id"] for row in rows(reader, reader.partitions(middle, end))] == ids


@pytest.mark.parametrize("starting", ["earliest", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.400Z"])
def test_a_trim_between_planning_and_reading_stops_every_range_that_lost_rows(
    redis86: Server, queue_name: str, starting: str
) -> None:
    """Ranges that begin at a mere place lost their rows without a word."""
    add_events(redis86.url, queue_name, 1000, ids=[f"{ms + 1}-0" for ms in range(1000)])
    options = {"queues": queue_name, "startingOffsets": starting, "rowsPerPartition": "200", "pageRows": "50"}
    batch, stream = batch_reader(redis86, **options), stream_reader(redis86, **options)
    start = stream.initialOffset()
    end = json.loads(json.dumps(stream.latestOffset(start, EVERYTHING)))
    planned = [(batch, batch.partitions()), (stream, stream.partitions(start, end))]
    key = QueueKeys(queue_name).events
    send(redis86.url, key, [("XTRIM", key, "MAXLEN", 150)])
    for reader, parts in planned:
        assert len(parts) > 2
        for part in parts:
            assert isinstance(part, RangePartition)
            (asked,) = part.parts
            if asked.start > EntryId(850):  # nothing of it was trimmed
                assert rows(reader, [part])
                continue
            with pytest.raises(DataLost, match="failOnDataLoss=false") as lost:
                rows(reader, [part])
            assert f"({asked.start} to {asked.end} was asked for)" in str(lost.value)


def test_a_trim_of_what_lies_before_the_first_row_is_no_loss(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 100, ids=[f"{ms + 1}-0" for ms in range(100)])
    reader = batch_reader(redis86, queues=queue_name, startingOffsets="1970-01-01T00:00:00.050Z")
    planned = reader.partitions()
    key = QueueKeys(queue_name).events
    send(redis86.url, key, [("XTRIM", key, "MAXLEN", 52)])
    assert len(rows(reader, planned)) == 51


def test_an_offset_of_another_server_is_refused(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 3)
    start = stream_reader(redis86, queues=queue_name, source="eu-1").initialOffset()
    with pytest.raises(BadArgument, match="the checkpoint is of eu-1"):
        stream_reader(redis86, queues=queue_name).latestOffset(start, EVERYTHING)


def test_each_queue_begins_where_its_own_place_says(redis86: Server, queue_name: str) -> None:
    for letter in "abcd":
        add_events(redis86.url, queue_name + letter, 3, ids=["1000-0", "2000-0", "3000-0"])
    places = {f"{queue_name}a": "latest", f"{queue_name}b": "1970-01-01T00:00:02Z", f"{queue_name}c": "2000-0"}
    reader = stream_reader(redis86, queues=f"{queue_name}*", startingOffsets=json.dumps(places))
    start = reader.initialOffset()
    found = rows(reader, reader.partitions(start, reader.latestOffset(start, EVERYTHING)))
    counted = Counter(row["queue"] for row in found)
    assert counted == {f"{queue_name}b": 2, f"{queue_name}c": 1, f"{queue_name}d": 3}


def test_a_batch_waits_for_its_fewest_rows_but_not_for_ever(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 10)
    options = {"queues": queue_name, "minRowsPerTrigger": "20"}
    patient = stream_reader(redis86, **options)
    start = patient.initialOffset()
    assert patient.latestOffset(start, EVERYTHING) == start
    hasty = stream_reader(redis86, **options, maxTriggerDelaySeconds="1")
    assert hasty.latestOffset(start, EVERYTHING) == start
    wait_until(lambda: hasty.latestOffset(start, EVERYTHING) != start, "the longest delay is over")
    add_events(redis86.url, queue_name, 10)
    end = patient.latestOffset(start, EVERYTHING)
    assert len(rows(patient, patient.partitions(start, end))) == 20
    assert patient.latestOffset(end, EVERYTHING) == end


def test_how_many_rows_are_behind_is_logged(redis86: Server, queue_name: str, caplog: pytest.LogCaptureFixture) -> None:
    add_events(redis86.url, queue_name, 100)
    caplog.set_level(logging.INFO, "relevo.spark")
    reader = stream_reader(redis86, queues=queue_name, source="eu-1")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(30))
    reader.latestOffset(end, ReadMaxRows(50))
    assert "eu-1: a batch of about 30 rows of 1 streams; 70 are behind" in caplog.text
    assert "about 50 rows of 1 streams; 20 are behind" in caplog.text


def test_a_stream_under_an_old_name_is_told(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 2, ids=["5000-0", "6000-0"])
    reader = stream_reader(redis86, queues=queue_name)
    middle = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    key = QueueKeys(queue_name).events
    send(redis86.url, key, [("DEL", key)])
    add_events(redis86.url, queue_name, 1, ids=["1000-0"])
    with pytest.raises(DataLost):
        reader.latestOffset(middle, EVERYTHING)


def test_finished_jobs_are_no_loss(redis86: Server, queue_name: str) -> None:
    add_jobs(redis86.url, queue_name, 5)
    reader = stream_reader(redis86, queues=queue_name, what="stream")
    middle = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    key = QueueKeys(queue_name).stream
    send(redis86.url, key, [("XTRIM", key, "MAXLEN", 0)])
    add_jobs(redis86.url, queue_name, 2)
    end = reader.latestOffset(middle, EVERYTHING)
    assert len(rows(reader, reader.partitions(middle, end))) == 2


# --- servers --------------------------------------------------------------------------------------------------------


def test_a_server_behind_tls_and_a_password_is_read(tls_redis: TlsRedis, queue_name: str) -> None:
    ids = add_events(tls_redis.url, queue_name, 5)
    assert [row["_id"] for row in all_rows(batch_reader(tls_redis, queues=queue_name))] == ids


def test_a_master_behind_sentinels_is_read(sentinel: Server, queue_name: str) -> None:
    ids = add_events(sentinel.url, queue_name, 5)
    assert [row["_id"] for row in all_rows(batch_reader(sentinel, queues=queue_name))] == ids


@pytest.mark.parametrize("rules", [["+@read", "-echo"], ["+@read", "+echo"]], ids=["without ECHO", "with it"])
def test_a_user_who_may_only_read_reads(redis86: Server, queue_name: str, rules: list[str]) -> None:
    ids = add_events(redis86.url, queue_name, 700)
    with AclUser(redis86, queue_name, rules=("~*", *rules)) as user:
        reader = RelevoSource({"url": user.url, "queues": queue_name, "pageRows": "300"}).reader(spark_schema("events"))
        assert isinstance(reader, BatchReader)
        assert [row["_id"] for row in all_rows(reader)] == ids


def test_rights_lost_while_reading_are_told(redis86: Server, queue_name: str) -> None:
    add_events(redis86.url, queue_name, 700)
    with AclUser(redis86, queue_name, rules=("~*", "+@read", "+echo")) as user:
        reader = RelevoSource({"url": user.url, "queues": queue_name, "pageRows": "300"}).reader(spark_schema("events"))
        assert isinstance(reader, BatchReader)
        (part,) = reader.partitions()
        read = reader.read(part)
        next(read)
        redis86.call("ACL", "SETUSER", queue_name, "-xrange", "-echo")
        with pytest.raises(ServerRefused, match="NOPERM"):
            list(read)


def test_no_server_is_told_with_its_address() -> None:
    source = RelevoSource({"url": "redis://:sesame@127.0.0.1:1", "queues": "a", "timeoutSeconds": "1"})
    with pytest.raises(Unreachable, match=r"No Redis answers at redis://127\.0\.0\.1:1") as caught:
        source.reader(spark_schema("events")).partitions()
    assert "sesame" not in str(caught.value)


def test_a_key_of_another_type_is_told(redis86: Server, queue_name: str) -> None:
    key = QueueKeys(queue_name).events
    send(redis86.url, key, [("SET", key, "x", "EX", 60)])
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        batch_reader(redis86, queues=queue_name).partitions()
