"""Starts Spark in this process, or joins what spark-submit has started for it.

Under spark-submit the JVM is there already, and its command line has said what it wants: all of that stands, and our own
settings only fill what nobody chose. The same holds for `PYSPARK_SUBMIT_ARGS`.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway  # pyright: ignore[reportUnknownVariableType]
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from relevo.errors import SparkNotStarted
from relevo.pipeline.cause import cause_of
from relevo.pipeline.java import java_home
from relevo.pipeline.scratch import Scratch

_LOOPBACK = "127.0.0.1"
_MASTER, _NAME, _JAVA_OPTIONS = "spark.master", "spark.app.name", "spark.driver.extraJavaOptions"
_HERE = {_MASTER: "local[*]", _NAME: "relevo"}
"""Where nobody says anything."""
_CHOOSES_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_NO_ARGUMENTS = "pyspark-shell"
"""What pyspark hands to spark-submit by itself."""

_scratch: Scratch | None = None
"""Of this process: it starts one JVM, whatever number of sessions it has one after the other."""


def start(master: str | None, app: str | None, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    """A session with a new context. What is None nobody chose."""
    chosen = {**settings, **{key: value for key, value in ((_MASTER, master), (_NAME, app)) if value is not None}}
    scratch = _scratch or Scratch(log)
    try:
        context = SparkContext(conf=_joined(chosen) if _submitted() else _launched(chosen, scratch))
    except Exception as error:  # pyspark raises errors of many kinds here, and Java's own
        raise SparkNotStarted(
            reason=cause_of(error), log="its output" if _submitted() else scratch.keep_log()
        ) from error
    # They write an error with its stack to stderr, besides raising it.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL + 1)
    if not _is_local(context.master or ""):
        context.addPyFile(str(package_archive(scratch.folder)))
    return SparkSession(context)


def kept_log() -> Path | None:
    """The log of the JVM that this process has started, which stays when the process ends."""
    return None if _scratch is None else _scratch.keep_log()


def package_archive(folder: Path) -> Path:
    """This package as one zip file, for `SparkContext.addPyFile`."""
    root = Path(__file__).parents[1]
    archive = folder / "relevo.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                zipped.write(file, file.relative_to(root.parent))
    return archive


def _submitted() -> bool:
    """Whether spark-submit, or a notebook's server, has started the JVM and then this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _joined(chosen: Mapping[str, str]) -> SparkConf:
    """The configuration under spark-submit: its own, and ours where it has none. How the JVM runs is settled."""
    SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage] - there is no public way to reach the JVM
    conf = SparkConf()
    for name, value in chosen.items():
        conf.set(name, value)
    for name, value in _HERE.items():
        conf.setIfMissing(name, value)
    local = _is_local(conf.get(_MASTER) or "")
    if local:
        _name_python()
    for name, value in _settings(local).items():
        conf.setIfMissing(name, value)
    return conf


def _launched(chosen: Mapping[str, str], scratch: Scratch) -> SparkConf:
    """The configuration of a JVM that is started now, or was by the session before this one."""
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", _NO_ARGUMENTS)
    named = re.search(rf"--master[ =]|{re.escape(_MASTER)}=", arguments) is not None
    local = not named if _MASTER not in chosen else _is_local(chosen[_MASTER])
    _name_python(chosen.get("spark.pyspark.python"))
    settings = {**_HERE, **_settings(local), **chosen, "spark.relevo.log": str(scratch.log)}
    settings[_JAVA_OPTIONS] = _java_options(scratch, chosen.get(_JAVA_OPTIONS, ""))
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if SparkContext._gateway is None:  # pyright: ignore[reportPrivateUsage] - there is no public way to ask
        os.environ["JAVA_HOME"] = str(java_home())
        _launch(settings, scratch)
    conf = SparkConf()
    for name, value in settings.items():
        if name in chosen or arguments == _NO_ARGUMENTS:
            conf.set(name, value)
        else:
            conf.setIfMissing(name, value)
    return conf


def _launch(settings: Mapping[str, str], scratch: Scratch) -> None:
    """The JVM of this process. Its arguments may say otherwise than our settings, and come after them."""
    global _scratch
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    scratch.clear_at_exit()
    with scratch.log.open("ab") as out:
        gateway: Any = launch_gateway(conf, popen_kwargs={"stdout": out, "stderr": out})
    scratch.end_with(gateway)
    _scratch = scratch
    SparkContext._ensure_initialized(gateway=gateway)  # pyright: ignore[reportPrivateUsage] - as above


def _name_python(chosen: str | None = None) -> None:
    """The driver's sys.path does not reach Python workers; its interpreter has the package and what it needs."""
    if chosen is not None:
        os.environ["PYSPARK_PYTHON"] = chosen
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _settings(local: bool) -> dict[str, str]:
    settings = {
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
        }
        if os.environ.get("PYSPARK_PYTHON") == sys.executable:  # another one may not have it, nor executors elsewhere
            settings["spark.python.daemon.module"] = "relevo.pipeline.worker_daemon"
    return settings


def _java_options(scratch: Scratch, theirs: str) -> str:
    java = [f"-Dlog4j2.configurationFile={scratch.quiet.as_uri()}", f'"-Djava.io.tmpdir={scratch.aside}"', theirs]
    if not _CHOOSES_COLLECTOR.search(theirs):
        java.append("-XX:+UseParallelGC")  # nobody waits for an answer: less work in all counts, not short pauses
    return " ".join(filter(None, java))
