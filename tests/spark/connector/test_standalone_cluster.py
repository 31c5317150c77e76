"""A real cluster: a master and two workers on loopback, executors in processes of their own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pyspark
import pytest

from relevo.pipeline.session import java_home
from tests.servers.process import wait_until
from tests.servers.server import Server
from tests.spark.connector.filled import add_events
from tests.spark.connector.test_exactly_once import fed

pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of the cluster's master."""
    folder = tmp_path_factory.mktemp("cluster")
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = folder / f"{name}.log"
        with log.open("wb") as out:
            command = [str(_SPARK_CLASS), *arguments]
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=folder))
        return log

    def said(log: Path, pattern: str) -> str:
        wait_until(lambda: re.search(pattern, log.read_text()) is not None, f"{pattern} in {log.name}", timeout=120)
        found = re.search(pattern, log.read_text())
        assert found is not None
        return found[0]

    try:
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = said(start("master", "org.apache.spark.deploy.master.Master", *ports), r"spark://127\.0\.0\.1:\d+")
        logs = [
            start(f"worker-{n}", "org.apache.spark.deploy.worker.Worker", *ports, "--cores", "1", "--memory", "1g", url)
            for n in range(2)
        ]
        for log in logs:
            said(log, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def test_the_same_job_runs_on_two_executors(master: str, redis86: Server, queue_name: str, tmp_path: Path) -> None:
    ids = add_events(redis86.url, queue_name, 20_000)
    command = [sys.executable, "-m", "tests.spark.connector.driver", redis86.url, queue_name, str(tmp_path), master]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout)
    assert sorted(told["ids"]) == sorted(ids)
    assert sorted(fed(redis86, f"{queue_name}-next")) == sorted(ids)
    assert told["partitions"] > 4
    executors, packages = zip(*told["seen"], strict=True)
    assert len(set(executors)) == 2
    assert all("relevo.zip" in package for package in packages)  # the package came with the job
