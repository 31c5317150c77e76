"""Functions of silver and gold on small frames, one fact each."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from relevo.errors import BadArgument
from relevo.pipeline.lake.gold.anomalies import anomalies
from relevo.pipeline.lake.gold.failures import normalised
from relevo.pipeline.lake.gold.forecast import Hour, erlang_c, forecast, outlook
from relevo.pipeline.lake.gold.objectives import Objective
from relevo.pipeline.lake.gold.slo import slo
from relevo.pipeline.lake.silver.reviews import reviews

DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000


def test_every_vote_of_a_review_is_a_row_with_its_wait_its_hold_and_its_decision(spark: SparkSession) -> None:
    case = {
        "opened_at": 1_000,
        "votes": [
            {"person": "ada", "at": 9_000, "answer": {"decision": "approve"}, "corrected_body": {"n": 2}},
            {"person": "alan", "at": 12_000, "answer": {"decision": "reject"}, "corrected_body": None},
        ],
        "notes": [
            {"at": 4_000, "person": "ada", "did": "claimed", "text": ""},
            {"at": 9_000, "person": "ada", "did": "decided", "text": "approve"},
            {"at": 12_000, "person": "alan", "did": "decided", "text": "reject"},
        ],
    }
    columns = "tenant_id bigint, queue_id bigint, message_id string, id string, finished_at bigint, document string"
    rows = [(7, 3, "m", "r", 12_000, json.dumps(case)), (7, None, None, "open", 1, '{"opened_at": 1, "votes": []}')]
    found = reviews(spark.createDataFrame(rows, columns)).orderBy("vote").collect()  # pyright: ignore[reportUnknownMemberType]
    told = [
        tuple(row[name] for name in ("tenant", "queue", "message_id", "decided_by", "decision", "corrected"))
        for row in found
    ]
    assert told == [("7", "3", "m", "ada", "approve", True), ("7", "3", "m", "alan", "reject", False)]
    assert [(row["waiting_ms"], row["held_ms"]) for row in found] == [(3_000, 5_000), (11_000, None)]


@pytest.mark.parametrize(
    ("texts", "common"),
    [
        (["timeout after 30 s", "timeout after 5.5 s"], "timeout after <n> s"),
        (["no user 'ada'", 'no user "alan"'], "no user <text>"),
        (["to ada@example.org: refused", "to x.y@example.com: refused"], "to <email>: refused"),
        (["GET https://a.example/1 gave 500", "GET http://b.example/x?y=2 gave 404"], "GET <url> gave <n>"),
        (["10.0.0.1:6379 is down", "192.168.1.20 is down"], "<address> is down"),
        (["job 01J9ZQ6XN0000000000000000A is gone", "job 01ARZ3NDEKTSV4RRFFQ69G5FAV is gone"], "job <ulid> is gone"),
        (["no /var/lib/a/b.txt", "no /etc/x"], "no <path>"),
        (["at 2026-11-15T10:00:00Z", "at 2026-11-15 10:00"], "at <time>"),
        (["a\n  b", "a b"], "a b"),
    ],
)
def test_reasons_that_differ_only_in_particulars_are_one(texts: list[str], common: str, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(text,) for text in texts], "text string")  # pyright: ignore[reportUnknownMemberType]
    assert {row[0] for row in rows.select(normalised(F.col("text"))).collect()} == {common}


def test_a_burn_is_the_share_of_misses_over_the_share_allowed_in_each_window(spark: SparkSession) -> None:
    rows = [(hour * HOUR, "one", "emails", 90 if hour == 10 else 100, 10 if hour == 10 else 0) for hour in range(6, 12)]
    counts = spark.createDataFrame(rows, "minute_ms bigint, source string, queue string, met bigint, missed bigint")  # pyright: ignore[reportUnknownMemberType]
    found = {round(row["hour"].timestamp()) // 3600: row for row in slo(counts, [Objective(target=0.99)]).collect()}
    assert found[10]["burn_1h"] == pytest.approx(10.0)
    assert found[11]["burn_1h"] == 0
    assert found[11]["burn_6h"] == pytest.approx(10 / 600 / 0.01)
    assert found[10]["attained_3d"] == pytest.approx(490 / 500)


@pytest.mark.whole  # two queries that take Spark long to plan
def test_only_a_minute_out_of_what_is_usual_at_its_hour_is_an_anomaly(spark: SparkSession) -> None:
    def minute(day: int, at: int, number: int) -> tuple[Any, ...]:
        return (day * DAY + 9 * HOUR + at * MINUTE, "one", "emails", number)

    rows = [minute(day, at, 20 + at % 3) for day in range(4) for at in range(60)]
    rows += [minute(4, at, 400 if at == 30 else 21) for at in range(60)]
    # On another server, the queue of the same name is used to 400: one of them says nothing of the other.
    rows += [(ms, "two", queue, 400) for ms, _, queue, _ in rows]
    frame = spark.createDataFrame(rows, "ms bigint, source string, queue string, n bigint").select(  # pyright: ignore[reportUnknownMemberType]
        F.timestamp_millis("ms").alias("minute"),
        "source",
        "queue",
        F.col("n").alias("arrived"),
        F.col("n").alias("done"),
        F.lit(0).alias("failed"),
        F.lit(0).alias("dead"),
    )
    found = anomalies(frame, [4]).where("metric = 'arrived'").collect()
    assert [(row["source"], row["value"], row["usual"], row["side"]) for row in found] == [
        ("one", 400.0, 21.0, "above")
    ]
    # The day before, 40 of 60 minutes were off by one of 21 that are usual.
    assert found[0]["backtest_error"] == pytest.approx(40 / (60 * 21))
    assert anomalies(frame, [2]).count() == 0  # two days are no history


def test_a_forecast_repeats_the_day_and_counts_the_workers_its_busiest_hour_needs() -> None:
    arrived = [3600 if hour % 24 == 9 else 36 for hour in range(24 * 7)]
    hours = [
        Hour("one", "emails", hour, number, number, 2.0 * number, number, 0) for hour, number in enumerate(arrived)
    ]
    ahead = forecast(hours, wait_target_s=0.5)
    busy = [row for row in ahead if row.hour % 24 == 9]
    assert [row.arrivals for row in busy] == [3600.0]
    assert min(row.arrivals for row in ahead) == 36.0
    assert busy[0].workers > min(row.workers for row in ahead)
    assert {row.backtest_error for row in ahead} == {0.0}  # every day was as the one before


def test_a_forecast_says_how_far_that_of_the_day_before_was_off() -> None:
    days = (100, 100, 150)  # each hour of three days
    hours = [Hour("one", "q", hour, days[hour // 24], 0, 0.0, 0, 0) for hour in range(72)]
    assert {row.backtest_error for row in forecast(hours)} == {50 / 150}
    assert {row.backtest_error for row in forecast(hours[24:60])} == {None}  # not two whole days


def test_spark_forecasts_each_queue_as_plain_python_does(spark: SparkSession) -> None:
    minutes = [
        {
            "source": source,
            "queue": queue,
            "name": name,
            "minute": datetime.fromtimestamp(hour * 3600 + 60 * part, UTC),
            "arrived": hour + part,
            "done": hour,
            "dead": 1,
            "cancelled": 0,
            "busy_ms": 500.0,
            "started": hour + 1,
            "backlog": part,
        }
        for source, queue, name, first in (
            ("one", "a", "x", 480_000),
            ("one", "a", "y", 480_000),
            ("one", "b", "x", 480_040),
            ("two", "a", "x", 480_000),
        )
        for hour in range(first, 480_050)
        for part in (0, 30)
    ]
    made = outlook(spark.createDataFrame(pa.Table.from_pylist(minutes)), wait_target_s=5.0).collect()  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    seen = [
        Hour(
            source,
            queue,
            hour,
            names * (2 * hour + 30),
            names * (2 * hour + 2),
            names * 1.0,
            names * 2 * (hour + 1),
            names * 30,
        )
        for source, queue, names, first in (
            ("one", "a", 2, 480_000),
            ("one", "b", 1, 480_040),
            ("two", "a", 1, 480_000),
        )
        for hour in range(first, 480_050)
    ]
    plain = forecast(seen, wait_target_s=5.0)
    found = [(*row[:2], int(row["hour"].timestamp() // 3600), *row[3:]) for row in sorted(made)]
    assert len(found) == len(plain) == 72
    for ours, theirs in zip(found, sorted(plain), strict=True):
        assert ours == pytest.approx(tuple(theirs))


def test_erlang_s_formula_gives_the_known_values() -> None:
    assert erlang_c(1, 0.5) == pytest.approx(0.5)  # one server: the share of its time it is busy
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert erlang_c(12, 10.0) == pytest.approx(0.4494, abs=1e-3)


@pytest.mark.parametrize("text", ["emails", "emails=99", "emails=100%@30", "emails=99%@0"])
def test_an_objective_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadArgument):
        Objective.parse(text)
