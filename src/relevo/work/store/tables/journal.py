"""What every transaction writes beside its rows: counters, events, audit."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger, text

from relevo.work.store.tables.columns import NEVER_AGAIN, Document, Number, exact, table, ulid, where_set, words
from relevo.work.store.tables.tenancy import queues

# Depths and usage in one: every transaction adds its own counters to a row of (queue, day, slot). A slot belongs to
# one process, so that processes do not queue up for a counter's lock; a depth is the sum over all rows of a queue.
tallies = table(
    "tallies",
    Column("queue_id", Number, ForeignKey(queues.c.id), primary_key=True),
    Column("day", Integer, primary_key=True),  # days since 1970, UTC
    Column("slot", SmallInteger, primary_key=True),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in (
            *("pending", "delayed", "claimed", "in_review", "dead"),  # depths: may be negative in one row, not in sum
            *("published", "published_bytes", "claims", "completed", "failed", "retried", "released", "reclaimed"),
            *("expired", "dead_lettered", "cancelled", "replayed", "handler_ms", "reviews"),
        )
    ),
)

outbox = table(
    "events_outbox",  # the events of one transaction, relayed in the order of `id`, then deleted
    Column("id", Number, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
    Column("events", Document, nullable=False),  # JSON, see work/store/outbox.py
    # 1 once `_events` has its messages while the stream still waits, because Redis is away
    Column("copied", SmallInteger, nullable=False, server_default=text("0")),
    **NEVER_AGAIN,
)

audit = table(
    "audit",  # one row a call that changed something; append only
    Column("id", Number, primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, nullable=True),
    Column("queue_id", Number, nullable=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", words(200), nullable=False),
    Column("action", exact(60), nullable=False),
    Column("target", words(200), nullable=False),  # what was changed: a slug, or a message id (the first of a batch)
    Column("request_id", exact(40), nullable=False),
    Column("correlation_id", words(200), nullable=True),
    Column("before", Document, nullable=True),
    Column("after", Document, nullable=True),  # JSON; for a batch the ids and what was done to them
    ulid("chain", nullable=True),  # its place among the others, see store/audit_chain.py
    Column("chain_no", BigInteger, nullable=True),
    Column("hash", exact(64), nullable=True),
    Index("ix_relevo_audit_tenant", "tenant_id", "id"),
    Index("ix_relevo_audit_target", "target"),
    where_set("ix_relevo_audit_correlation", "correlation_id"),
)

audit_chains = table(
    "audit_chains",  # where each chain of the audit ends, and from where on it is kept
    ulid("chain", primary_key=True),
    Column("began_after", Document, nullable=False),
    Column("last_no", BigInteger, nullable=False),
    Column("last_hash", exact(64), nullable=False),
    Column("cut_no", BigInteger, nullable=False, server_default=text("0")),
    Column("cut_hash", exact(64), nullable=False, server_default=text("''")),
)
