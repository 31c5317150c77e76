"""Builds silver from what bronze has that silver has not: only the cohorts of jobs that were heard of are told again."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.commands.renewal import Renewal
from relevo.pipeline.lake.bronze.events import TOLD, checked, clean, is_platform, minted_ms, quarantined
from relevo.pipeline.lake.gold.failures import reasons
from relevo.pipeline.lake.gold.objectives import Objective
from relevo.pipeline.lake.instant_columns import part_of
from relevo.pipeline.lake.instants import part_number
from relevo.pipeline.lake.silver.attempts import COLUMNS as ATTEMPTS
from relevo.pipeline.lake.silver.attempts import attempts
from relevo.pipeline.lake.silver.cohorts import LOOK_BACK_HOURS, gathered, housed
from relevo.pipeline.lake.silver.jobs import jobs
from relevo.pipeline.lake.silver.partials import counts, sketches
from relevo.pipeline.lake.silver.reviews import reviews
from relevo.pipeline.lake.silver.runs import runs
from relevo.pipeline.lake.version import TableVersion

ROWS_A_BUCKET = 250_000
PARTIALS = ("silver.counts", "silver.sketches", "silver.reasons")


def take_in_events(work: Renewal) -> None:
    """bronze.events -> bronze.quarantine and silver.events, what is new of it."""
    lake = work.lake
    source = lake.table("bronze.events")
    new = _new_of(work, "silver.events", source)
    if new is None:
        work.unchanged("bronze.quarantine", "silver.events")
        return
    told = F.col("wrong").isNull() & F.col("word").isin(*TOLD)
    # Which of the dear parts are needed at all: most often nothing is odd, and every id is a ULID.
    looked = checked(new).agg(
        F.sum(F.col("wrong").isNotNull().cast("int")).alias("bad"),
        F.sum(told.cast("int")).alias("good"),
        F.sum((told & minted_ms(F.col("id")).isNull()).cast("int")).alias("others"),
    )
    (row,) = looked.collect()
    _quarantine(work, source, bad=row["bad"])
    known = _known(work) if row["others"] else None
    # Doubles may stay: whoever tells a job's story passes over them.
    events = gathered(housed(clean(new), known, others=bool(row["others"])), _buckets(row["good"], 1)).drop("bucket")
    work.renew(
        "silver.events",
        lambda: lake.stage("silver.events", events, F.col("cohort_hour")),
        instead=False,
        built_from={"bronze.events": source.version},
    )


def _known(work: Renewal) -> DataFrame | None:
    """Where jobs live whose ids tell nothing: of the cohorts of the last weeks, not of all there ever were."""
    hours = {key: part_number(key, "hour") for key in work.lake.table("silver.jobs").partitions}
    newest = max(hours.values(), default=0)
    recent = [key for key, hour in hours.items() if hour > newest - LOOK_BACK_HOURS]
    there = work.lake.read(work.spark, "silver.jobs", recent) if recent else None
    if there is None:
        return None
    return there.where(minted_ms(F.col("job_id")).isNull()).select("source", "queue", "job_id", "cohort_hour")


def _new_of(work: Renewal, table: str, source: TableVersion) -> DataFrame | None:
    """The rows of a source that a table has not taken yet."""
    new = work.lake.changes(source.table, work.lake.taken(table, source.table), source)
    return work.lake.frame_of(work.spark, source.table, new.added)


def _quarantine(work: Renewal, source: TableVersion, *, bad: int) -> None:
    lake = work.lake
    new = _new_of(work, "bronze.quarantine", source) if bad else None
    if new is None:
        work.unchanged("bronze.quarantine")
        return
    rows = quarantined(new)
    when = F.coalesce(F.unix_millis("_ts"), F.lit(0))
    work.renew(
        "bronze.quarantine",
        lambda: lake.stage("bronze.quarantine", rows, part_of(when, "day")),
        instead=False,
        built_from={"bronze.events": source.version},
    )


def tell_stories(work: Renewal) -> None:
    """silver.events -> silver.attempts and silver.jobs, of the cohorts that changed."""
    lake, spark = work.lake, work.spark
    tables = ("silver.attempts", "silver.jobs")
    if sum(work.stopped(table, "silver.events") for table in tables):
        return
    source = lake.table("silver.events")
    since = min(lake.taken(table, "silver.events") for table in tables)
    cohorts = set(lake.changes("silver.events", since, source).keys)
    events = lake.read(spark, "silver.events", cohorts) if cohorts else None
    if events is None:
        work.unchanged(*tables)
        return
    rows = sum(file.rows for file in source.files(cohorts))
    told = runs(gathered(events, _buckets(rows, len(cohorts)))).persist(StorageLevel.DISK_ONLY)
    try:
        made = {"silver.attempts": attempts(told), "silver.jobs": jobs(told)}
        work.at_once(*(partial(_renew_cohorts, work, table, made[table], cohorts, source.version) for table in tables))
    finally:
        told.unpersist()


def _renew_cohorts(work: Renewal, table: str, rows: DataFrame, cohorts: set[str], version: int) -> None:
    work.renew(
        table,
        lambda: work.lake.stage(table, rows, F.col("cohort_hour"), cohorts),
        built_from={"silver.events": version},
    )


def add_up(work: Renewal, table: str, objectives: Sequence[Objective], *, platform_queues: bool = False) -> None:
    """silver.attempts and silver.jobs -> the partial sums of the cohorts that changed, in one of the tables `PARTIALS`."""
    lake, spark = work.lake, work.spark
    sources = ("silver.attempts", "silver.jobs")
    if work.stopped(table, *sources):
        return
    aims = [f"{aim.queue}={aim.target}@{aim.total_ms}" for aim in objectives]
    versions, notes = {name: lake.table(name) for name in sources}, lake.notes(table)
    other_aims = table == "silver.counts" and notes.get("objectives", aims) != aims
    other_queues = notes.get("platform_queues", False) != platform_queues
    cohorts = set[str]()
    for name, version in versions.items():
        since = 0 if other_aims or other_queues else lake.taken(table, name)
        cohorts |= lake.changes(name, since, version).keys
    came = lake.read(spark, "silver.jobs", cohorts) if cohorts else None
    if came is None:
        work.unchanged(table)
        return
    ran = _attempts_of(work, cohorts)
    if not platform_queues:
        came, ran = (frame.where(~is_platform(F.col("queue"))) for frame in (came, ran))
    rows = _partial(table, ran, came, objectives).repartition("cohort_hour")
    column = "day_ms" if table == "silver.reasons" else "minute_ms"
    work.renew(
        table,
        lambda: lake.stage(table, rows, F.col("cohort_hour"), cohorts, day=part_of(F.col(column), "day")),
        built_from={name: version.version for name, version in versions.items()},
        notes={"platform_queues": platform_queues} | ({"objectives": aims} if table == "silver.counts" else {}),
    )


def _partial(table: str, ran: DataFrame, came: DataFrame, objectives: Sequence[Objective]) -> DataFrame:
    if table == "silver.counts":
        return counts(ran, came, objectives)
    return sketches(ran, came) if table == "silver.sketches" else reasons(ran, came)


def _attempts_of(work: Renewal, cohorts: set[str]) -> DataFrame:
    """Jobs of these cohorts may never have run (a dead letter that was no job): then there are none, with the same columns."""
    found = work.lake.read(work.spark, "silver.attempts", cohorts)
    return work.spark.createDataFrame([], ATTEMPTS) if found is None else found


def take_in_reviews(work: Renewal) -> None:
    """bronze.reviews -> silver.reviews, the days that changed."""
    lake = work.lake
    source = lake.table("bronze.reviews")
    days = lake.changes("bronze.reviews", lake.taken("silver.reviews", "bronze.reviews"), source).keys
    cases = lake.read(work.spark, "bronze.reviews", days) if days else None
    if cases is None:
        work.unchanged("silver.reviews")
        return
    rows = reviews(cases)
    work.renew(
        "silver.reviews",
        lambda: lake.stage("silver.reviews", rows, part_of(F.unix_millis("finished_at"), "day"), days),
        built_from={"bronze.reviews": source.version},
    )


def _buckets(rows: int, cohorts: int) -> int:
    return max(1, min(64, math.ceil(rows / max(1, cohorts) / ROWS_A_BUCKET)))
