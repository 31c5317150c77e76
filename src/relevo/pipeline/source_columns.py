"""The columns of what the connector reads, one table for each `what`: their names, their Spark types and what they hold.

A row is never lost because it is odd: what cannot be read is null, `bad` says why, and unknown fields stand in `rest`.
"""

from __future__ import annotations

from typing import NamedTuple

RETRY = (
    "struct<max_attempts:bigint,backoff:struct<kind:string,delay_ms:bigint,max_delay_ms:bigint,"
    "multiplier:double,jitter_ms:bigint>>"
)


class Column(NamedTuple):
    """One column: its name, its type as Spark SQL writes it, and what it holds. Every column may be null."""

    name: str
    type: str
    holds: str


_WHERE = (
    Column("source", "string", "the name of the server it was read from: the option `source`, else its address"),
    Column("_stream", "string", "the Redis key it was read from, such as {chasqui:emails}:events"),
    Column(
        "_id",
        "string",
        "the entry's id, `ms-seq`; unique together with source and _stream, except for the jobs of one frame",
    ),
    Column("_ts", "timestamp", "when the server took the entry, from its id"),
)
_ODD = (
    Column("rest", "map<string,string>", "fields that are none of the columns; null when there are none"),
    Column("bad", "string", "why the entry is malformed; null when it is as it should be"),
)
_JOB = (
    Column("queue", "string", "the queue's name"),
    Column("job_id", "string", "the job's id"),
    Column("name", "string", "the job's name; null for none"),
    Column("data", "string", "the job's data as JSON; with payload=raw the msgpack bytes (binary)"),
    Column("created_at", "timestamp", "when the job was made; retries and replays keep it"),
    Column("attempt", "bigint", "runs before this one, as in the envelope (from 0)"),
    Column("retry", RETRY, "the job's own retry settings; null for the queue's"),
)

EVENTS = (
    Column("queue", "string", "the queue's name; of a work queue work.<tenant>.<scope>.<queue>"),
    Column(
        "e",
        "string",
        "the event: waiting, active, completed, failed, dlq, ...; of messages published, claimed, retried, ...",
    ),
    Column("id", "string", "the job's id; empty for an event of the queue itself"),
    Column("ts", "bigint", "when it happened by the writer's clock, in ms"),
    Column("n", "string", "the job's name; null for none"),
    Column("attempt", "bigint", "which run, from 1"),
    Column("reason", "string", "why a run failed or a job was dead-lettered"),
    Column("duration_us", "bigint", "how long the run took"),
    Column("backoff_ms", "bigint", "how long a retry waits"),
    Column("delay_ms", "bigint", "how long a delayed add waits"),
    Column("wait_ms", "bigint", "how long a rate-limited job waits, or how long a claimed message has waited"),
    Column("progress", "bigint", "0 to 100, as the handler reported it"),
    Column("prev", "string", "the consumer that held a stalled job before"),
    Column("correlation_id", "string", "of a message: what it belongs to, across queues"),
    Column("seq", "string", "of a message: the event's number, the same when it was relayed twice"),
    *_ODD,
    *_WHERE,
)
STREAM = (*_JOB, *_ODD, *_WHERE)
DLQ = (
    *_JOB,
    Column("source_id", "string", "the entry's id in the stream it came from"),
    Column("reason", "string", "why it was dead-lettered: retries_exhausted, unrecoverable, decode_failed, ..."),
    Column("detail", "string", "the error's text"),
    *_ODD,
    *_WHERE,
)
DELAYED = (
    *_JOB,
    Column("run_at", "timestamp", "when the job is due"),
    Column("bad", "string", "why the member is malformed; null when it is as it should be"),
    Column("source", "string", "the name of the server it was read from"),
    Column("_stream", "string", "the Redis key of the delayed set"),
)

LANDED = (
    Column("path", "string", "a Parquet file of events that a task has written, below the folder"),
    Column("day", "bigint", "the day they came on, by _ts, counted from 1970"),
    Column("rows", "bigint", "how many there are"),
    Column("bytes", "bigint", "the file's size"),
    Column("stats", "string", "the file's statistics, as Delta's log has them"),
    Column("source", "string", "the name of the server they were read from"),
    Column("last_ids", "map<string,string>", "the newest of each stream they were read from"),
)
"""With the option `landing`: the files of events, instead of the events."""

TABLES = {"events": EVENTS, "stream": STREAM, "dlq": DLQ, "delayed": DELAYED}


def ddl(columns: tuple[Column, ...], *, raw_payload: bool = False) -> str:
    """The columns as a Spark schema string.

    >>> ddl(DELAYED[:2])
    '`queue` string, `job_id` string'
    """
    return ", ".join(
        f"`{column.name}` {'binary' if raw_payload and column.name == 'data' else column.type}" for column in columns
    )
