"""The connector on a real cluster: a master and two workers on loopback, executors in processes of their own."""

import json
import sys
from pathlib import Path

import pytest

from tests.servers.child import Child
from tests.servers.server import Server
from tests.spark.connector.filled import add_events
from tests.spark.connector.test_exactly_once import fed

pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]


def test_the_same_job_runs_on_two_executors(master: str, redis86: Server, queue_name: str, tmp_path: Path) -> None:
    ids = add_events(redis86.url, queue_name, 20_000)
    command = (sys.executable, "-m", "tests.spark.connector.driver", redis86.url, queue_name, tmp_path, master)
    ran = Child.run(*command, logs=[tmp_path / "spark.log"], timeout=500)
    assert ran.code == 0, ran.err[-3000:]
    told = json.loads(ran.out)
    assert sorted(told["ids"]) == sorted(ids)
    assert sorted(fed(redis86, f"{queue_name}-next")) == sorted(ids)
    assert told["partitions"] > 4
    executors, packages = zip(*told["seen"], strict=True)
    assert len(set(executors)) == 2
    assert all("relevo.zip" in package for package in packages)  # the package came with the job
