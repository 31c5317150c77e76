# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false
# pyarrow comes without types.
"""The columns of every table: name, type, and what it holds. They stand in the tables' own metadata too.

A column that a newer relevo writes is added to a table that is there; its older files read as null. Types are Spark's names.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from relevo.pipeline.source_columns import EVENTS, Column

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_MAP = re.compile(r"map<(.+?),(.+)>")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

_DECLARED = {
    "bronze.quarantine": """
        reason           string     why the event cannot be used
        source           string     the name of the server it was read from
        _stream          string     the Redis key it was read from
        _id              string     the entry's id in that stream
        _ts              timestamp  when the server took the entry
        row              string     the event as it came, as JSON
    """,
    "bronze.messages": """
        id               string     the message's id, a ULID
        tenant_id        bigint     the tenant it belongs to
        scope_id         bigint     the scope it belongs to
        queue_id         bigint     the work queue it ended in
        origin_queue_id  bigint     the work queue it was sent to
        state            string     how it ended
        sort_key         bigint     its place in the order of its queue
        visible_at       bigint     when it could first be claimed, in ms
        claim_until      bigint     when its last claim ended, in ms
        claim_token      string     the token of its last claim
        claimed_by       string     who claimed it last
        claimed_at       bigint     when it was last claimed, in ms
        attempts         bigint     how often it was claimed
        reclaims         bigint     how often a claim ran out
        replays          bigint     how often it was replayed
        message_type     string     what kind of message it is
        source_type      string     what kind of sender it has
        source_id        string     which sender
        correlation_id   string     what belongs together across queues and rooms
        causation_id     string     the message or event that caused it
        parent_id        string     the message it was made from
        priority_tier    bigint     its priority: the tier
        priority_score   bigint     its priority: the score within the tier
        labels           string     its labels, as JSON
        content_type     string     of the body
        body             string     what was sent; null once it was erased
        body_digest      string     SHA-256 of what was sent; zeros once it was erased
        expires_at       bigint     when it would have expired, in ms
        deadline_at      bigint     when it was due, in ms
        idempotency_key  string     the key it was sent with
        hitl_spec        string     how people were asked, as JSON
        open_deliveries  bigint     deliveries of its result that were still open
        failure_reason   string     why it failed
        error            string     the last error, as JSON
        result           string     what came of it, as JSON
        trail            string     its history, one JSON array a step
        created_at       bigint     when it was sent, in ms
        updated_at       bigint     when it last changed, in ms
        finished_at      bigint     when it ended, in ms
        archived_at      bigint     when it was archived, in ms
    """,
    "bronze.audit": """
        id               bigint     the entry's number
        tenant_id        bigint     the tenant it belongs to
        scope_id         bigint     the scope it belongs to
        queue_id         bigint     the work queue it is about
        at               bigint     when it was done, in ms
        actor            string     who did it
        action           string     what was done
        target           string     to what
        request_id       string     the request that did it
        correlation_id   string     what belongs together across queues and rooms
        before           string     the state before, as JSON
        after            string     the state after, as JSON
        chain            string     the chain of entries it belongs to
        chain_no         bigint     its number in the chain
        hash             string     of this entry and the one before it in its chain
    """,
    "bronze.reviews": """
        id               string     the review's id
        tenant_id        bigint     the tenant it belongs to
        scope_id         bigint     the scope it belongs to
        queue_id         bigint     the work queue of the message
        message_id       string     the message that was reviewed
        source           string     what asked for it
        origin           string     where it came from, as JSON
        correlation_id   string     what belongs together across queues and rooms
        title            string     what people saw as its title
        state            string     how it ended
        holder           string     who held it last
        next_tick_at     bigint     when it was to be looked at again, in ms
        version          bigint     how often it changed
        document         string     the whole case, as JSON
        created_at       bigint     when it was opened, in ms
        updated_at       bigint     when it last changed, in ms
        finished_at      bigint     when it was finished, in ms
    """,
    "silver.events": """
        source           string     the name of the server it was read from
        room             string     stream (a stream queue) or work (a work queue)
        queue            string     the queue's name
        job_id           string     the job's id, or the message's
        name             string     the job's name; empty for none
        e                string     the event, in the words of stream queues
        at_ms            bigint     when it happened, in ms
        turn             decimal(20,0) its place among the events of its queue
        turn_seq         decimal(20,0) its place among those of the same turn
        attempt          bigint     which run, from 1
        reason           string     why a run failed or a job died
        duration_us      bigint     how long the run took
        ready_ms         bigint     when it could have been claimed, in ms
        pause_ms         bigint     how long the job is to wait
        worker           string     who ran it
        subscription     string     the subscription it was delivered to; empty for none
        correlation_id   string     what belongs together across queues and rooms
        decision         string     what a person decided
        skewed           boolean    whether the writer's clock was wrong
        cohort_hour      bigint     the hour the job lives in, counted from 1970
    """,
    "silver.attempts": """
        cohort_hour      bigint     the hour the job lives in, counted from 1970
        source           string     the name of the server it was read from
        room             string     stream (a stream queue) or work (a work queue)
        queue            string     the queue's name
        name             string     the job's name; empty for none
        job_id           string     the job's id
        subscription     string     the subscription it was delivered to; empty for none
        incarnation      int        which life of the id, from 0
        run              int        which run of this life
        attempt          int        the number the engine gave the run, from 1
        started_at       timestamp  when the run began
        ended_at         timestamp  when it ended; null while it runs
        waited_ms        bigint     how long the job was ready before it ran
        ran_ms           double     how long it ran
        outcome          string     done, failed, cancelled, parked, lost or running
        reason           string     why it failed
        backoff_ms       bigint     how long the retry after it waited
        worker           string     who ran it
        skewed           boolean    whether a writer's clock was wrong
    """,
    "silver.jobs": """
        cohort_hour      bigint     the hour the job lives in, counted from 1970
        source           string     the name of the server it was read from
        room             string     stream (a stream queue) or work (a work queue)
        queue            string     the queue's name
        name             string     the job's name; empty for none
        job_id           string     the job's id
        incarnation      int        which life of the id, from 0
        correlation_id   string     what belongs together across queues and rooms
        first_seen_at    timestamp  its first event
        arrived_at       timestamp  when it was ready to run, or first seen
        finished_at      timestamp  when it ended; null while it is open
        outcome          string     done, dead, cancelled or open
        attempts         int        how many runs it took
        total_ms         bigint     from ready to finished; null while it is open
        busy_ms          double     how long its runs took together
        dead_reason      string     why it is dead; null if it is not
        last_dead_reason string     why it died last, also if it was replayed since
        reason           string     why its last failed run failed
        deaths           int        how often it was dead-lettered
        dead_at          timestamp  when it died last
        replayed         int        how often it came back
        reviews          int        how often people were asked
        review_ms        bigint     from the first question to the last decision
        decision         string     what people decided last
    """,
    "silver.reviews": """
        tenant           string     the tenant it belongs to
        queue            string     the work queue of the message; empty for none
        message_id       string     the message that was reviewed; empty for none
        review_id        string     the review's id
        vote             int        which decision of this review, from 0
        opened_at        timestamp  when the review was opened
        decided_at       timestamp  when this person decided
        finished_at      timestamp  when the review was finished
        waiting_ms       bigint     from opened to claimed
        held_ms          bigint     from claimed to decided; null if it was not claimed
        decided_by       string     who decided
        decision         string     what was decided
        corrected        boolean    whether the body was corrected
    """,
    "silver.counts": """
        cohort_hour      bigint     the hour the job lives in, counted from 1970
        source           string     the name of the server it was read from
        minute_ms        bigint     the minute, by its first millisecond
        queue            string     the queue's name
        name             string     the jobs' name
        arrived          bigint     jobs that came
        started          bigint     runs that began
        done             bigint     runs that succeeded
        failed           bigint     runs that failed
        retried          bigint     failed runs that are tried again
        lost             bigint     runs that never ended
        cancelled        bigint     jobs that were cancelled
        expired          bigint     messages that expired
        routed           bigint     messages that left for another queue
        dead             bigint     jobs that were dead-lettered
        met              bigint     jobs that met their objective
        missed           bigint     jobs that missed their objective
        busy_ms          double     how long runs took together
    """,
    "silver.sketches": """
        cohort_hour      bigint     the hour the job lives in, counted from 1970
        source           string     the name of the server it was read from
        minute_ms        bigint     the minute, by its first millisecond
        queue            string     the queue's name
        name             string     the jobs' name
        measure          string     wait, run or total
        count            bigint     how many times were measured
        min_ms           double     the shortest
        max_ms           double     the longest
        sum_ms           double     all together
        sketch           binary     a KLL sketch of them
    """,
    "silver.reasons": """
        cohort_hour      bigint     the hour the job lives in, counted from 1970
        source           string     the name of the server it was read from
        day_ms           bigint     the day, by its first millisecond
        queue            string     the queue's name
        name             string     the jobs' name
        kind             string     failed or dead
        reason           string     the reason without what differs from case to case
        count            bigint     how often
        first_seen_at    timestamp  for the first time
        last_seen_at     timestamp  for the last time
        example          struct<text:string,job_id:string> one of them, in its own words, and its job
    """,
    "silver.closings": """
        source           string     the name of the server it was read from
        queue            string     the queue's name
        name             string     the jobs' name
        net              bigint     what the day added to the backlog
    """,
    "gold.throughput": """
        minute           timestamp  the minute, by its first instant
        source           string     the name of the server it was read from
        queue            string     the queue's name
        name             string     the jobs' name; empty for none
        arrived          bigint     jobs that came
        started          bigint     runs that began
        done             bigint     runs that succeeded
        failed           bigint     runs that failed
        retried          bigint     failed runs that are tried again
        lost             bigint     runs that never ended: a worker died
        cancelled        bigint     jobs that were cancelled
        expired          bigint     messages that expired
        routed           bigint     messages that left for another queue
        dead             bigint     jobs that were dead-lettered
        busy_ms          double     how long runs took together
        backlog          bigint     jobs that had come and not ended, at the end of the minute
    """,
    "gold.latency": """
        grain            string     minute, hour or day
        at               timestamp  its first instant
        source           string     the name of the server it was read from
        queue            string     the queue's name
        name             string     the jobs' name; empty for none
        measure          string     wait (ready to started), run, or total (ready to done)
        count            bigint     how many times were measured
        min_ms           double     the shortest
        p50_ms           double     the median
        p90_ms           double     nine in ten took no longer
        p95_ms           double     95 in 100 took no longer
        p99_ms           double     99 in 100 took no longer
        p999_ms          double     999 in 1000 took no longer
        max_ms           double     the longest
        mean_ms          double     the mean
        sum_ms           double     all together
        sketch           binary     a KLL sketch: those of several rows can be merged
    """,
    "gold.failures": """
        day              timestamp  the day, by its first instant
        source           string     the name of the server it was read from
        queue            string     the queue's name
        name             string     the jobs' name; empty for none
        kind             string     failed (a run) or dead (a job)
        reason           string     the reason without what differs from case to case
        count            bigint     how often
        share            double     of all of its kind in this queue that day
        first_seen_at    timestamp  for the first time that day
        last_seen_at     timestamp  for the last time that day
        example          string     one of them, in its own words
        example_job_id   string     the job of the example
    """,
    "gold.slo": """
        hour             timestamp  the hour, by its first instant
        source           string     the name of the server it was read from
        queue            string     the queue's name
        objective_ms     bigint     within what time a job is to be done
        target           double     for what share of jobs
        met              bigint     jobs that met it in this hour
        missed           bigint     jobs that missed it in this hour
        attained_1h      double     share that met it in this hour
        burn_1h          double     how fast the error budget burnt in this hour; 1 uses it up exactly
        attained_6h      double     share that met it in the six hours up to this one
        burn_6h          double     how fast the error budget burnt in six hours
        attained_3d      double     share that met it in the three days up to this hour
        burn_3d          double     how fast the error budget burnt in three days
        budget_left_3d   double     share of the three days' error budget that is left
    """,
    "gold.usage": """
        day              timestamp  the day, by its first instant
        tenant           string     the tenant; empty for stream queues
        source           string     the name of the server it was read from
        queue            string     the queue's name, or a work queue's number
        messages         bigint     jobs that came, or messages that were sent
        bytes            bigint     the size of message bodies
        runs             bigint     runs, or claims
        handler_s        double     seconds that handlers took
        reviews          bigint     decisions by people
    """,
    "gold.forecast": """
        hour             timestamp  the hour to come, by its first instant
        source           string     the name of the server it was read from
        queue            string     the queue's name
        arrivals         double     jobs expected
        arrivals_high    double     jobs that are rarely exceeded
        backlog          double     backlog expected at its end
        mean_run_s       double     how long a run takes
        workers          bigint     runs at a time that keep waits within the target
        wait_target_s    double     the mean wait that was asked for
        backtest_error   double     how far off the same forecast was for the last day, as a share
    """,
    "gold.anomalies": """
        minute           timestamp  the minute, by its first instant
        source           string     the name of the server it was read from
        queue            string     the queue's name
        metric           string     arrived, done, failed or dead
        value            double     what it was
        usual            double     the median of this hour on the days before
        low              double     the lower edge of what is usual
        high             double     the upper edge of what is usual
        side             string     above or below
        backtest_error   double     how far off what is usual was on the day before, as a share
    """,
    "gold.expectations": """
        checked_at       timestamp  when a new version of the table was looked at
        table_name       string     the table, such as silver.jobs
        version          bigint     the version it has been since: the new one, or the last good one that stayed
        expectation      string     what must be true of its rows
        severity         string     what happens where it is not: warn, drop (those rows) or fail (the new version)
        outcome          string     held, warned, dropped or failed
        checked_rows     bigint     how many rows were looked at
        broken_rows      bigint     how many broke it
        samples          string     up to five of those, as JSON, without texts that people wrote
    """,
}

PARTITIONS = {
    "date": Column("date", "date", "the day this partition holds (UTC)"),
    "hour": Column("hour", "int", "the hour of that day in which the jobs were made"),
    "adds_to": Column("adds_to", "date", "the day these rows are part of"),
}
"""The columns that tables are partitioned by: never a queue, of which there may be thousands."""


def columns_of(table: str) -> tuple[Column, ...]:
    """What is declared of a table, without the columns it is partitioned by.

    >>> [column.holds for column in columns_of("gold.usage") if column.name == "queue"]
    ["the queue's name, or a work queue's number"]
    """
    if table == "bronze.events":
        return EVENTS
    if table not in _DECLARED:  # a user's own
        return ()
    lines = (line.split(None, 2) for line in _DECLARED[table].strip().splitlines())
    return tuple(Column(name, kind, holds) for name, kind, holds in lines)


def arrow_type(name: str) -> Any:
    """
    >>> str(arrow_type("struct<text:string,job:string>"))
    'struct<text: string, job: string>'
    """
    if found := _MAP.fullmatch(name):
        return pa.map_(arrow_type(found[1]), arrow_type(found[2]))
    if found := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(found[1]), int(found[2]))
    if name.startswith("struct<"):
        inner = (part.split(":") for part in name[7:-1].split(","))
        return pa.struct([(field, arrow_type(kind)) for field, kind in inner])
    return _TYPES[name]


def arrow_schema(columns: tuple[Column, ...]) -> Any:
    """The columns for Arrow, each with its comment as Delta and Spark know it."""
    return pa.schema([pa.field(one.name, arrow_type(one.type), metadata={"comment": one.holds}) for one in columns])
