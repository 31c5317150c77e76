"""Expectations by severity: a warning, rows left out, or a version that does not come; and the history of what was found."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from relevo.pipeline.commands.progress import Step
from relevo.pipeline.commands.renewal import Renewal
from relevo.pipeline.lake.examination import examined, without_dropped
from relevo.pipeline.lake.expectations import Expectation, Finding, Unique
from relevo.pipeline.lake.lake import Lake
from relevo.pipeline.lake.results import TABLE, Checked, record


def outlook(spark: SparkSession, *arrivals: float) -> DataFrame:
    """Rows of gold.forecast, an hour apart."""
    rows = [(datetime.fromtimestamp(3600 * hour, UTC), "one", "mail", each) for hour, each in enumerate(arrivals)]
    made = spark.createDataFrame(rows, "hour timestamp, source string, queue string, arrivals double")  # pyright: ignore[reportUnknownMemberType]
    return made.withColumn("backlog", F.lit(0.0)).withColumn("workers", F.lit(1).cast("bigint"))


def history(lake: Lake) -> dict[str, dict[str, Any]]:
    """By expectation: the rows of gold.expectations that are not about what held."""
    rows: Any = lake.arrow(TABLE)
    return {row["expectation"]: row for row in rows.to_pylist() if row["outcome"] != "held"}


def test_rows_that_break_a_dropping_expectation_are_left_out_and_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake, said = Lake(tmp_path), list[Step]()
    work = Renewal(lake, spark, said.append)
    with caplog.at_level(logging.WARNING, "relevo.pipeline"):
        assert work.renew(
            "gold.forecast", lambda: lake.stage("gold.forecast", outlook(spark, 5.0, -1.0, 7.0), F.lit(0), ["all"])
        )
    found: Any = lake.arrow("gold.forecast")
    assert sorted(found["arrivals"].to_pylist()) == [5.0, 7.0]
    left = {path.name for path in (tmp_path / "gold/forecast").rglob("*.parquet")}
    assert left == {file.path for file in lake.table("gold.forecast").files()}
    assert (said[-1].state, said[-1].rows) == ("built", 2)
    assert said[-1].warnings == ("arrivals is not negative: not so for 1 row (dropped)",)
    assert "gold.forecast: arrivals is not negative: not so for 1 row (dropped)" in caplog.text
    assert record(lake, work.checked) == len(lake.spec("gold.forecast").rules)
    (row,) = history(lake).values()
    assert (row["table_name"], row["version"], row["severity"], row["outcome"]) == (
        "gold.forecast",
        lake.table("gold.forecast").version,
        "drop",
        "dropped",
    )
    assert (row["checked_rows"], row["broken_rows"]) == (3, 1)
    (sample,) = json.loads(row["samples"])
    assert (sample["source"], sample["queue"], sample["arrivals"]) == ("one", "mail", -1.0)
    assert sample["hour"].startswith("1970-01-01T01:00:00")


def test_a_warning_lets_the_table_through_and_a_failure_does_not_and_both_are_kept_with_samples(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(tmp_path)
    case = "SELECT 'r' review_id, 0 vote, timestamp_millis(0) decided_at, {} decided_by, -3L waiting_ms, null held_ms"
    work = Renewal(lake, spark)
    for person in ("'ada'", "cast(null AS string)"):
        rows = spark.sql(case.format(person))
        work.renew("silver.reviews", lambda rows=rows: lake.stage("silver.reviews", rows, F.lit(0)))
    assert [step.state for step in work.steps] == ["built", "broken"]
    assert lake.table("silver.reviews").rows == 1
    record(lake, work.checked)
    found = history(lake)
    assert {name: row["outcome"] for name, row in found.items()} == {
        "waiting_ms is not negative": "warned",
        "decided_by is there": "failed",
    }
    assert json.loads(found["decided_by is there"]["samples"]) == [{"review_id": "r", "vote": 0}]
    assert found["decided_by is there"]["version"] == lake.table("silver.reviews").version


def test_of_rows_with_one_key_one_stays_and_samples_hold_no_text_that_people_wrote(spark: SparkSession) -> None:
    rules = (
        Unique(("k",), "drop"),
        Expectation("n is small", "n < 5 AND reason <> ''", "drop"),
        Expectation("k is there", "k IS NOT NULL", "warn"),
    )
    rows = spark.sql("SELECT * FROM VALUES (1, 1, 'x'), (1, 1, 'y'), (2, 9, 'a name'), (3, 2, 'z') AS t(k, n, reason)")
    assert sorted((row["k"], row["n"]) for row in without_dropped(rows, rules).collect()) == [(1, 1), (3, 2)]
    found = {finding.expectation: finding for finding in examined(rows, rules)}
    assert found["n is small"] == Finding("n is small", "drop", 4, 1, ('{"k": 2, "n": 9}',))
    assert found["no two rows have the same k"].samples == ('{"k": 1, "times": 2}',)
    assert found["k is there"].outcome == "held"


def test_every_build_adds_its_own_and_one_without_findings_adds_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    held = Checked("gold.usage", 3, (Finding("queue is there", "fail", 10, 0),), 1_700_000_000_000)
    assert [record(lake, []), record(lake, [held]), record(lake, [held, held])] == [0, 1, 2]
    assert (lake.table(TABLE).version, lake.table(TABLE).rows) == (2, 3)
