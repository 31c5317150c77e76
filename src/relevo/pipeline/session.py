"""A Spark session that works where it is started: finds Java and Python, stays on loopback, keeps Spark's noise in a file.

`spark = session()` is all on one machine. Under spark-submit it is the session that the command line describes, and with
`SPARK_REMOTE` or a master such as `sc://host` one of Spark Connect. With a master elsewhere (`spark://...`) the package is
shipped to the executors; they need its dependencies (pyarrow, hiredis, msgspec, msgpack) in their Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from relevo.errors import DependencyMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = ["session"]

_LAKE = ("pyarrow", "deltalake")
_REMOTE = "sc://"


def session(
    master: str | None = None,
    *,
    app: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A session with the data sources `relevo` and `relevo-work`; the running one when there is one.

    `master` defaults to what spark-submit or `SPARK_REMOTE` say, else to all cores of this machine; `app` to spark-submit's
    `--name`, else to `relevo`. What you name here counts more. `log` is where a JVM that is started here writes what it has to
    say; without it a file in the system's folder for temporary files, whose name `log_of(spark)` tells, and which goes when the
    process ends. A process starts its JVM once: sessions that come after the first write to the log of the first.
    """
    require_spark()
    spark = running()
    if spark is None and _asks_for_remote(master):
        spark = _connect(master, app, settings or {})
    if spark is None:
        from relevo.pipeline.start import start

        spark = start(master, app, settings or {}, log)
    for source in sources():
        _register(spark, source)
    return spark


def sources() -> list[type[DataSource]]:
    """The data sources that can work here: that of work queues needs SQLAlchemy."""
    from relevo.pipeline.connector.source import RelevoSource

    if find_spec("sqlalchemy") is None:
        return [RelevoSource]
    from relevo.pipeline.connector.work_source import WorkSource

    return [RelevoSource, WorkSource]


def require_spark() -> None:
    """Says what to install where pyspark or pyarrow is missing."""
    _require("pyspark", *_LAKE, extra="relevo[spark]")


def require_lake() -> None:
    """As `require_spark`, for what reads tables without Spark."""
    _require(*_LAKE, extra="relevo[lake]")


def _require(*packages: str, extra: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise DependencyMissing(what="the data pipeline", package=package, extra=extra)


def running() -> SparkSession | None:
    """The session of this process, whichever thread started it, made the active one of this thread; None when there is none."""
    if "pyspark" not in sys.modules:
        return None
    if (remote := _running_remotely()) is not None:
        return remote
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
    started = sys.modules.get("relevo.pipeline.start")
    kept = None if started is None else cast("Path | None", started.kept_log())
    return kept or log_of(spark)


def _register(spark: SparkSession, source: type[DataSource]) -> None:
    """Spark finds `pyspark_relevo` by itself where its Python has this package, and then refuses to be told once more."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def _asks_for_remote(master: str | None) -> bool:
    if master is not None:
        return master.startswith(_REMOTE)
    return "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ


def _connect(master: str | None, app: str | None, settings: Mapping[str, str]) -> SparkSession:
    """A session of Spark Connect. The server's Python needs this package; its JVM is the server's own."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    if master is not None:
        builder = builder.remote(master)
    if app is not None:
        builder = builder.appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return cast("SparkSession", builder.getOrCreate())


def _running_remotely() -> SparkSession | None:
    connect: Any = sys.modules.get("pyspark.sql.connect.session")
    if connect is None:
        return None
    return connect.SparkSession.getActiveSession() or connect.SparkSession._get_default_session()
