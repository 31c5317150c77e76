"""From events as they came (bronze.events) to events one can reckon with, and to rows that cannot be used, with a reason.

Both rooms tell the same story with other words. A message that is published waits, one that is claimed runs: here their events
get the words of jobs, so that everything behind it knows one kind of story. What only messages do keeps its own word.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LIFECYCLE = ("active", "completed", "failed", "cancelled", "rate-limited", "refused", "released")
"""What begins or ends a run. A claim that was released is a run that did not take place."""

CLOSING = ("settled", "rejected", "expired", "routed")
"""What ends the stay of a message in its queue without a run: a review or a rule has settled or rejected it, its time was
over, or it went to another queue."""

REVIEWS = ("review_needed", "review_decided")

TOLD = (*LIFECYCLE, *CLOSING, *REVIEWS, "waiting", "delayed", "retry-scheduled", "stalled", "reclaimed", "dlq")
"""The events a story is made of. Others (drained, progress, extended, and what later engines may add) stay in bronze."""

_WORDS = {
    "published": "waiting",
    "replayed": "waiting",
    "claimed": "active",
    "retried": "retry-scheduled",
    "dead_lettered": "dlq",
}
"""What happens to messages, in the words of jobs. The rest is called the same, or has no like."""

STREAM, WORK = "stream", "work"
"""The two rooms: jobs in stream queues, messages in work queues."""

MAX_AHEAD_MS = 5_000
MAX_BEHIND_MS = 3_600_000
MAX_BEHIND_OUTBOX_MS = 30 * 86_400_000
"""A writer's clock may lag by as long as Redis was out of reach; the outbox of messages keeps their events meanwhile. Ahead of
Redis' own clock it is simply wrong."""

_CROCKFORD, _HEX32 = "JKMNPQRSTVWXYZ", "IJKLMNOPQRSTUV"
_FIRST_MS, _LAST_MS = 1_577_836_800_000, 4_102_444_800_000  # the years 2020 to 2099
_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"


def minted_ms(job: Column) -> Column:
    """When a job's id was minted, if it is a ULID of this century, or begins with one (a job of a flow, or a message that is
    sent as a job once more); null for an id of a caller's own making."""
    digits = F.translate(F.substring(job, 1, 10), _CROCKFORD, _HEX32)
    ms = F.when(job.rlike(f"^{_ULID}([.].*)?$"), F.conv(digits, 32, 10).cast("bigint"))
    return F.when(ms.between(_FIRST_MS, _LAST_MS), ms)


def message_of(job: Column) -> Column:
    """The message that a job was made of, if it was: its first job has the same id, the next ones a number behind it."""
    return F.when(job.rlike(rf"^{_ULID}[.][0-9]+$"), F.substring(job, 1, 26)).otherwise(job)


def is_platform(queue: Column) -> Column:
    """Whether a queue is the platform's own: of its agents and webhooks, or of a scope itself (_events, _dead_letter)."""
    return queue.rlike(r"^work-(agents|webhooks)-") | queue.rlike(r"^work[.][^.]+[.][^.]+[.]_[^.]*$")


def is_work(queue: Column) -> Column:
    """Whether a queue is a work queue, by its name."""
    return queue.rlike(r"^work([.][^.]+){3}$")


def checked(events: DataFrame) -> DataFrame:
    """bronze.events with `wrong`: why a row cannot be used, null for a good one; and `word`: the event in the words of jobs."""
    has_id = F.coalesce(F.col("id"), F.lit("")) != ""
    word = _word()
    wrong = (
        F.when(F.col("bad").isNotNull(), F.col("bad"))
        .when(F.coalesce(F.col("e"), F.lit("")) == "", F.lit("no event name"))
        .when(F.coalesce(F.col("queue"), F.lit("")) == "", F.lit("no queue"))
        .when(F.col("_id").isNull() | F.col("_ts").isNull(), F.lit("no entry id"))
        .when(word.isin(*TOLD) & (word != "dlq") & ~has_id, F.lit("no job id"))
        .when(F.col("duration_us") < 0, F.lit("duration_us is negative"))
        .when((F.col("backoff_ms") < 0) | (F.col("wait_ms") < 0), F.lit("a wait is negative"))
        .when(F.col("attempt") < 0, F.lit("attempt is negative"))
        .when(F.col("seq").isNotNull() & ~F.col("seq").rlike(r"^[0-9]{1,18}-[0-9]{1,9}$"), F.lit("seq is no number"))
    )
    return events.withColumn("wrong", wrong).withColumn("word", word)


