"""relevo in sessions that others have started: by spark-submit, as Spark Connect, with nothing registered."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from relevo.pipeline.java import java_home
from tests.servers.child import Child
from tests.servers.server import Server
from tests.spark.connector import visitor
from tests.spark.connector.filled import add_events

VISITOR = str(visitor.__file__)
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
OWN_PORT = {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
"""Without the second, which is Spark's own way, every server of Spark Connect on a machine wants port 15002."""
EVENTS = 40
COMPLETED = EVENTS // 4


def told(*command: str | Path, **environment: str) -> dict[str, Any]:
    """What a visitor says, in an environment with its own Python and without ours."""
    ours = {name for name in os.environ if name.startswith(("PYSPARK", "SPARK"))} - {"SPARK_SUBMIT_OPTS"}  # of the JVM
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    env = {**kept, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    done = Child.run(*command, env=env, timeout=300)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    return json.loads(next(line for line in done.out.splitlines() if line.startswith("told ")).removeprefix("told "))


@pytest.mark.whole  # spark-submit starts two JVMs; without it the same session is made in every test here
@pytest.mark.timeout(200)
def test_all_of_spark_submits_command_line_counts(redis86: Server, queue_name: str, tmp_path: Path) -> None:
    add_events(redis86.url, queue_name, EVENTS)
    python = tmp_path / "another-python"
    python.write_text(f'#!/bin/sh\nSTARTED_BY=another exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    settings = ("--conf", "spark.sql.shuffle.partitions=7", "--conf", "spark.ui.enabled=false")
    command = (SUBMIT, "--master", "local[1]", "--name", "nightly", *settings, VISITOR, "submitted")
    assert told(*command, redis86.url, queue_name, PYSPARK_PYTHON=str(python)) == {
        "events": EVENTS,
        "master": "local[1]",
        "name": "nightly",
        "partitions": "7",
        "zone": "UTC",  # what nobody chose is as in any session of ours
        "workers started by": ["another"],
    }


@pytest.mark.whole  # a server and a client of Spark: two minutes where four others run beside them
@pytest.mark.timeout(200)
def test_a_session_of_spark_connect_has_it_all(redis86: Server, queue_name: str, tmp_path: Path) -> None:
    add_events(redis86.url, queue_name, EVENTS)
    command = (sys.executable, VISITOR, "connected", redis86.url, queue_name, tmp_path)
    assert told(*map(str, command), **OWN_PORT) == {
        "version": pyspark.__version__,
        "events": EVENTS,
        "batch": COMPLETED,
        "stream": COMPLETED,
        "work": ["id"],
        "same session": True,
    }


@pytest.mark.whole
@pytest.mark.timeout(400)
def test_a_lake_is_built_through_spark_connect(redis86: Server, queue_name: str, tmp_path: Path) -> None:
    add_events(redis86.url, queue_name, EVENTS)
    command = (sys.executable, VISITOR, "built", redis86.url, queue_name, tmp_path)
    assert told(*map(str, command), **OWN_PORT) == {"ingested": EVENTS, "broken": []}
