"""The tables of work queues, the same on SQLite, MariaDB and PostgreSQL.

Times are whole milliseconds since 1970 (`_at`, `_until`): they compare, sort and travel alike everywhere. Message ids are
ULIDs, so that the primary key is also the order of arrival. JSON is kept as text: bodies leave as they came, byte for byte.
Ids and states are compared byte by byte (`ascii_bin` on MariaDB), never by the rules of a language.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    and_,
    literal,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects import mysql, sqlite

PREFIX = "relevo_"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

Number = BigInteger().with_variant(sqlite.INTEGER(), "sqlite")  # SQLite counts up by itself only in an INTEGER key
Document = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def exact(length: int) -> String:
    """Short text compared byte by byte."""
    return String(length).with_variant(
        mysql.VARCHAR(length, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
    )


def ulid(name: str, **options: Any) -> Column[str]:
    kind = String(26).with_variant(mysql.CHAR(26, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
    return Column(name, kind, **options)


def _partial(name: str, *columns: str, where: str) -> Index:
    """An index over some rows only, where the database has such: what a message does not need in its state costs it nothing.
    A query finds it only when it says the condition in the same words, see below the tables of messages."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def _where_set(name: str, column: str) -> Index:
    """An index for agents over a time that only rows in one state have: `visible_at` while delayed, `claim_until` while
    claimed, `finished_at` when terminal, else NULL. So that a change of state touches few indexes, and most inserts none."""
    return _partial(name, column, where=f"{column} IS NOT NULL")


def table(name: str, *columns: Any, **options: Any) -> Table:
    return Table(PREFIX + name, metadata, *columns, **_MYSQL, **options)


_NEVER_AGAIN: dict[str, Any] = {"sqlite_autoincrement": True}
"""For tables whose rows go while their numbers are still known elsewhere (the `seq` of an event, the queue of an audit row):
without it SQLite gives the number of a deleted last row to the next one. The other databases never do."""


settings = table(
    "settings",  # what belongs to the installation as a whole: its id, which names its keys in Redis
    Column("name", exact(64), primary_key=True),
    Column("value", Document, nullable=False),
)

tenants = table(
    "tenants",
    Column("id", Number, primary_key=True),
    Column("slug", exact(63), nullable=False, unique=True),
    Column("display_name", String(200), nullable=False),
    Column("state", exact(10), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    **_NEVER_AGAIN,
)

api_keys = table(
    "api_keys",  # the key itself is shown once and never stored: `digest` is SHA-256 of 32 random bytes
    Column("id", exact(26), primary_key=True),
    Column("tenant_id", Number, ForeignKey(tenants.c.id), nullable=False, index=True),
    Column("name", String(200), nullable=False),
    Column("hint", exact(12), nullable=False),
    Column("digest", exact(64), nullable=False, unique=True),
    Column("permissions", String(200), nullable=False),
    Column("scope_slugs", Document, nullable=True),
    Column("queue_slugs", Document, nullable=True),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=True),
    Column("revoked_at", BigInteger, nullable=True),
    Column("last_used_at", BigInteger, nullable=True),
)

