"""Builds the tables that users declare as SQL files, each when a table it names or its own text has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.cause import cause_of
from relevo.pipeline.commands.renewal import Renewal
from relevo.pipeline.lake.lake import Staged
from relevo.pipeline.lake.own import OwnTable
from relevo.pipeline.lake.spark_tables import register

_TEXT = "query"


def build_own(work: Renewal, tables: Sequence[OwnTable]) -> None:
    """A query that fails stops its own table and those that are made of it, as an expectation that is broken does."""
    known = set[str]()
    for table in tables:
        if table.circle:
            work.refused(table.name, f"it is made of itself: {' of '.join(table.circle)}")
            continue
        if work.stopped(table.name, *table.sources) or not _is_due(work, table):
            continue
        # One of these may have just been built, and got other columns.
        register(work.lake.storage, work.spark, {*table.sources} - known)
        known |= {*table.sources}
        try:
            _build(work, table)
        except (PySparkException, Py4JError) as error:
            work.refused(table.name, cause_of(error))


def _is_due(work: Renewal, table: OwnTable) -> bool:
    lake, name = work.lake, table.name
    same = lake.notes(name).get(_TEXT) == table.digest
    if same and not any(lake.changes(source, lake.taken(name, source)).keys for source in table.sources):
        work.unchanged(name)
        return False
    return True


def _build(work: Renewal, table: OwnTable) -> None:
    lake = work.lake
    versions = {source: lake.table(source).version for source in table.sources}
    # Only a query can stand inside of another one; what writes or drops cannot.
    rows = work.spark.sql(f"SELECT * FROM (\n{table.query}\n) AS asked")  # noqa: S608 - the query is the user's own

    def stage() -> Staged:
        return replace(lake.stage(table.name, _few_files(rows), F.lit(0), ["all"]), spec=table.spec)

    work.renew(table.name, stage, built_from=versions, notes={_TEXT: table.digest})


def _few_files(rows: DataFrame) -> DataFrame:
    """An answer is most often small, and Spark would write a file for each task."""
    return rows.coalesce(4)
