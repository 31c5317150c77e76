"""Reviews, their patterns, and the stream queues whose dead letters go to review."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer

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

reviews = table(
    "reviews",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("queue_id", Number, nullable=True),
    ulid("message_id", nullable=True),
    Column("source", exact(20), nullable=False),
    Column("origin", Document, nullable=False),
    Column("correlation_id", words(200), nullable=False),
    Column("title", words(500), nullable=False),
    Column("state", exact(10), nullable=False),
    Column("holder", words(200), nullable=True),
    Column("next_tick_at", BigInteger, nullable=True),
    Column("version", Integer, nullable=False),
    Column("document", Document, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=True),
    among("state", ["waiting", "held", "decided", "failed", "withdrawn"]),
    not_negative("version"),
    Index("ix_relevo_reviews_inbox", "scope_id", "state", "id"),
    Index("ix_relevo_reviews_tick", "next_tick_at"),
    Index("ix_relevo_reviews_message", "message_id"),
    Index("ix_relevo_reviews_correlation", "scope_id", "correlation_id"),
)

review_patterns = table(
    "review_patterns",
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True),
    Column("name", exact(63), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("definition", Document, nullable=False),
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

stream_watches = table(
    "stream_watches",
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True, autoincrement=False),
    Column("stream_queue", exact(200), primary_key=True),
    Column("review", Document, nullable=False),
    Column("reached", exact(40), nullable=False),
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
