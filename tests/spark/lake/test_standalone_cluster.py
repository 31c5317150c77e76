"""The lake on a real cluster: a master and two workers on loopback give the tables that one machine gives."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from relevo.pipeline.commands.build import build
from relevo.pipeline.commands.ingest import Ingest
from relevo.pipeline.lake.lake import Lake
from relevo.wire.events import EventFields
from relevo.wire.keys import QueueKeys
from tests.servers.child import Child
from tests.servers.server import Server
from tests.spark.connector.filled import send
from tests.spark.lake.happenings import Row, invented

pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]

COMPARED = (
    *("bronze.events", "silver.attempts", "silver.jobs"),
    *("gold.throughput", "gold.failures", "gold.slo", "gold.usage", "gold.forecast"),
)
_FIELDS = ("attempt", "duration_us", "backoff_ms", "reason", "prev")


def write_down(url: str, rows: list[Row]) -> None:
    """Invented events as entries of Redis, at their own times."""
    for queue in {row["queue"] for row in rows}:
        key = QueueKeys(queue).events
        commands: list[Any] = []
        for row in rows:
            if row["queue"] == queue:
                extras = {name: row[name] for name in _FIELDS if row.get(name) is not None}
                fields = EventFields(row["e"], row["id"], row["ts"], row["n"] or "", extras).encode()
                commands.append(("XADD", key, row["_id"], *fields))
        send(url, key, commands)


def rows_of(lake: Lake, table: str) -> list[str]:
    """Sums of seconds to the microsecond: the order in which tasks end decides their last digits."""
    found: Any = lake.arrow(table)
    return sorted(
        json.dumps(
            {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()},
            default=str,
            sort_keys=True,
        )
        for row in found.to_pylist()
    )


def test_a_cluster_gives_the_tables_that_one_machine_gives(
    spark: SparkSession, master: str, redis86: Server, tmp_path: Path
) -> None:
    rows = invented(600).rows
    write_down(redis86.url, rows)
    queues = ",".join(sorted({row["queue"] for row in rows}))
    here, there, page = Lake(tmp_path / "here"), Lake(tmp_path / "there"), tmp_path / "report.html"
    command = (sys.executable, "-m", "tests.spark.lake.cluster_driver")
    ran = Child.run(*command, redis86.url, queues, there.root, page, master, timeout=500)
    assert ran.code == 0, ran.err[-3000:]
    told = json.loads(ran.out)
    assert (told["taken"], told["broken"]) == (len(rows), 0)
    assert len({process for process, _ in told["seen"]}) == 2
    assert all("relevo.zip" in package for _, package in told["seen"])  # the package came with the job
    Ingest(here, spark).once({"url": redis86.url, "queues": queues})
    build(here, spark)
    for table in COMPARED:
        assert rows_of(there, table) == rows_of(here, table), table
    assert "</html>" in page.read_text()
