"""Rules, what waits to be asked of them, and messages that are worked on as jobs."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger

from relevo.work.store.migrations.tables_0001.columns import (
    Document,
    Number,
    among,
    exact,
    not_negative,
    table,
    ulid,
    words,
)
from relevo.work.store.migrations.tables_0001.tenancy import scopes

rules = table(
    "rules",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("name", exact(63), nullable=False),
    Column("position", Integer, nullable=False),
    Column("trigger_on", exact(20), nullable=False),
    Column("enabled", SmallInteger, nullable=False),
    Column("definition", Document, nullable=False),
    Column("breaker", Document, nullable=False),
    Column("matched", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    not_negative("matched", "failed"),
    Index("uq_relevo_rules_name", "scope_id", "name", unique=True),
)

routings = table(
    "routings",
    Column("id", Number, primary_key=True),
    Column("scope_id", Number, nullable=False),
    Column("queue_id", Number, nullable=False),
    ulid("message_id", nullable=False),
    Column("trigger_on", exact(20), nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    not_negative("tries"),
    Index("ix_relevo_routings_due", "due_at", "id"),
)

stream_jobs = table(
    "stream_jobs",
    ulid("message_id", primary_key=True),
    Column("stream_queue", exact(200), nullable=False),
    Column("job_name", words(200), nullable=False),
    Column("state", exact(10), nullable=False),
    Column("job_id", exact(40), nullable=False),
    Column("sends", Integer, nullable=False),
    Column("send_at", BigInteger, nullable=False),
    Column("looked_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    among("state", ["waiting", "sent", "over"]),
    not_negative("sends"),
    Index("ix_relevo_stream_jobs_state", "state", "send_at"),
    Index("ix_relevo_stream_jobs_job", "job_id"),
)
