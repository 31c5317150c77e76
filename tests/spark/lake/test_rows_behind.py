"""How far an ingest is behind, for its log and for Prometheus."""

import logging
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from relevo.cli.pipeline.ingest_metrics import HOST, served
from relevo.errors import CannotListen
from relevo.pipeline.commands.ingest import Batch, Ingest
from relevo.pipeline.commands.rows_behind import rows_behind
from relevo.pipeline.lake.lake import Lake
from tests.servers.server import Server
from tests.spark.connector.filled import add_events


@pytest.mark.parametrize(
    ("end", "latest", "rows"),
    [
        ('{"added": {"a": 3}}', '{"added": {"a": 3}}', 0),
        ({"added": {"a": 3}}, {"added": {"a": 5, "new": 2}}, 4),
        ('{"added": {"a": 9}}', '{"added": {"a": 5}}', 0),  # the stream was deleted and begun again
        ("{}", '{"added": {"a": 5}}', 5),
        ('{"added": {}}', None, None),
        ("null", "null", None),
        ("{'added': {'a': 3}}", "{'added': {'a': 5}}", 2),  # as Spark 4.1 tells it
        ("{'added': {'a': 3}}", "None", None),
    ],
)
def test_rows_behind_are_what_was_added_since_the_end_of_the_batch(end: str, latest: str, rows: int | None) -> None:
    assert rows_behind(end, latest) == rows


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


def test_prometheus_is_told_what_is_behind_and_what_was_taken() -> None:
    port = free_port()
    with served(port) as metrics:
        assert metrics is not None
        metrics.taken(Batch(0, 40, 40, 1.5))
        metrics.taken(Batch(1, 2, 42, 0.5))
        metrics.behind(7)
        with urlopen(f"http://{HOST}:{port}/metrics") as answer:
            said = answer.read().decode()
        with pytest.raises(CannotListen), served(port):
            pass
    for line in ("relevo_ingest_rows_behind 7.0", "relevo_ingest_events_total 42.0", "relevo_ingest_batch_seconds 0.5"):
        assert line in said.splitlines()
    with served(port):  # it was let go
        pass


def test_an_ingest_tells_after_each_batch_how_many_events_are_left(
    spark: SparkSession, redis86: Server, queue_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_events(redis86.url, queue_name, 250)
    told: list[int] = []
    with caplog.at_level(logging.INFO, "relevo.pipeline"):
        job = Ingest(Lake(tmp_path / "lake"), spark, behind=told.append)
        options = {"url": redis86.url, "queues": queue_name, "maxRowsPerTrigger": "100", "source": "here"}
        assert job.once(options) == 250
    assert told[-1] == 0
    assert told == sorted(told, reverse=True)
    assert told[0] in (250, 150)  # Spark may tell of the query's start too
    assert "here: 0 events are behind" in caplog.text
