"""What every transaction writes beside its rows: counters, events, audit."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger, text

from relevo.work.store.migrations.tables_0001.columns import (
    NEVER_AGAIN,
    Document,
    Number,
    exact,
    table,
    ulid,
    where_set,
    words,
)
from relevo.work.store.migrations.tables_0001.tenancy import queues

tallies = table(
    "tallies",
    Column("queue_id", Number, ForeignKey(queues.c.id), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("slot", SmallInteger, primary_key=True),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in (
            *("pending", "delayed", "claimed", "in_review", "dead"),
            *("published", "published_bytes", "claims", "completed", "failed", "retried", "released", "reclaimed"),
            *("expired", "dead_lettered", "cancelled", "replayed", "handler_ms", "reviews"),
        )
    ),
)

outbox = table(
    "events_outbox",
    Column("id", Number, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
    Column("events", Document, nullable=False),
    Column("copied", SmallInteger, nullable=False, server_default=text("0")),
    **NEVER_AGAIN,
)

audit = table(
    "audit",
    Column("id", Number, primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, nullable=True),
    Column("queue_id", Number, nullable=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", words(200), nullable=False),
    Column("action", exact(60), nullable=False),
    Column("target", words(200), nullable=False),
    Column("request_id", exact(40), nullable=False),
    Column("correlation_id", words(200), nullable=True),
    Column("before", Document, nullable=True),
    Column("after", Document, nullable=True),
    ulid("chain", nullable=True),
    Column("chain_no", BigInteger, nullable=True),
    Column("hash", exact(64), nullable=True),
    Index("ix_relevo_audit_tenant", "tenant_id", "id"),
    Index("ix_relevo_audit_target", "target"),
    where_set("ix_relevo_audit_correlation", "correlation_id"),
)

audit_chains = table(
    "audit_chains",
    ulid("chain", primary_key=True),
    Column("began_after", Document, nullable=False),
    Column("last_no", BigInteger, nullable=False),
    Column("last_hash", exact(64), nullable=False),
    Column("cut_no", BigInteger, nullable=False, server_default=text("0")),
    Column("cut_hash", exact(64), nullable=False, server_default=text("''")),
)