def _word() -> Column:
    """The event in the words of jobs. Only messages have a `seq`."""
    event = F.col("e")
    ours = F.col("seq").isNotNull()
    word = event
    for theirs, same in _WORDS.items():
        word = F.when(event == theirs, F.lit(same)).otherwise(word)
    # Who settles a claim says how long it was held; a review or a rule that ends a message has held nothing.
    no_run = F.col("duration_us").isNull()
    word = F.when((event == "completed") & no_run, F.lit("settled")).otherwise(word)
    word = F.when((event == "failed") & no_run, F.lit("rejected")).otherwise(word)
    # A message that is sent to a stream queue stays where it is, and the job there is its run.
    word = F.when((event == "routed") & _target().startswith("stream:"), F.lit("active")).otherwise(word)
    return F.when(ours, word).otherwise(event)


def _target() -> Column:
    return F.coalesce(F.element_at("rest", "to"), F.lit(""))


def quarantined(events: DataFrame) -> DataFrame:
    """The rows of bronze.events that cannot be used, whole, each with its reason."""
    bad = checked(events).where(F.col("wrong").isNotNull())
    return bad.select(
        F.col("wrong").alias("reason"),
        "source",
        "_stream",
        "_id",
        "_ts",
        F.to_json(F.struct(*events.columns)).alias("row"),
    )


def clean(events: DataFrame) -> DataFrame:
    """The usable events of jobs and messages. `at_ms` is the writer's time, or the server's where the writer's clock cannot be
    right. `turn` and `turn_seq` put the events of one job in order: by their entries; of a message by their numbers, so that
    an event that was relayed twice has the place it had."""
    good = checked(events).where(F.col("wrong").isNull() & F.col("word").isin(*TOLD))
    server_ms = F.unix_millis("_ts")
    lag = server_ms - F.col("ts")
    work = F.col("seq").isNotNull()
    behind = F.when(work, F.lit(MAX_BEHIND_OUTBOX_MS)).otherwise(F.lit(MAX_BEHIND_MS))
    trusted = F.coalesce((lag >= -MAX_AHEAD_MS) & (lag <= behind), F.lit(False))
    at = F.when(trusted, F.col("ts")).otherwise(server_ms)
    numbered = F.coalesce(F.col("seq"), F.col("_id"))
    # A dead letter that was no job at all has no id: its entry's is as good, and no two of them become one.
    job = F.when(F.coalesce(F.col("id"), F.lit("")) == "", F.concat(F.lit("~"), "_id")).otherwise(F.col("id"))
    claimed = work & (F.col("word") == "active")
    told = good.select(
        F.coalesce("source", F.lit("")).alias("source"),
        F.when(work, F.lit(WORK)).otherwise(F.lit(STREAM)).alias("room"),
        "queue",
        job.alias("job_id"),
        F.coalesce("n", F.lit("")).alias("name"),
        F.col("word").alias("e"),
        at.alias("at_ms"),
        F.split_part(numbered, F.lit("-"), F.lit(1)).cast("decimal(20,0)").alias("turn"),
        F.split_part(numbered, F.lit("-"), F.lit(2)).cast("decimal(20,0)").alias("turn_seq"),
        "attempt",
        "reason",
        "duration_us",
        F.when(claimed, at - F.coalesce("wait_ms", F.lit(0).cast("bigint"))).alias("ready_ms"),
        F.when(~claimed, F.coalesce("backoff_ms", "wait_ms", "delay_ms")).alias("pause_ms"),
        F.element_at("rest", "worker").alias("worker"),
        F.coalesce(F.element_at("rest", "subscription"), F.lit("")).alias("subscription"),
        "correlation_id",
        F.element_at("rest", "decision").alias("decision"),
        (~trusted).alias("skewed"),
        _target().alias("_to"),
    )
    return _arrivals(told).drop("_to")


def _arrivals(told: DataFrame) -> DataFrame:
    """A message that is routed leaves one queue and arrives in another, which tells nothing of it until somebody claims it."""
    parts = F.split("queue", "[.]")
    scope = F.when(F.col("_to").contains("/"), F.split_part("_to", F.lit("/"), F.lit(1))).otherwise(
        F.get(parts, F.lit(2))
    )
    target = F.concat_ws(".", F.lit("work"), F.get(parts, F.lit(1)), scope, F.split_part("_to", F.lit("/"), F.lit(-1)))
    here = F.struct(F.col("e"), F.col("queue"))
    there = F.struct(F.lit("waiting").alias("e"), target.alias("queue"))
    moved = F.when(F.col("e") == "routed", F.array(here, there)).otherwise(F.array(here))
    others = [name for name in told.columns if name not in ("e", "queue")]
    return told.withColumn("_at", F.explode(moved)).select(*others, "_at.e", "_at.queue")
