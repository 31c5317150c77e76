"""A build: gold equals a plain recomputation, a second build costs only what is new, and a broken table stays as it was."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from relevo.pipeline.commands.build import Built, build
from relevo.pipeline.lake.iceberg import publish
from relevo.pipeline.lake.instant_columns import part_of
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.tables import BY_NAME
from tests.spark.lake import plain
from tests.spark.lake.happenings import DAY, START, Happenings, Row, invented
from tests.spark.lake.readers import facts, readers, written

pytestmark = pytest.mark.timeout(600)  # two builds, most of whose time is the JVM getting warm

Rows = list[dict[str, Any]]


def ingest(lake: Lake, spark: SparkSession, rows: list[Row]) -> None:
    """What the ingest job does with a batch."""
    told = Happenings()
    told.rows = rows
    staged = lake.stage("bronze.events", told.frame(spark), part_of(F.unix_millis("_ts"), "day"))
    lake.commit(staged, instead=False)


def rows_of(lake: Lake, table: str) -> Rows:
    found: Any = lake.arrow(table)
    return [] if found is None else found.to_pylist()


def ms(value: Any) -> int:
    return round(value.timestamp() * 1000)


@dataclass
class Twice:
    """Nine tenths ingested and built, then the rest in another order, then built again."""

    lake: Lake
    everything: list[plain.Job]
    jobs: list[plain.Job]
    """Without those of the platform's own queues, which gold leaves out."""
    first: Built
    second: Built


def _of_the_platform() -> list[Row]:
    told = Happenings()
    told.tell(START, "active", "beat", "work-agents-7", attempt=1)
    told.tell(START, "published", "told", "work.acme.billing._events", seq="1-0", correlation_id="told")
    return told.rows


def _unusable() -> list[Row]:
    told = Happenings()
    told.tell(START, "active", "", "odd", attempt=1)
    told.tell(START, "completed", "negative", "odd", attempt=1, duration_us=-1)
    told.tell(START, "", "nameless", "odd")
    told.tell(START, "active", "letters", "odd", attempt=None, bad="attempt is not a number: 'x'")
    told.tell(START, "drained", "", "odd", name=None)  # usable, and no part of any job's story
    told.tell(START, "something-new", "unheard-of", "odd")
    return told.rows


@pytest.fixture(scope="module")
def twice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Twice:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    rows = invented(600, messages=300, days=1.2, start=START + 9 * 3_600_000).rows
    rows += _of_the_platform()
    # The last tenth comes in a second build; and so does one whole queue's first hour, which is late.
    late = [row for row in rows if row["queue"] == "media" and row["ts"] < START + 10 * 3_600_000]
    cut = len(rows) * 9 // 10
    early = [row for row in rows[:cut] if row not in late]
    ingest(lake, spark, [*early, *_unusable()])
    first = build(lake, spark)
    ingest(lake, spark, [*rows[cut:], *late, *rows[cut : cut + 5]])
    second = build(lake, spark)
    told = plain.jobs_of(rows)
    return Twice(lake, told, [job for job in told if not job.platform], first, second)


def test_every_table_was_built(twice: Twice) -> None:
    assert [step for step in (*twice.first.steps, *twice.second.steps) if step.state in ("broken", "skipped")] == []
    assert {step.table for step in twice.second.steps if step.state == "built"} >= {"silver.jobs", "gold.throughput"}


def test_silver_has_every_run_and_every_job_that_plain_python_finds(twice: Twice) -> None:
    ours = Counter(
        (
            *(row["source"], row["room"], row["queue"], row["job_id"], row["correlation_id"], row["outcome"]),
            *(row["attempts"], row["replayed"], row["reviews"], ms(row["arrived_at"]), row["total_ms"]),
        )
        for row in rows_of(twice.lake, "silver.jobs")
    )
    theirs = Counter(
        (
            *(job.source, job.room, job.queue, job.id, job.correlation, job.outcome),
            *(job.attempts, job.deaths - (job.outcome == "dead"), job.reviews, job.came, job.total),
        )
        for job in twice.everything
    )
    assert ours == theirs
    attempts = rows_of(twice.lake, "silver.attempts")
    assert Counter((row["job_id"], row["outcome"], row["attempt"], row["waited_ms"]) for row in attempts) == Counter(
        (job.id, run.outcome, run.attempt, None if run.ready is None else max(0, run.started - run.ready))
        for job in twice.everything
        for run in job.runs
    )


def test_the_day_is_as_mixed_as_it_should_be(twice: Twice) -> None:
    """Both rooms, both servers, every end, replays, reviews and messages that were jobs: else the rest proves little."""
    jobs = twice.everything
    assert {(job.room, job.source) for job in jobs} == {("stream", "one"), ("stream", "two"), ("work", "one")}
    ends = {(job.room, job.outcome) for job in jobs}
    assert ends >= {("work", end) for end in ("done", "dead", "cancelled", "expired", "failed", "routed", "open")}
    assert any(job.room == "work" and job.deaths and job.outcome == "done" for job in jobs)
    assert any(job.room == "stream" and job.correlation and "." in job.id for job in jobs)
    assert any(run.outcome == "lost" for job in jobs for run in job.runs if job.room == "work")


