"""Builds silver from what bronze has that silver has not: only the homes (hours) of jobs that were heard of are told again."""

# pyarrow comes without types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from relevo.pipeline.jobs.renewal import Renewal
from relevo.pipeline.lake.bronze.events import TOLD, checked, clean, minted_ms, quarantined
from relevo.pipeline.lake.gold.failures import reasons
from relevo.pipeline.lake.gold.objectives import Objective
from relevo.pipeline.lake.instants import DAY_MS, part_of
from relevo.pipeline.lake.lake import Lake, Staged
from relevo.pipeline.lake.silver.attempts import COLUMNS as ATTEMPTS
from relevo.pipeline.lake.silver.attempts import attempts
from relevo.pipeline.lake.silver.homes import gathered, housed
from relevo.pipeline.lake.silver.jobs import jobs
from relevo.pipeline.lake.silver.partials import counts, sketches
from relevo.pipeline.lake.silver.reviews import reviews
from relevo.pipeline.lake.silver.runs import runs

ROWS_A_SLOT = 250_000
PARTIALS = ("silver.counts", "silver.sketches", "silver.reasons")


def take_in_events(work: Renewal) -> None:
    """bronze.events -> bronze.quarantine and silver.events, what is new of it."""
    lake, spark = work.lake, work.spark
    source = lake.manifest("bronze.events")
    ours = lake.manifest("silver.events")
    since = ours.built_from.get("bronze.events", 0)
    new = lake.read(spark, "bronze.events", since=since)
    if new is None:
        work.unchanged("bronze.quarantine", "silver.events")
        return
    told = F.col("wrong").isNull() & F.col("e").isin(*TOLD)
    # Which of the dear parts are needed at all: most often nothing is odd, and every id is a ULID.
    looked = checked(new).agg(
        F.sum(F.col("wrong").isNotNull().cast("int")).alias("bad"),
        F.sum(told.cast("int")).alias("good"),
        F.sum((told & minted_ms(F.col("id")).isNull()).cast("int")).alias("others"),
    )
    (row,) = looked.collect()
    _quarantine(work, source.version, bad=row["bad"])
    known = None
    if row["others"]:
        jobs_there = lake.read(spark, "silver.jobs")
        known = None if jobs_there is None else jobs_there.where(minted_ms(F.col("job")).isNull())
    # Doubles may stay: whoever tells a job's story passes over them.
    events = gathered(housed(clean(new), known, others=bool(row["others"])), _slots(row["good"], 1)).drop("slot")
    work.renew(
        "silver.events",
        lambda: lake.stage("silver.events", events, F.col("home")),
        instead=False,
        built_from={"bronze.events": source.version},
        notes={"events": ours.notes.get("events", 0) + row["good"]},
    )


def _quarantine(work: Renewal, version: int, *, bad: int) -> None:
    lake = work.lake
    since = lake.manifest("bronze.quarantine").built_from.get("bronze.events", 0)
    new = lake.read(work.spark, "bronze.events", since=since) if bad else None
    if new is None:
        work.unchanged("bronze.quarantine")
        return
    rows = quarantined(new)
    when = F.coalesce(F.unix_millis("_ts"), F.lit(0))
    work.renew(
        "bronze.quarantine",
        lambda: lake.stage("bronze.quarantine", rows, part_of(when, "day")),
        instead=False,
        built_from={"bronze.events": version},
    )


def tell_stories(work: Renewal) -> None:
    """silver.events -> silver.attempts and silver.jobs, of the homes that changed."""
    lake, spark = work.lake, work.spark
    tables = ("silver.attempts", "silver.jobs")
    if sum(work.stopped(table, "silver.events") for table in tables):
        return
    source = lake.manifest("silver.events")
    since = min(lake.manifest(table).built_from.get("silver.events", 0) for table in tables)
    homes = source.changed(since)
    events = lake.read(spark, "silver.events", homes) if homes else None
    if events is None:
        work.unchanged(*tables)
        return
    rows = sum(source.partitions[home].rows for home in homes)
    told = runs(gathered(events, _slots(rows, len(homes)))).persist(StorageLevel.DISK_ONLY)
    try:
        made = {"silver.attempts": attempts(told), "silver.jobs": jobs(told)}
        work.at_once(*(partial(_renew_homes, work, table, made[table], homes, source.version) for table in tables))
    finally:
        told.unpersist()


def _renew_homes(work: Renewal, table: str, rows: DataFrame, homes: set[str], version: int) -> None:
    work.renew(
        table,
        lambda: work.lake.stage(table, rows, F.col("home"), homes),
        built_from={"silver.events": version},
    )


def add_up(work: Renewal, table: str, objectives: Sequence[Objective]) -> None:
    """silver.attempts and silver.jobs -> the partial sums of the homes that changed, in one of the tables `PARTIALS`."""
    lake, spark = work.lake, work.spark
    sources = ("silver.attempts", "silver.jobs")
    if work.stopped(table, *sources):
        return
    aims = [f"{aim.queue}={aim.target}@{aim.total_ms}" for aim in objectives]
    manifests = {name: lake.manifest(name) for name in sources}
    ours = lake.manifest(table)
    other_aims = table == "silver.counts" and ours.notes.get("objectives", aims) != aims
    built = {} if other_aims else ours.built_from
    homes = set[str]().union(*(manifests[name].changed(built.get(name, 0)) for name in sources))
    came = lake.read(spark, "silver.jobs", homes) if homes else None
    if came is None:
        work.unchanged(table)
        return
    rows = _partial(table, _attempts_of(work, homes), came, objectives).repartition("home")
    column = "day_ms" if table == "silver.reasons" else "minute_ms"
    work.renew(
        table,
        lambda: lake.stage(table, rows, F.col("home"), homes),
        built_from={name: manifest.version for name, manifest in manifests.items()},
        notes={"objectives": aims} if table == "silver.counts" else None,
        covers=lambda staged: days_of(lake, staged, column),
    )


def _partial(table: str, ran: DataFrame, came: DataFrame, objectives: Sequence[Objective]) -> DataFrame:
    if table == "silver.counts":
        return counts(ran, came, objectives)
    return sketches(ran, came) if table == "silver.sketches" else reasons(ran, came)


def _attempts_of(work: Renewal, homes: set[str]) -> DataFrame:
    """Jobs of these homes may never have run (a dead letter that was no job): then there are none, with the same columns."""
    found = work.lake.read(work.spark, "silver.attempts", homes)
    return work.spark.createDataFrame([], ATTEMPTS) if found is None else found


def take_in_reviews(work: Renewal) -> None:
    """bronze.reviews -> silver.reviews, the days that changed."""
    lake = work.lake
    source = lake.manifest("bronze.reviews")
    days = source.changed(lake.manifest("silver.reviews").built_from.get("bronze.reviews", 0))
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


def days_of(lake: Lake, staged: Staged, column: str) -> dict[str, set[int]]:
    """The days each staged partition adds to."""
    folder = lake.root.joinpath(*staged.spec.name.split("."))
    found: dict[str, set[int]] = {}
    for key, files in staged.files.items():
        days: set[int] = set()
        for file in files:
            values = pq.read_table(folder / file.path, columns=[column], partitioning=None)[column]
            days.update(value // DAY_MS for value in pc.unique(values).to_pylist())
        found[key] = days
    return found


def _slots(rows: int, homes: int) -> int:
    return max(1, min(64, math.ceil(rows / max(1, homes) / ROWS_A_SLOT)))
