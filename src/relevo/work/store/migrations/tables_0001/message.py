"""Messages, live and archived, and what is kept of each beside its row: labels, idempotency key, parts of its result."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, SmallInteger, text

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

STATES = ["pending", "delayed", "claimed", "in_review", "completed", "failed", "expired", "dead", "cancelled"]
STANDINGS = ("in_review", "failed", "expired", "dead", "cancelled")


def _message_columns() -> tuple[Any, ...]:
    return (
        ulid("id", primary_key=True),
        Column("tenant_id", Number, nullable=False),
        Column("scope_id", Number, nullable=False),
        Column("queue_id", Number, nullable=False),
        Column("origin_queue_id", Number, nullable=True),
        Column("sort_key", BigInteger, nullable=False),
        Column("visible_at", BigInteger, nullable=True),
        Column("claim_until", BigInteger, nullable=True),
        Column("claim_token", exact(26), nullable=True),
        Column("claimed_by", words(200), nullable=True),
        Column("claimed_at", BigInteger, nullable=True),
        Column("attempts", Integer, nullable=False, server_default=text("0")),
        Column("reclaims", Integer, nullable=False, server_default=text("0")),
        Column("replays", Integer, nullable=False, server_default=text("0")),
        Column("message_type", words(200), nullable=False, server_default=text("'message'")),
        Column("source_type", words(100), nullable=True),
        Column("source_id", words(200), nullable=True),
        Column("correlation_id", words(200), nullable=False),
        Column("causation_id", words(200), nullable=True),
        ulid("parent_id", nullable=True),
        Column("priority_tier", SmallInteger, nullable=False, server_default=text("2")),
        Column("priority_score", SmallInteger, nullable=False, server_default=text("0")),
        Column("labels", Document, nullable=False, server_default=text("'{}'")),
        Column("content_type", words(100), nullable=False, server_default=text("'application/json'")),
        Column("body", Document, nullable=True),
        Column("body_digest", exact(64), nullable=True),
        Column("expires_at", BigInteger, nullable=True),
        Column("deadline_at", BigInteger, nullable=True),
        Column("idempotency_key", words(200), nullable=True),
        Column("hitl_spec", Document, nullable=True),
        Column("open_deliveries", Integer, nullable=True),
        Column("failure_reason", Document, nullable=True),
        Column("error", Document, nullable=True),
        Column("result", Document, nullable=True),
        Column("published_by", words(200), nullable=True),
        Column("trail", Document, nullable=False, server_default=text("''")),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("finished_at", BigInteger, nullable=True),
    )


messages = table(
    "messages",
    *_message_columns(),
    Column("standing", exact(10), nullable=True),
    Column("claim_no", Integer, nullable=False, server_default=text("0")),
    among("standing", STANDINGS),
    not_negative("attempts", "reclaims", "replays", "claim_no"),
    Index("ix_relevo_messages_queue", "queue_id", "id"),
    postgresql_with={"fillfactor": 55},
)

ready = table(
    "ready",
    Column("queue_id", Number, primary_key=True, autoincrement=False),
    Column("sort_key", BigInteger, primary_key=True, autoincrement=False),
    ulid("id", primary_key=True),
    sqlite_with_rowid=False,
)

due = table(
    "due",
    Column("kind", exact(8), primary_key=True),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    ulid("id", primary_key=True),
    among("kind", ["visible", "ttl", "deadline", "dead"]),
    sqlite_with_rowid=False,
)

leases = table(
    "leases",
    Column("token", exact(26), primary_key=True),
    Column("scope_id", Number, nullable=False),
    Column("queue_id", Number, nullable=False),
    Column("claimed_by", words(200), nullable=False),
    Column("actor", words(200), nullable=False),
    Column("claimed_at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("held", Document, nullable=False),
    Column("look_at", BigInteger, nullable=False),
    Index("ix_relevo_leases_look", "look_at"),
)

archive = table(
    "archive",
    *_message_columns(),
    Column("state", exact(10), nullable=False),
    Column("archived_at", BigInteger, nullable=False),
    among("state", STATES),
    not_negative("attempts", "reclaims", "replays"),
    Index("ix_relevo_archive_queue", "queue_id", "id"),
    Index("ix_relevo_archive_archived", "archived_at"),
)

labels = table(
    "labels",
    Column("scope_id", Number, primary_key=True),
    Column("name", words(100), primary_key=True),
    Column("value", words(200), primary_key=True),
    ulid("message_id", primary_key=True),
    Index("ix_relevo_labels_message", "message_id"),
)

keys = table(
    "keys",
    Column("queue_id", Number, primary_key=True, autoincrement=False),
    Column("idempotency_key", words(200), primary_key=True),
    ulid("message_id", nullable=False),
    sqlite_with_rowid=False,
)

chunks = table(
    "chunks",
    ulid("message_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("claim_token", exact(26), nullable=False),
    Column("body", Document, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("final", SmallInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
