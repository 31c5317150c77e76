"""A real cluster: a master and two workers on loopback, executors in processes of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from relevo.pipeline.session import java_home, session
from tests.servers.process import wait_until

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ON_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
WORKERS = 2


class StandaloneCluster:
    """Started when made; `master` is its URL."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master")
            self.master = _said(log, r"spark://127\.0\.0\.1:\d+")
            size = ("--cores", "1", "--memory", "1g", self.master)
            worker = "org.apache.spark.deploy.worker.Worker"
            for log in [self._start(f"worker-{number}", worker, *size) for number in range(WORKERS)]:
                _said(log, "Successfully registered with master")
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, *arguments: str) -> Path:
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        kind, *rest = arguments
        command = [str(_SPARK_CLASS), kind, *_ON_LOOPBACK, *rest]
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            self._started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=self._folder))
        return log

    def close(self) -> None:
        for process in reversed(self._started):
            process.terminate()
            process.wait()


def on_cluster(master: str, log: Path) -> SparkSession:
    """A driver's session on the cluster, with an executor on each worker."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "700m",
        "spark.cores.max": str(WORKERS),
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
    }
    return session(master, log=log, settings=settings)


def executors(spark: SparkSession) -> list[tuple[int, str]]:
    """The process of each executor, and where its Python workers have this package from."""

    def where(_: Any) -> list[tuple[int, str]]:
        import relevo

        return [(os.getppid(), relevo.__file__)]

    return spark.sparkContext.parallelize(range(40), 40).mapPartitions(where).distinct().collect()


def _said(log: Path, pattern: str) -> str:
    wait_until(lambda: re.search(pattern, log.read_text()) is not None, f"{pattern} in {log.name}", timeout=120)
    found = re.search(pattern, log.read_text())
    assert found is not None
    return found[0]
