"""A real cluster: a master and two workers on loopback, executors in processes of their own."""

import os
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from relevo.pipeline.java import java_home
from relevo.pipeline.session import session
from tests.servers.child import Child

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ON_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
WORKERS = 2


class StandaloneCluster:
    """Started when made; `master` is its URL."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Child] = []
        try:
            master = self._start("org.apache.spark.deploy.master.Master")
            self.master = master.wait_for(r"spark://127\.0\.0\.1:\d+", timeout=120)[0]
            size = ("--cores", "1", "--memory", "1g", self.master)
            worker = "org.apache.spark.deploy.worker.Worker"
            for each in [self._start(worker, *size) for _ in range(WORKERS)]:
                each.wait_for("Successfully registered with master", timeout=120)
        except BaseException:
            self.close()
            raise

    def _start(self, kind: str, *arguments: str) -> Child:
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        self._started.append(
            Child(_SPARK_CLASS, kind, *_ON_LOOPBACK, *arguments, cwd=self._folder, env=environment, merged=True)
        )
        return self._started[-1]

    def close(self) -> None:
        for process in reversed(self._started):
            process.process.terminate()
        for process in self._started:
            process.ended()
            process.close()


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