def test_gold_throughput_equals_a_plain_recomputation(twice: Twice) -> None:
    theirs = plain.minutes_of(twice.jobs)
    names = ("arrived", "started", "done", "failed", "retried", "cancelled", "expired", "routed", "dead")
    ours = {
        (ms(row["minute"]), row["source"], row["queue"], row["name"]): Counter(
            {name: row[name] for name in names if row[name]}
        )
        for row in rows_of(twice.lake, "gold.throughput")
    }
    assert {place: counts for place, counts in ours.items() if counts} == theirs


def test_the_backlog_of_every_minute_equals_a_plain_recomputation(twice: Twice) -> None:
    minutes = plain.minutes_of(twice.jobs)
    theirs = plain.backlogs_of(twice.jobs, minutes)
    ours = {
        (ms(row["minute"]), row["source"], row["queue"], row["name"]): row["backlog"]
        for row in rows_of(twice.lake, "gold.throughput")
    }
    assert {place: ours[place] for place in theirs} == theirs
    assert max(theirs.values()) > 0


def test_percentiles_of_days_added_up_from_minutes_are_within_a_thousandth_of_rank(twice: Twice) -> None:
    days: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for row in rows_of(twice.lake, "gold.latency"):
        if row["grain"] == "day":
            days.setdefault((row["measure"], row["source"], row["queue"], row["name"]), []).append(row)
    theirs = plain.times_of(twice.jobs)
    assert set(days) == set(theirs)
    for place, times in theirs.items():
        assert sum(row["count"] for row in days[place]) == len(times)
        assert math.isclose(sum(row["sum_ms"] for row in days[place]), sum(times), abs_tol=1e-6)
        assert max(row["max_ms"] for row in days[place]) == max(times)


def test_failures_are_counted_by_what_their_texts_have_in_common(twice: Twice) -> None:
    ours = Counter[str]()
    for row in rows_of(twice.lake, "gold.failures"):
        if row["kind"] == "failed":
            ours[row["reason"]] += row["count"]
    theirs = Counter[str]()
    for job in twice.jobs:
        for run in job.runs:
            if run.outcome == "failed":
                words = (run.reason or "").split()[0]
                theirs[
                    {"timeout": "timeout after <n> s", "'ada'": "<text> is unknown", "host": "host <address> is down"}[
                        words
                    ]
                ] += 1
            elif run.outcome == "lost":
                theirs["the worker died, or lost its lease"] += 1
    assert ours == theirs


def test_objectives_met_and_missed_add_up_to_the_jobs_that_ended(twice: Twice) -> None:
    rows = rows_of(twice.lake, "gold.slo")
    ended = [job for job in twice.jobs if job.outcome in ("done", "dead", "expired", "failed")]
    good = sum(job.outcome == "done" and (job.finished or 0) - job.came <= 60_000 for job in ended)
    assert (sum(row["met"] for row in rows), sum(row["missed"] for row in rows)) == (good, len(ended) - good)


def test_usage_has_every_job_and_every_second_of_a_handler(twice: Twice) -> None:
    rows = rows_of(twice.lake, "gold.usage")
    jobs = [job for job in twice.jobs if job.room == "stream"]  # messages are counted from their archive
    assert sum(row["messages"] for row in rows) == len(jobs)
    runs = [run for job in jobs for run in job.runs if run.ended is not None]
    # A cancelled run tells no duration: it is as long as from its beginning to its end.
    busy = sum(run.us / 1e6 if run.us is not None else ((run.ended or 0) - run.started) / 1e3 for run in runs)
    assert math.isclose(sum(row["handler_s"] for row in rows), busy, rel_tol=1e-9)


def test_late_events_renew_their_own_partitions_and_no_others(twice: Twice) -> None:
    attempts = twice.lake.table("silver.attempts")
    renewed = twice.lake.changes("silver.attempts", attempts.version - 1).keys
    late_hour, last_hours = "2024-10-04T09", {key for key in attempts.partitions if key >= "2024-10-05T09"}
    assert late_hour in renewed
    assert renewed & last_hours
    assert len(renewed) < len(attempts.partitions) / 2


def test_a_build_with_nothing_new_touches_nothing(twice: Twice, spark: SparkSession) -> None:
    before = {name: twice.lake.table(name).version for name in BY_NAME}
    again = build(twice.lake, spark)
    assert {step.state for step in again.steps} == {"unchanged"}
    assert {name: twice.lake.table(name).version for name in BY_NAME} == before


