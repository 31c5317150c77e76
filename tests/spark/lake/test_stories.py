"""silver.attempts and silver.jobs on small frames: one story a job, all told in one frame, one fact a test."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from relevo.pipeline.lake.bronze.events import clean
from relevo.pipeline.lake.silver.attempts import attempts
from relevo.pipeline.lake.silver.homes import gathered, housed
from relevo.pipeline.lake.silver.jobs import jobs
from relevo.pipeline.lake.silver.runs import runs
from relevo.wire.ids import IdMint
from tests.spark.lake.happenings import START, Happenings

T = START + 3_600_000
MADE_AT_T = IdMint()(T)
DEFERRED = IdMint()(T)


def _stories() -> Happenings:
    told = Happenings()
    say = told.tell
    say(T + 20, "active", MADE_AT_T, attempt=1)
    say(T + 70, "completed", MADE_AT_T, attempt=1, duration_us=49_500)
    say(T + 90_000, "waiting", DEFERRED)
    say(T + 90_007, "active", DEFERRED, attempt=1)
    say(T + 90_017, "completed", DEFERRED, attempt=1, duration_us=9_000)

    say(T, "active", "retried", attempt=1)
    say(T + 10, "failed", "retried", attempt=1, reason="no route", duration_us=10_000)
    say(T + 11, "retry-scheduled", "retried", attempt=2, backoff_ms=500)
    say(T + 520, "active", "retried", attempt=2)
    say(T + 530, "completed", "retried", attempt=2, duration_us=10_000)

    say(T, "active", "hasty", attempt=1)
    say(T + 10, "failed", "hasty", attempt=1, reason="x", duration_us=10_000)
    say(T + 11, "waiting", "hasty")
    say(T + 12, "active", "hasty", attempt=2)
    say(T + 13, "retry-scheduled", "hasty", attempt=2, backoff_ms=1)  # told after its run had begun
    say(T + 14, "completed", "hasty", attempt=2, duration_us=2_000)

    say(T, "active", "dead", attempt=1)
    say(T + 10, "failed", "dead", attempt=1, reason="bad template", duration_us=10_000)
    say(T + 11, "dlq", "dead", attempt=1, reason="unrecoverable")

    say(T, "active", "replayed", attempt=1)
    say(T + 10, "failed", "replayed", attempt=1, reason="down", duration_us=10_000)
    say(T + 11, "dlq", "replayed", attempt=1, reason="retries_exhausted")
    say(T + 60_000, "active", "replayed", attempt=1)
    say(T + 60_005, "completed", "replayed", attempt=1, duration_us=5_000)

    say(T, "active", "crashed", attempt=1)
    say(T + 30_000, "stalled", "crashed", attempt=1, prev="active")
    say(T + 30_001, "active", "crashed", attempt=1)
    say(T + 30_011, "completed", "crashed", attempt=1, duration_us=10_000)

    say(T, "active", "killer", attempt=1)
    say(T + 60_000, "dlq", "killer", attempt=0, reason="stalled")

    say(T, "active", "cancelled", attempt=1)
    say(T + 5, "cancelled", "cancelled", attempt=1)

    say(T, "active", "parked", attempt=1)
    say(T + 5, "rate-limited", "parked", wait_ms=1_000)
    say(T + 1_010, "active", "parked", attempt=1)
    say(T + 1_020, "completed", "parked", attempt=1, duration_us=10_000)

    say(T, "active", "running", attempt=1)
    say(T + 10, "completed", "headless", attempt=2, duration_us=4_000)  # its `active` was trimmed away

    say(T, "active", "reused", attempt=1)
    say(T + 10, "completed", "reused", attempt=1, duration_us=10_000)
    say(T + 86_400_000, "waiting", "reused")
    say(T + 86_400_003, "active", "reused", attempt=1)
    say(T + 86_400_013, "completed", "reused", attempt=1, duration_us=10_000)

    say(T, "active", "late-word", name="odd", attempt=1)
    say(T + 5, "waiting", "late-word", name=None)  # as ChasquiMQ may write it
    say(T + 10, "completed", "late-word", name="odd", attempt=1, duration_us=10_000)
    say(T + 11, "waiting", "late-word", name=None)

    say(T + 7_200_000, "active", "skewed", "clocks", attempt=1, server=T)  # a clock two hours ahead
    say(T + 7_200_010, "completed", "skewed", "clocks", attempt=1, duration_us=10_000, server=T + 10)

    say(T, "dlq", "", name=None, attempt=0, reason="malformed")
    say(T, "dlq", "", name=None, attempt=0, reason="decode_failed")
    return told


class Silver:
    """Rows of attempts and jobs, by job id."""

    def __init__(self, spark: SparkSession) -> None:
        told = _stories()
        twice = Happenings()
        twice.rows = [*told.rows, *told.rows[:9]]  # some are ingested twice
        frame = runs(gathered(housed(clean(twice.frame(spark)), None), 4)).cache()
        self._attempts = [row.asDict() for row in attempts(frame).orderBy("run").collect()]
        self.all_jobs = [row.asDict() for row in jobs(frame).orderBy("life").collect()]
        frame.unpersist()

    def runs(self, job: str, first: str, *more: str) -> list[Any]:
        return [
            (row[first], *(row[column] for column in more)) if more else row[first]
            for row in self._attempts
            if row["job"] == job
        ]

    def jobs(self, job: str) -> list[dict[str, Any]]:
        return [row for row in self.all_jobs if row["job"] == job]

    def job(self, job: str) -> dict[str, Any]:
        (row,) = self.jobs(job)
        return row


@pytest.fixture(scope="module")
def silver(spark: SparkSession) -> Silver:
    return Silver(spark)


def test_a_job_added_at_once_has_waited_since_its_id_was_minted(silver: Silver) -> None:
    assert silver.runs(MADE_AT_T, "waited_ms", "ran_ms", "outcome") == [(20, 49.5, "done")]
    assert silver.job(MADE_AT_T)["total_ms"] == 70


def test_a_deferred_job_has_waited_since_it_was_due(silver: Silver) -> None:
    assert silver.runs(DEFERRED, "waited_ms") == [7]
    assert silver.job(DEFERRED)["total_ms"] == 17


def test_a_caller_s_own_id_tells_no_time_so_its_first_wait_is_unknown(silver: Silver) -> None:
    assert silver.runs("retried", "waited_ms")[0] is None


def test_a_retry_has_waited_since_its_backoff_was_over(silver: Silver) -> None:
    assert silver.runs("retried", "attempt", "outcome", "backoff_ms", "reason") == [
        (1, "failed", 500, "no route"),
        (2, "done", None, None),
    ]
    assert silver.runs("retried", "waited_ms")[1] == 9
    assert silver.job("retried")["attempts"] == 2


def test_a_retry_told_after_its_next_run_began_belongs_to_the_run_before(silver: Silver) -> None:
    assert silver.runs("hasty", "run", "outcome", "backoff_ms") == [(1, "failed", 1), (2, "done", None)]


def test_a_dead_letter_ends_its_job_and_tells_why(silver: Silver) -> None:
    job = silver.job("dead")
    assert (job["outcome"], job["dead_reason"], job["reason"]) == ("dead", "unrecoverable", "bad template")
    assert job["total_ms"] == 11


def test_a_replayed_dead_letter_is_one_job_that_died_and_was_done(silver: Silver) -> None:
    job = silver.job("replayed")
    assert (job["outcome"], job["attempts"], job["deaths"], job["replayed"]) == ("done", 2, 1, 1)
    assert job["dead_reason"] is None
    assert silver.runs("replayed", "waited_ms") == [None, None]


def test_a_run_whose_worker_died_is_lost_and_the_next_one_counts(silver: Silver) -> None:
    assert silver.runs("crashed", "outcome", "ended_at")[0] == ("lost", None)
    assert silver.runs("crashed", "outcome") == ["lost", "done"]


def test_a_job_that_killed_its_workers_is_dead_and_its_run_lost(silver: Silver) -> None:
    assert silver.runs("killer", "outcome") == ["lost"]
    assert (silver.job("killer")["outcome"], silver.job("killer")["dead_reason"]) == ("dead", "stalled")


def test_a_cancelled_job_is_over(silver: Silver) -> None:
    assert (silver.job("cancelled")["outcome"], silver.job("cancelled")["total_ms"]) == ("cancelled", 5)


def test_a_parked_run_is_no_attempt_and_its_wait_begins_when_it_may_come_back(silver: Silver) -> None:
    assert silver.runs("parked", "outcome", "waited_ms") == [("parked", None), ("done", 5)]
    assert silver.job("parked")["attempts"] == 1


def test_a_job_that_runs_is_open(silver: Silver) -> None:
    assert silver.runs("running", "outcome", "ended_at") == [("running", None)]
    assert (silver.job("running")["outcome"], silver.job("running")["finished_at"]) == ("open", None)


def test_an_end_without_its_beginning_is_a_run_that_began_before_it_ended(silver: Silver) -> None:
    assert silver.runs("headless", "outcome", "attempt", "ran_ms") == [("done", 2, 4.0)]
    ((started, ended),) = silver.runs("headless", "started_at", "ended_at")
    assert (ended - started).total_seconds() == 0.004


def test_an_id_used_again_after_its_end_is_another_job(silver: Silver) -> None:
    first, second = silver.jobs("reused")
    assert (first["outcome"], second["outcome"]) == ("done", "done")
    assert second["total_ms"] == 13


def test_a_waiting_that_comes_late_makes_no_run_and_no_second_job(silver: Silver) -> None:
    assert silver.runs("late-word", "outcome", "waited_ms", "name") == [("done", 0, "odd")]
    assert silver.job("late-word")["outcome"] == "done"


def test_where_a_writer_s_clock_cannot_be_right_the_server_s_counts(silver: Silver) -> None:
    ((started, skewed),) = silver.runs("skewed", "started_at", "skewed")
    assert (round(started.timestamp() * 1000), skewed) == (T, True)


def test_dead_letters_that_were_no_jobs_stay_apart_and_have_no_runs(silver: Silver) -> None:
    letters = [row for row in silver.all_jobs if row["job"].startswith("~")]
    assert sorted(row["dead_reason"] for row in letters) == ["decode_failed", "malformed"]
    assert all(silver.runs(row["job"], "outcome") == [] for row in letters)


def test_events_ingested_twice_count_once(silver: Silver) -> None:
    assert len(silver.runs(MADE_AT_T, "run")) == len(silver.runs(DEFERRED, "run")) == 1
    assert len(silver.runs("retried", "run")) == 2
