"""silver.attempts and silver.jobs on small frames: one story a job, all told in one frame, one fact a test."""

from itertools import count
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from relevo.pipeline.lake.bronze.events import clean, is_platform
from relevo.pipeline.lake.gold.objectives import DEFAULT
from relevo.pipeline.lake.gold.throughput import throughput
from relevo.pipeline.lake.silver.attempts import attempts
from relevo.pipeline.lake.silver.cohorts import gathered, housed
from relevo.pipeline.lake.silver.jobs import jobs
from relevo.pipeline.lake.silver.partials import counts
from relevo.pipeline.lake.silver.runs import runs
from relevo.wire.ids import IdMint
from tests.spark.lake.happenings import START, Happenings

T = START + 3_600_000
MADE_AT_T = IdMint()(T)
DEFERRED = IdMint()(T)
BRIDGED = IdMint()(T)


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

    # The same id on another server, on which the job is not done.
    say(T + 20, "active", MADE_AT_T, attempt=1, source="two")

    _tell_messages(told)
    say(T, "dlq", "", name=None, attempt=0, reason="malformed")
    say(T, "dlq", "", name=None, attempt=0, reason="decode_failed")
    return told


WORK = "work.acme.billing.invoices"


def _tell_messages(told: Happenings) -> None:
    """As the relay of a work queue tells them, some of it twice."""
    seqs = count(1)

    def say(at: int, event: str, job: str, queue: str = WORK, **extras: Any) -> None:
        extras.setdefault("seq", f"{next(seqs)}-0")
        told.tell(at, event, job, queue, correlation_id="order-7", **extras)

    for number in range(10):
        message = f"m{number}"
        say(T, "published", message, seq=f"{number}-1")
        if number < 8:
            say(T + 40, "claimed", message, attempt=1, wait_ms=40, seq=f"{100 + number}-1")
        if number < 5:
            say(T + 90, "completed", message, attempt=1, duration_us=50_000, seq=f"{200 + number}-1")
        elif number < 8:
            say(T + 90, "failed", message, attempt=1, duration_us=50_000, reason="no route", seq=f"{200 + number}-1")
            say(T + 90, "dead_lettered", message, attempt=1, reason="no route", seq=f"{200 + number}-2")
    say(T + 90, "completed", "m0", attempt=1, duration_us=50_000, seq="200-1", server=T + 5_000)  # relayed twice

    say(T, "published", "handed-back")
    say(T + 5, "claimed", "handed-back", attempt=1, wait_ms=5)
    say(T + 9, "released", "handed-back", attempt=1)
    say(T + 19, "claimed", "handed-back", attempt=1, wait_ms=10)
    say(T + 30, "completed", "handed-back", attempt=1, duration_us=11_000)

    say(T, "published", "timed-out")
    say(T + 5, "claimed", "timed-out", attempt=1, wait_ms=5)
    say(T + 30_000, "reclaimed", "timed-out", attempt=1)

    say(T, "published", "moved")
    say(T, "routed", "moved", rule="large", to="other/large", hop=1)
    say(T + 70, "claimed", "moved", "work.acme.other.large", attempt=1, wait_ms=70)

    say(T, "published", "judged")
    say(T, "review_needed", "judged", review="r1")
    say(T + 500, "review_decided", "judged", review="r1", decision="approve", reason="")
    say(T + 500, "completed", "judged", attempt=0)

    say(T, "published", "revived")
    say(T, "claimed", "revived", attempt=1, wait_ms=0)
    say(T + 1, "failed", "revived", attempt=1, duration_us=1_000, reason="x")
    say(T + 1, "dead_lettered", "revived", attempt=1, reason="x")
    say(T + 100, "replayed", "revived", attempt=0, reason="x")

    say(T, "published", "heard", "work.acme.billing.news")
    for subscription in ("a", "b"):
        say(T + 5, "claimed", "heard", "work.acme.billing.news", attempt=1, wait_ms=5, subscription=subscription)
    for subscription in ("a", "b"):
        say(T + 9, "completed", "heard", "work.acme.billing.news", attempt=1, duration_us=1, subscription=subscription)

    say(T, "published", BRIDGED)
    say(T, "routed", BRIDGED, rule="fast", to="stream:mail", hop=1)
    told.tell(T + 3, "active", f"{BRIDGED}.2", "mail", attempt=1)
    told.tell(T + 8, "completed", f"{BRIDGED}.2", "mail", attempt=1, duration_us=5_000)
    say(T + 12, "completed", BRIDGED, attempt=1, duration_us=12_000)
    told.tell(T, "active", "work agents", "work-agents-1", attempt=1)


class Silver:
    """Rows of attempts and jobs, by job id."""

    def __init__(self, spark: SparkSession) -> None:
        told = _stories()
        twice = Happenings()
        twice.rows = [*told.rows, *told.rows[:9]]  # some are ingested twice
        frame = runs(gathered(housed(clean(twice.frame(spark)), None), 4)).cache()
        self._attempts = [row.asDict() for row in attempts(frame).orderBy("run").collect()]
        told_jobs = jobs(frame).orderBy("incarnation").cache()
        self.all_jobs = [row.asDict() for row in told_jobs.collect()]
        self.minutes = [row.asDict() for row in throughput(counts(attempts(frame), told_jobs, DEFAULT)).collect()]
        told_jobs.unpersist()
        frame.unpersist()

    def runs(self, job: str, first: str, *more: str, source: str = "one") -> list[Any]:
        return [
            (row[first], *(row[column] for column in more)) if more else row[first]
            for row in self._attempts
            if row["job_id"] == job and row["source"] == source
        ]

    def jobs(self, job: str, **where: str) -> list[dict[str, Any]]:
        found = [row for row in self.all_jobs if row["job_id"] == job]
        return [row for row in found if all(row[column] == value for column, value in where.items())]

    def job(self, job: str, **where: str) -> dict[str, Any]:
        (row,) = self.jobs(job, **where)
        return row