def test_a_forecast_names_arrivals_and_workers_for_each_queue_and_the_next_day(twice: Twice) -> None:
    rows = rows_of(twice.lake, "gold.forecast")
    assert {row["queue"] for row in rows} == {job.queue for job in twice.jobs}
    assert len({row["source"] for row in rows}) == 2
    assert len(rows) == len({(row["source"], row["queue"]) for row in rows}) * 24
    assert all(row["workers"] >= 1 for row in rows if row["arrivals"] > 1)


def test_rows_that_cannot_be_used_are_kept_apart_whole_with_their_reason(twice: Twice) -> None:
    rows = {row["reason"]: row["row"] for row in rows_of(twice.lake, "bronze.quarantine")}
    reasons = {"no job id", "duration_us is negative", "no event name", "attempt is not a number: 'x'"}
    assert set(rows) == reasons
    assert '"id":"negative"' in rows["duration_us is negative"]


@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(False, id="a table of each layer, without Spark"),
        pytest.param(True, id="every table, Spark too", marks=pytest.mark.whole),
    ],
)
def test_deltalake_duckdb_polars_datafusion_and_spark_agree(whole: bool, twice: Twice, spark: SparkSession) -> None:
    tables, by = written(twice.lake), readers(twice.lake, spark)
    some = {"bronze.events", "silver.jobs", "gold.latency"}
    assert set(tables) > some
    for table in tables if whole else some:
        asked = {name: read for name, read in by.items() if name != "spark" or whole}
        found = {name: facts(read(table)) for name, read in asked.items()}
        assert sum(found["deltalake"].values()) == twice.lake.table(table).rows
        assert [name for name, rows in found.items() if rows != found["deltalake"]] == [], table


@pytest.mark.whole  # one table is read by it in test_delta.py
def test_iceberg_agrees_on_every_table_that_it_shows(twice: Twice) -> None:
    shown = publish(twice.lake)
    catalog: Any = SqlCatalog("relevo", uri=f"sqlite:///{twice.lake.root}/_iceberg/catalog.db")
    ours = {f"relevo_{table}": table for table in written(twice.lake)}
    assert {ours[name] for name in shown} == {table for table in ours.values() if not BY_NAME[table].inner}
    for name in shown:
        rows = catalog.load_table(name).scan().to_arrow()
        asked = readers(twice.lake)["deltalake"](ours[name]).select(rows.column_names)  # without those it is cut by
        assert facts(rows) == facts(asked), name


def test_every_column_that_was_written_is_declared_with_a_comment(twice: Twice) -> None:
    undeclared = [
        f"{table}.{column.name}"
        for table in written(twice.lake)
        for column in twice.lake.log(table).whole_schema()
        if b"comment" not in (column.metadata or {})
    ]
    assert undeclared == []


@pytest.mark.whole  # test_registered.py reads tables by their names in make test
def test_spark_sql_finds_the_tables_by_name_and_reads_an_older_version(twice: Twice, spark: SparkSession) -> None:
    assert "relevo_gold.latency" in twice.lake.register(spark)
    (row,) = spark.sql(
        "SELECT sum(arrived) AS arrived FROM relevo_gold.throughput WHERE date >= '2024-10-04'"
    ).collect()
    assert row["arrived"] == len([job for job in twice.jobs if job.came is not None])
    options = {"lake": str(twice.lake.root), "table": "bronze.events", "versionAsOf": "1"}
    first = spark.read.format("relevo-lake").options(**options).load().count()
    assert 0 < first < twice.lake.table("bronze.events").rows


def test_sketches_of_ten_minutes_merge_to_the_percentiles_of_the_whole(spark: SparkSession) -> None:
    from relevo.pipeline.lake.gold.latency import latency
    from relevo.pipeline.lake.silver.partials import sketches

    runs = spark.range(100_000).select(
        F.lit(0).alias("cohort_hour"),
        F.lit("").alias("source"),
        F.lit("q").alias("queue"),
        F.lit("n").alias("name"),
        F.timestamp_millis(F.lit(20_000 * DAY) + (F.col("id") % 10) * 60_000).alias("ended_at"),
        F.timestamp_millis(F.lit(20_000 * DAY)).alias("started_at"),
        F.lit(None).cast("bigint").alias("waited_ms"),
        F.pmod(F.xxhash64("id"), F.lit(1_000_000)).cast("double").alias("ran_ms"),
        F.lit("done").alias("outcome"),
    )
    none = spark.createDataFrame(  # pyright: ignore[reportUnknownMemberType]
        [],
        "cohort_hour bigint, source string, queue string, name string, finished_at timestamp, total_ms bigint, outcome string",
    )
    (day,) = latency(sketches(runs, none)).where("grain = 'day'").collect()
    values = sorted(row["ran_ms"] for row in runs.select("ran_ms").collect())
    for name, rank in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p95_ms", 0.95), ("p99_ms", 0.99), ("p999_ms", 0.999)):
        low, high = bisect_left(values, day[name]) / len(values), bisect_right(values, day[name]) / len(values)
        assert low - 0.004 <= rank <= high + 0.004, f"{name} has rank {low} to {high}"