scopes = table(
    "scopes",
    Column("id", Number, primary_key=True),
    Column("tenant_id", Number, ForeignKey(tenants.c.id), nullable=False),
    Column("slug", exact(63), nullable=False),
    Column("display_name", String(200), nullable=False),
    Column("description", Document, nullable=False),
    Column("state", exact(10), nullable=False),
    Column("events_to_queue", Document, nullable=False),  # JSON list of event names that become messages of `_events`
    Column("audit_to_queue", SmallInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("uq_relevo_scopes_slug", "tenant_id", "slug", unique=True),
    **_NEVER_AGAIN,
)

queues = table(
    "queues",
    Column("id", Number, primary_key=True),
    Column("tenant_id", Number, ForeignKey(tenants.c.id), nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("slug", exact(63), nullable=False),
    Column("display_name", String(200), nullable=False),
    Column("description", Document, nullable=False),
    Column("system", SmallInteger, nullable=False),  # 1 for `_dead_letter` and its like
    Column("ordering", exact(8), nullable=False),
    Column("consumer_mode", exact(9), nullable=False),
    Column("visibility_timeout_s", Integer, nullable=False),
    Column("max_retries", Integer, nullable=False),
    Column("backoff_initial_ms", Integer, nullable=False),
    Column("backoff_multiplier", String(20), nullable=False),  # a decimal in text: floats differ between databases
    Column("backoff_cap_ms", Integer, nullable=False),
    Column("backoff_jitter_ms", Integer, nullable=False),
    Column("max_reclaims", Integer, nullable=False),
    Column("max_depth", BigInteger, nullable=True),
    Column("overflow_policy", exact(18), nullable=False),
    Column("default_ttl_s", BigInteger, nullable=True),
    Column("dead_letter_expired", SmallInteger, nullable=False),
    Column("aging_crosses_tiers", SmallInteger, nullable=False),
    Column("state", exact(10), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("uq_relevo_queues_slug", "scope_id", "slug", unique=True),
    **_NEVER_AGAIN,
)

# Depths and usage in one: every transaction adds its own differences to a row of (queue, day, slot). A slot belongs to
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


def _message_columns() -> tuple[Any, ...]:
    return (
        ulid("id", primary_key=True),
        Column("tenant_id", Number, nullable=False),
        Column("scope_id", Number, nullable=False),
        Column("queue_id", Number, nullable=False),
        Column("origin_queue_id", Number, nullable=True),  # of a dead letter or a routed message: where it came from
        Column("state", exact(10), nullable=False),
        Column("sort_key", BigInteger, nullable=False),  # lowest first, then by id; see work/order.py
        Column("visible_at", BigInteger, nullable=True),  # of a delayed message, else NULL
        Column("claim_until", BigInteger, nullable=True),  # of a claimed one, else NULL
        Column("claim_token", exact(26), nullable=True),
        Column("claimed_by", String(200), nullable=True),
        Column("claimed_at", BigInteger, nullable=True),
        Column("attempts", Integer, nullable=False),
        Column("reclaims", Integer, nullable=False),
        Column("replays", Integer, nullable=False),
        Column("message_type", String(200), nullable=False),
        Column("source_type", String(100), nullable=True),
        Column("source_id", String(200), nullable=True),
        Column("correlation_id", String(200), nullable=False),
        Column("causation_id", String(200), nullable=True),
        ulid("parent_id", nullable=True),
        Column("priority_tier", SmallInteger, nullable=False),  # 0 background … 4 critical
        Column("priority_score", SmallInteger, nullable=False),
        Column("labels", Document, nullable=False),  # a JSON object of text
        Column("content_type", String(100), nullable=False),
        Column("body", Document, nullable=True),  # JSON; none after erasure
        Column("body_digest", exact(64), nullable=False),
        Column("expires_at", BigInteger, nullable=True),  # ttl
        Column("deadline_at", BigInteger, nullable=True),
        Column("idempotency_key", String(200), nullable=True),
        Column("hitl_spec", Document, nullable=True),
        Column("open_deliveries", Integer, nullable=True),  # of a broadcast message: subscriptions still at it
        Column("failure_reason", Document, nullable=True),
        Column("error", Document, nullable=True),  # its last failure as JSON, see work/failure.py
        Column("result", Document, nullable=True),
        Column(
            "trail", Document, nullable=False
        ),  # its history: JSON arrays [ms, event, actor, detail], each with a comma after
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("finished_at", BigInteger, nullable=True),
    )


messages = table(
    "messages",
    *_message_columns(),
    # All but those in the two states that every message passes through and nobody looks for by queue.
    _partial(
        "ix_relevo_messages_order", "queue_id", "state", "sort_key", "id", where="state NOT IN ('claimed', 'completed')"
    ),
    _where_set("ix_relevo_messages_visible", "visible_at"),
    _partial("ix_relevo_messages_claims", "claim_until", where="state = 'claimed'"),
    _where_set("ix_relevo_messages_finished", "finished_at"),
    _where_set("ix_relevo_messages_expires", "expires_at"),
    _where_set("ix_relevo_messages_deadline", "deadline_at"),
    Index("ix_relevo_messages_scope", "scope_id", "id"),
    # Most messages are correlated with themselves alone, and found by their id.
    _partial("ix_relevo_messages_correlation", "scope_id", "correlation_id", where="correlation_id <> id"),
)

STANDING: ColumnElement[bool] = messages.c.state.not_in([literal_column("'claimed'"), literal_column("'completed'")])
"""What the order index covers. SQLite uses it for a query that says so, PostgreSQL also for one that means so."""

CLAIMED: ColumnElement[bool] = messages.c.state == literal_column("'claimed'")
"""What the index of claims covers."""


def correlated(rows: Table, scope_ids: Collection[int], correlation_id: str) -> ColumnElement[bool]:
    """Those rows of these scopes that belong together; of messages by their ids, which their index leads to."""
    here = and_(rows.c.scope_id.in_(scope_ids), rows.c.correlation_id == correlation_id)
    if rows is not messages:
        return here
    others = messages.alias().c
    found = select(others.id).where(
        *(others.scope_id.in_(scope_ids), others.correlation_id == correlation_id, others.correlation_id != others.id)
    )
    return and_(here, messages.c.id.in_(union_all(found, select(literal(correlation_id)))))


archive = table(
    "archive",  # a finished message moves here an hour later; it is read through the same API
    *_message_columns(),
    Column("archived_at", BigInteger, nullable=False),
    Index("ix_relevo_archive_scope", "scope_id", "id"),
    Index("ix_relevo_archive_queue", "queue_id", "id"),
    Index("ix_relevo_archive_correlation", "scope_id", "correlation_id"),
    Index("ix_relevo_archive_archived", "archived_at"),
)

labels = table(
    "labels",  # the labels once more, a row each, to find messages by; they stay while the message or its archive does
    Column("scope_id", Number, primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("value", String(200), primary_key=True),
    ulid("message_id", primary_key=True),
    Index("ix_relevo_labels_message", "message_id"),
)

idempotency = table(
    "idempotency",  # one row a key, for as long as the message or its archive exists
    Column("queue_id", Number, primary_key=True),
    Column("idempotency_key", String(200), primary_key=True),
    ulid("message_id", nullable=False),
    Column("body_digest", exact(64), nullable=False),
    Index("ix_relevo_idempotency_message", "message_id"),
    sqlite_with_rowid=False,  # its key is all that is looked for: one tree less to write
)

subscriptions = table(
    "subscriptions",
    Column("id", Number, primary_key=True),
    Column("queue_id", Number, ForeignKey(queues.c.id), nullable=False),
    Column("name", exact(63), nullable=False),
    ulid("from_id", nullable=False),  # sees messages with ids after this
    Column("created_at", BigInteger, nullable=False),
    Index("uq_relevo_subscriptions_name", "queue_id", "name", unique=True),
    **_NEVER_AGAIN,
)

deliveries = table(
    "deliveries",  # one a subscription and message of a broadcast queue, with the claim columns of a message
    Column("subscription_id", Number, ForeignKey(subscriptions.c.id), primary_key=True),
    ulid("message_id", primary_key=True),
    Column("state", exact(10), nullable=False),
    Column("sort_key", BigInteger, nullable=False),
    Column("visible_at", BigInteger, nullable=True),
    Column("claim_until", BigInteger, nullable=True),
    Column("claim_token", exact(26), nullable=True),
    Column("claimed_by", String(200), nullable=True),
    Column("claimed_at", BigInteger, nullable=True),
    Column("attempts", Integer, nullable=False),
    Column("reclaims", Integer, nullable=False),
    Column("failure_reason", Document, nullable=True),
    Column("result", Document, nullable=True),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_relevo_deliveries_order", "subscription_id", "state", "sort_key", "message_id"),
    _where_set("ix_relevo_deliveries_visible", "visible_at"),
    _where_set("ix_relevo_deliveries_claims", "claim_until"),
    Index("ix_relevo_deliveries_message", "message_id"),
)

outbox = table(
    "events_outbox",  # the events of one transaction, relayed in the order of `id`, then deleted
    Column("id", Number, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
    Column("events", Document, nullable=False),  # JSON, see work/outbox.py
    # 1 once `_events` has its messages while the stream still waits, because Redis is away
    Column("copied", SmallInteger, nullable=False, server_default=text("0")),
    **_NEVER_AGAIN,
)

audit = table(
    "audit",  # one row a call that changed something; append only
    Column("id", Number, primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, nullable=True),
    Column("queue_id", Number, nullable=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("action", exact(60), nullable=False),
    Column("target", String(200), nullable=False),  # what was changed: a slug, or a message id (the first of a batch)
    Column("request_id", exact(40), nullable=False),
    Column("correlation_id", String(200), nullable=True),
    Column("before", Document, nullable=True),
    Column("after", Document, nullable=True),  # JSON; for a batch the ids and what was done to them
    ulid("chain", nullable=True),  # its place among the others, see store/audit_chain.py
    Column("chain_no", BigInteger, nullable=True),
    Column("hash", exact(64), nullable=True),
    Index("ix_relevo_audit_tenant", "tenant_id", "id"),
    Index("ix_relevo_audit_target", "target"),
    Index("ix_relevo_audit_correlation", "correlation_id"),
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

replays = table(
    "replays",  # a replay of dead letters: what was asked, how far it is
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("filter", Document, nullable=False),
    Column("rate_per_s", Integer, nullable=True),
    Column("state", exact(10), nullable=False),  # running, done, cancelled, failed
    Column("total", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    Column("cursor", exact(26), nullable=False),  # the last id looked at: a replay goes on from here after a crash
    Column("error", Document, nullable=True),
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("ix_relevo_replays_scope", "scope_id", "id"),
)

agent_runs = table(
    "agent_runs",  # one row an agent: its last run and who may run it when Redis is away
    Column("agent", exact(40), primary_key=True),
    Column("last_started_at", BigInteger, nullable=True),
    Column("last_finished_at", BigInteger, nullable=True),
    Column("last_items", BigInteger, nullable=True),
    Column("last_error", Document, nullable=True),
    Column("last_node", String(100), nullable=True),
    Column("runs", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("lease_holder", String(100), nullable=True),
    Column("lease_until", BigInteger, nullable=True),
)
