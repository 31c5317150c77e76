"""Spark, in one import: `from relevo.spark import session, Lake, ingest, build, report`.

Nothing of Spark is imported before one of the names is used, and one that misses a package says what to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relevo.pipeline.commands.build import build
    from relevo.pipeline.commands.report import report
    from relevo.pipeline.lake.lake import Lake
    from relevo.pipeline.session import session

__all__ = ["Lake", "build", "ingest", "report", "session"]


def ingest(lake: Lake, spark: SparkSession, **options: str) -> int:
    """Takes the events that are there now into the lake, each once, and returns how many were new.

    Options are those of the source: `ingest(lake, spark, url="redis://127.0.0.1:6379", queues="mail-*")`. A call that was
    killed is made good by the next one.
    """
    from relevo.pipeline.session import require_spark

    require_spark()
    from relevo.pipeline.commands.ingest import TABLE, Ingest

    before = lake.table(TABLE).rows
    Ingest(lake, spark).once(options)
    return lake.table(TABLE).rows - before  # with Spark Connect batches are taken in a process that counts for itself


if not TYPE_CHECKING:  # a checker knows the names from above, and must not be told that there may be others
    _HOMES = {
        "Lake": "relevo.pipeline.lake.lake",
        "build": "relevo.pipeline.commands.build",
        "report": "relevo.pipeline.commands.report",
        "session": "relevo.pipeline.session",
    }
    _WITHOUT_SPARK = {"Lake", "report"}

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        from importlib import import_module

        from relevo.pipeline.session import require_lake, require_spark

        (require_lake if name in _WITHOUT_SPARK else require_spark)()
        globals()[name] = found = getattr(import_module(_HOMES[name]), name)
        return found