@pytest.fixture(scope="module")
def silver(spark: SparkSession) -> Silver:
    return Silver(spark)


def test_a_job_added_at_once_has_waited_since_its_id_was_minted(silver: Silver) -> None:
    assert silver.runs(MADE_AT_T, "waited_ms", "ran_ms", "outcome") == [(20, 49.5, "done")]
    assert silver.job(MADE_AT_T, source="one")["total_ms"] == 70


def test_the_same_id_on_another_server_is_another_job(silver: Silver) -> None:
    assert silver.job(MADE_AT_T, source="two")["outcome"] == "open"
    assert silver.runs(MADE_AT_T, "outcome", source="two") == ["running"]


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
    job = silver.job("running")
    assert (job["outcome"], job["finished_at"], job["total_ms"]) == ("open", None, None)


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
    letters = [row for row in silver.all_jobs if row["job_id"].startswith("~")]
    assert sorted(row["dead_reason"] for row in letters) == ["decode_failed", "malformed"]
    assert all(silver.runs(row["job_id"], "outcome") == [] for row in letters)


def test_events_ingested_twice_count_once(silver: Silver) -> None:
    assert len(silver.runs(MADE_AT_T, "run")) == len(silver.runs(DEFERRED, "run")) == 1
    assert len(silver.runs("retried", "run")) == 2


def test_ten_messages_five_completed_three_dead_one_relayed_twice_are_counted_as_that(silver: Silver) -> None:
    rows = [silver.job(f"m{number}") for number in range(10)]
    assert [row["outcome"] for row in rows] == ["done"] * 5 + ["dead"] * 3 + ["open"] * 2
    assert {(row["room"], row["correlation_id"]) for row in rows} == {("work", "order-7")}
    assert silver.runs("m0", "waited_ms", "ran_ms", "outcome") == [(40, 50.0, "done")]
    assert silver.runs("m6", "outcome", "reason") == [("failed", "no route")]


def test_gold_counts_the_messages_of_a_work_queue(silver: Silver) -> None:
    """Beside the ten: handed back and done, timed out, moved away, judged, revived, and one that was a job."""
    (minute,) = [row for row in silver.minutes if row["queue"] == WORK and row["minute"].second == 0 and row["arrived"]]
    assert (minute["arrived"], minute["done"], minute["dead"], minute["routed"]) == (16, 8, 4, 1)
    assert minute["backlog"] == 2 + 2  # two of the ten, the one that timed out, and the one that was revived


def test_a_claim_that_was_released_is_no_attempt(silver: Silver) -> None:
    assert silver.runs("handed-back", "outcome", "waited_ms") == [("released", 5), ("done", 10)]
    assert silver.job("handed-back")["attempts"] == 1


def test_a_claim_that_timed_out_is_lost_and_its_message_open(silver: Silver) -> None:
    assert silver.runs("timed-out", "outcome") == ["lost"]
    assert (silver.job("timed-out")["outcome"], silver.job("timed-out")["total_ms"]) == ("open", None)


def test_a_message_that_is_routed_leaves_one_queue_and_arrives_in_another(silver: Silver) -> None:
    assert silver.job("moved", queue=WORK)["outcome"] == "routed"
    there = silver.job("moved", queue="work.acme.other.large")
    assert (there["outcome"], round(there["arrived_at"].timestamp() * 1000)) == ("open", T)
    assert silver.runs("moved", "waited_ms") == [70]


def test_a_decision_ends_a_message_without_a_run(silver: Silver) -> None:
    job = silver.job("judged")
    assert (job["outcome"], job["attempts"], job["total_ms"]) == ("done", 0, 500)
    assert (job["reviews"], job["review_ms"], job["decision"]) == (1, 500, "approve")
    assert silver.runs("judged", "outcome") == []


def test_a_dead_message_that_is_replayed_waits_again(silver: Silver) -> None:
    job = silver.job("revived")
    assert (job["outcome"], job["deaths"], job["replayed"], job["finished_at"]) == ("open", 1, 1, None)


def test_a_message_of_a_broadcast_queue_is_done_when_every_subscription_is(silver: Silver) -> None:
    assert [row["outcome"] for row in silver.jobs("heard")] == ["done"]
    assert silver.runs("heard", "outcome") == ["done", "done"]


def test_a_message_that_became_a_job_and_came_back_is_one_story(silver: Silver) -> None:
    message, job = silver.job(BRIDGED), silver.job(f"{BRIDGED}.2")
    assert [(row["room"], row["outcome"], row["correlation_id"]) for row in (message, job)] == [
        ("work", "done", "order-7"),
        ("stream", "done", "order-7"),
    ]
    assert message["cohort_hour"] == job["cohort_hour"]
    assert silver.runs(BRIDGED, "outcome", "ran_ms") == [("done", 12.0)]


def test_the_platform_s_own_queues_are_known_by_their_names(spark: SparkSession) -> None:
    names = [
        "work-agents-1",
        "work-webhooks-1",
        "work.acme.billing._events",
        "work.acme.billing.a_b",
        "work-agentsy",
        "a",
    ]
    rows = spark.createDataFrame([(name,) for name in names], "queue string")  # pyright: ignore[reportUnknownMemberType]
    assert [row["queue"] for row in rows.where(is_platform(F.col("queue"))).collect()] == names[:3]
