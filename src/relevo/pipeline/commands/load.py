"""The load command: rows of any table become jobs of a queue: CSV, JSON, Parquet, SQL on Spark, or a DataFrame of yours."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relevo.errors import BadArgument
from relevo.pipeline.commands.tries import Tries
from relevo.pipeline.session import activated

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
JOB_COLUMNS = ("name", "data", "delay", "job_id", "retry")


@dataclass(frozen=True)
class Loaded:
    """What a load did, or would do."""

    rows: int
    sent: int
    sample: list[dict[str, Any]]


def table(spark: SparkSession, path: str | Path, kind: str | None = None) -> DataFrame:
    """A file or a folder as rows; its name tells what it is unless `kind` does."""
    place = Path(path)
    found = kind or FORMATS.get(place.suffix.lower())
    if found is None or found not in FORMATS.values():
        remedy = "Pass --format csv, json or parquet."
        raise BadArgument(argument="path", value=str(path), reason="its name does not tell its format", remedy=remedy)
    if not place.exists():
        raise BadArgument(argument="path", value=str(path), reason="there is no such file", remedy="Look where it is.")
    reader = spark.read.option("header", True).option("inferSchema", True) if found == "csv" else spark.read
    return reader.format(found).load(str(place))


def query(spark: SparkSession, rows: DataFrame | None, sql: str) -> DataFrame:
    """Rows through SQL, where they are called `rows`; or SQL alone."""
    try:
        return spark.sql(sql, rows=rows) if rows is not None and "{rows}" in sql else _over(spark, rows, sql)
    except (AnalysisException, ParseException) as error:
        said = " ".join(str(error).split("\n")[0].split())
        remedy = "Write Spark SQL; the file's rows are the table `rows`."
        raise BadArgument(argument="sql", value=sql, reason=said, remedy=remedy) from None


def _over(spark: SparkSession, rows: DataFrame | None, sql: str) -> DataFrame:
    if rows is not None:
        rows.createOrReplaceTempView("rows")
    return spark.sql(sql)


def as_jobs(rows: DataFrame, name: str | None) -> DataFrame:
    """Rows with the columns of jobs as they are; any other row becomes the data of a job called `name`."""
    if "data" in rows.columns:
        kept = rows.select(*(column for column in rows.columns if column in JOB_COLUMNS))
        return kept if name is None or "name" in kept.columns else kept.withColumn("name", F.lit(name))
    special = [column for column in ("delay", "job_id", "retry") if column in rows.columns]
    inner = [F.col(f"`{column}`") for column in rows.columns if column not in special]
    return rows.select(F.lit(name or "load").alias("name"), F.to_json(F.struct(*inner)).alias("data"), *special)


def load(
    rows: DataFrame,
    queue: str,
    *,
    name: str | None = None,
    write_id: str | None = None,
    dry_run: bool = False,
    options: Mapping[str, str] | None = None,
    tries: Tries | None = None,
) -> Loaded:
    """Sends every row. The same `write_id` run again after a crash goes on where it stopped instead of sending twice."""
    jobs = as_jobs(rows, name)
    tries = tries or Tries()
    sample, number = tries.run(lambda: ([row.asDict() for row in jobs.limit(5).collect()], jobs.count()), "the load")
    if not dry_run and number:
        # A name in any case: a second try goes on where the first one stopped.
        given = {**(options or {}), "queue": queue, "writeId": write_id or uuid.uuid4().hex}
        activated(rows.sparkSession)
        tries.run(lambda: jobs.write.format("relevo").options(**given).mode("append").save(), "the load")
    return Loaded(number, 0 if dry_run else number, sample)


def write_id_of(path: str | Path, queue: str, sql: str | None) -> str:
    """An id for the load of one file as it is now: loading the same file again after a crash is the same write."""
    place = Path(path)
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    told = [f"{file}:{file.stat().st_size}:{file.stat().st_mtime_ns}" for file in files if file.is_file()]
    return hashlib.sha256("\n".join([queue, sql or "", *told]).encode()).hexdigest()[:32]
