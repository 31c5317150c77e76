"""The tables of work queues: tenants, keys, scopes, queues, messages and all that is kept about them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# As in store/tables.py at the time of this step; a step stays what it is when the tables go on.
_DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_NUMBER = sa.BigInteger().with_variant(sa.INTEGER(), "sqlite")
_ULID = sa.String(26).with_variant(mysql.CHAR(26, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
_TABLE: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _exact(length: int) -> sa.String:
    kind = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(kind, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "relevo_agent_runs",
        sa.Column("agent", _exact(40), nullable=False),
        sa.Column("last_started_at", sa.BigInteger(), nullable=True),
        sa.Column("last_finished_at", sa.BigInteger(), nullable=True),
        sa.Column("last_items", sa.BigInteger(), nullable=True),
        sa.Column("last_error", _DOCUMENT, nullable=True),
        sa.Column("last_node", sa.String(length=100), nullable=True),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("lease_holder", sa.String(length=100), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("agent", name="pk_relevo_agent_runs"),
        **_TABLE,
    )
    op.create_table(
        "relevo_archive",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("queue_id", _NUMBER, nullable=False),
        sa.Column("origin_queue_id", _NUMBER, nullable=True),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("sort_key", sa.BigInteger(), nullable=False),
        sa.Column("visible_at", sa.BigInteger(), nullable=True),
        sa.Column("claim_until", sa.BigInteger(), nullable=True),
        sa.Column("claim_token", _exact(26), nullable=True),
        sa.Column("claimed_by", sa.String(length=200), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reclaims", sa.Integer(), nullable=False),
        sa.Column("replays", sa.Integer(), nullable=False),
        sa.Column("message_type", sa.String(length=200), nullable=False),
        sa.Column("source_type", sa.String(length=100), nullable=True),
        sa.Column("source_id", sa.String(length=200), nullable=True),
        sa.Column("correlation_id", sa.String(length=200), nullable=False),
        sa.Column("causation_id", sa.String(length=200), nullable=True),
        sa.Column("parent_id", _ULID, nullable=True),
        sa.Column("priority_tier", sa.SmallInteger(), nullable=False),
        sa.Column("priority_score", sa.SmallInteger(), nullable=False),
        sa.Column("labels", _DOCUMENT, nullable=False),
        sa.Column("content_type", sa.String(length=100), nullable=False),
        sa.Column("body", _DOCUMENT, nullable=True),
        sa.Column("body_digest", _exact(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("hitl_spec", _DOCUMENT, nullable=True),
        sa.Column("open_deliveries", sa.Integer(), nullable=True),
        sa.Column("failure_reason", _DOCUMENT, nullable=True),
        sa.Column("result", _DOCUMENT, nullable=True),
        sa.Column("trail", _DOCUMENT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("archived_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_archive"),
        **_TABLE,
    )
    op.create_index("ix_relevo_archive_archived", "relevo_archive", ["archived_at"])
    op.create_index("ix_relevo_archive_correlation", "relevo_archive", ["scope_id", "correlation_id"])
    op.create_index("ix_relevo_archive_queue", "relevo_archive", ["queue_id", "id"])
    op.create_index("ix_relevo_archive_scope", "relevo_archive", ["scope_id", "id"])
    op.create_table(
        "relevo_audit",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=True),
        sa.Column("queue_id", _NUMBER, nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("action", _exact(60), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("request_id", _exact(40), nullable=False),
        sa.Column("correlation_id", sa.String(length=200), nullable=True),
        sa.Column("before", _DOCUMENT, nullable=True),
        sa.Column("after", _DOCUMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_audit"),
        **_TABLE,
    )
    op.create_index("ix_relevo_audit_correlation", "relevo_audit", ["correlation_id"])
    op.create_index("ix_relevo_audit_target", "relevo_audit", ["target"])
    op.create_index("ix_relevo_audit_tenant", "relevo_audit", ["tenant_id", "id"])
    op.create_table(
        "relevo_events_outbox",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("events", _DOCUMENT, nullable=False),
        sa.Column("copied", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_events_outbox"),
        **_TABLE,
        sqlite_autoincrement=True,
    )
    op.create_table(
        "relevo_idempotency",
        sa.Column("queue_id", _NUMBER, nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("message_id", _ULID, nullable=False),
        sa.Column("body_digest", _exact(64), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "idempotency_key", name="pk_relevo_idempotency"),
        **_TABLE,
    )
    op.create_index("ix_relevo_idempotency_message", "relevo_idempotency", ["message_id"])
    op.create_table(
        "relevo_labels",
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("value", sa.String(length=200), nullable=False),
        sa.Column("message_id", _ULID, nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "name", "value", "message_id", name="pk_relevo_labels"),
        **_TABLE,
    )
    op.create_index("ix_relevo_labels_message", "relevo_labels", ["message_id"])
    op.create_table(
        "relevo_messages",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("queue_id", _NUMBER, nullable=False),
        sa.Column("origin_queue_id", _NUMBER, nullable=True),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("sort_key", sa.BigInteger(), nullable=False),
        sa.Column("visible_at", sa.BigInteger(), nullable=True),
        sa.Column("claim_until", sa.BigInteger(), nullable=True),
        sa.Column("claim_token", _exact(26), nullable=True),
        sa.Column("claimed_by", sa.String(length=200), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reclaims", sa.Integer(), nullable=False),
        sa.Column("replays", sa.Integer(), nullable=False),
        sa.Column("message_type", sa.String(length=200), nullable=False),
        sa.Column("source_type", sa.String(length=100), nullable=True),
        sa.Column("source_id", sa.String(length=200), nullable=True),
        sa.Column("correlation_id", sa.String(length=200), nullable=False),
        sa.Column("causation_id", sa.String(length=200), nullable=True),
        sa.Column("parent_id", _ULID, nullable=True),
        sa.Column("priority_tier", sa.SmallInteger(), nullable=False),
        sa.Column("priority_score", sa.SmallInteger(), nullable=False),
        sa.Column("labels", _DOCUMENT, nullable=False),
        sa.Column("content_type", sa.String(length=100), nullable=False),
        sa.Column("body", _DOCUMENT, nullable=True),
        sa.Column("body_digest", _exact(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("hitl_spec", _DOCUMENT, nullable=True),
        sa.Column("open_deliveries", sa.Integer(), nullable=True),
        sa.Column("failure_reason", _DOCUMENT, nullable=True),
        sa.Column("result", _DOCUMENT, nullable=True),
        sa.Column("trail", _DOCUMENT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_messages"),
        **_TABLE,
    )
    op.create_index(
        "ix_relevo_messages_claims",
        "relevo_messages",
        ["claim_until"],
        sqlite_where=sa.text("claim_until IS NOT NULL"),
        postgresql_where=sa.text("claim_until IS NOT NULL"),
    )
    op.create_index("ix_relevo_messages_correlation", "relevo_messages", ["scope_id", "correlation_id"])
    op.create_index(
        "ix_relevo_messages_deadline",
        "relevo_messages",
        ["deadline_at"],
        sqlite_where=sa.text("deadline_at IS NOT NULL"),
        postgresql_where=sa.text("deadline_at IS NOT NULL"),
    )
    op.create_index(
        "ix_relevo_messages_expires",
        "relevo_messages",
        ["expires_at"],
        sqlite_where=sa.text("expires_at IS NOT NULL"),
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_index(
        "ix_relevo_messages_finished",
        "relevo_messages",
        ["finished_at"],
        sqlite_where=sa.text("finished_at IS NOT NULL"),
        postgresql_where=sa.text("finished_at IS NOT NULL"),
    )
    op.create_index("ix_relevo_messages_order", "relevo_messages", ["queue_id", "state", "sort_key", "id"])
    op.create_index("ix_relevo_messages_scope", "relevo_messages", ["scope_id", "id"])
    op.create_index(
        "ix_relevo_messages_visible",
        "relevo_messages",
        ["visible_at"],
        sqlite_where=sa.text("visible_at IS NOT NULL"),
        postgresql_where=sa.text("visible_at IS NOT NULL"),
    )
    op.create_table(
        "relevo_settings",
        sa.Column("name", _exact(64), nullable=False),
        sa.Column("value", _DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_relevo_settings"),
        **_TABLE,
    )
    op.create_table(
        "relevo_tenants",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("slug", _exact(63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_tenants"),
        sa.UniqueConstraint("slug", name="uq_relevo_tenants_slug"),
        **_TABLE,
        sqlite_autoincrement=True,
    )
    op.create_table(
        "relevo_api_keys",
        sa.Column("id", _exact(26), nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("hint", _exact(12), nullable=False),
        sa.Column("digest", _exact(64), nullable=False),
        sa.Column("permissions", sa.String(length=200), nullable=False),
        sa.Column("scope_slugs", _DOCUMENT, nullable=True),
        sa.Column("queue_slugs", _DOCUMENT, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["relevo_tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_api_keys"),
        sa.UniqueConstraint("digest", name="uq_relevo_api_keys_digest"),
        **_TABLE,
    )
    op.create_index("ix_relevo_api_keys_tenant_id", "relevo_api_keys", ["tenant_id"])
    op.create_table(
        "relevo_scopes",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("slug", _exact(63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=False),
        sa.Column("description", _DOCUMENT, nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("events_to_queue", _DOCUMENT, nullable=False),
        sa.Column("audit_to_queue", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["relevo_tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_scopes"),
        **_TABLE,
        sqlite_autoincrement=True,
    )
    op.create_index("uq_relevo_scopes_slug", "relevo_scopes", ["tenant_id", "slug"], unique=True)
    op.create_table(
        "relevo_queues",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("slug", _exact(63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=False),
        sa.Column("description", _DOCUMENT, nullable=False),
        sa.Column("system", sa.SmallInteger(), nullable=False),
        sa.Column("ordering", _exact(8), nullable=False),
        sa.Column("consumer_mode", _exact(9), nullable=False),
        sa.Column("visibility_timeout_s", sa.Integer(), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("backoff_initial_ms", sa.Integer(), nullable=False),
        sa.Column("backoff_multiplier", sa.String(length=20), nullable=False),
        sa.Column("backoff_cap_ms", sa.Integer(), nullable=False),
        sa.Column("backoff_jitter_ms", sa.Integer(), nullable=False),
        sa.Column("max_reclaims", sa.Integer(), nullable=False),
        sa.Column("max_depth", sa.BigInteger(), nullable=True),
        sa.Column("overflow_policy", _exact(18), nullable=False),
        sa.Column("default_ttl_s", sa.BigInteger(), nullable=True),
        sa.Column("dead_letter_expired", sa.SmallInteger(), nullable=False),
        sa.Column("aging_crosses_tiers", sa.SmallInteger(), nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scope_id"],
            ["relevo_scopes.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["relevo_tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_queues"),
        **_TABLE,
        sqlite_autoincrement=True,
    )
    op.create_index("uq_relevo_queues_slug", "relevo_queues", ["scope_id", "slug"], unique=True)
    op.create_table(
        "relevo_replays",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("filter", _DOCUMENT, nullable=False),
        sa.Column("rate_per_s", sa.Integer(), nullable=True),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("cursor", _exact(26), nullable=False),
        sa.Column("error", _DOCUMENT, nullable=True),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scope_id"],
            ["relevo_scopes.id"],
        ),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_replays"),
        **_TABLE,
    )
    op.create_index("ix_relevo_replays_scope", "relevo_replays", ["scope_id", "id"])
    op.create_table(
        "relevo_subscriptions",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("queue_id", _NUMBER, nullable=False),
        sa.Column("name", _exact(63), nullable=False),
        sa.Column("from_id", _ULID, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["queue_id"],
            ["relevo_queues.id"],
        ),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_subscriptions"),
        **_TABLE,
        sqlite_autoincrement=True,
    )
    op.create_index("uq_relevo_subscriptions_name", "relevo_subscriptions", ["queue_id", "name"], unique=True)
    op.create_table(
        "relevo_tallies",
        sa.Column("queue_id", _NUMBER, nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.Column("pending", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("delayed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("claimed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("in_review", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("dead", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("published", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("published_bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("claims", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("retried", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("released", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("reclaimed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("expired", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("dead_lettered", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cancelled", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("replayed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("handler_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("reviews", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["queue_id"],
            ["relevo_queues.id"],
        ),
        sa.PrimaryKeyConstraint("queue_id", "day", "slot", name="pk_relevo_tallies"),
        **_TABLE,
    )
    op.create_table(
        "relevo_deliveries",
        sa.Column("subscription_id", _NUMBER, nullable=False),
        sa.Column("message_id", _ULID, nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("sort_key", sa.BigInteger(), nullable=False),
        sa.Column("visible_at", sa.BigInteger(), nullable=True),
        sa.Column("claim_until", sa.BigInteger(), nullable=True),
        sa.Column("claim_token", _exact(26), nullable=True),
        sa.Column("claimed_by", sa.String(length=200), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reclaims", sa.Integer(), nullable=False),
        sa.Column("failure_reason", _DOCUMENT, nullable=True),
        sa.Column("result", _DOCUMENT, nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["subscription_id"],
            ["relevo_subscriptions.id"],
        ),
        sa.PrimaryKeyConstraint("subscription_id", "message_id", name="pk_relevo_deliveries"),
        **_TABLE,
    )
    op.create_index(
        "ix_relevo_deliveries_claims",
        "relevo_deliveries",
        ["claim_until"],
        sqlite_where=sa.text("claim_until IS NOT NULL"),
        postgresql_where=sa.text("claim_until IS NOT NULL"),
    )
    op.create_index("ix_relevo_deliveries_message", "relevo_deliveries", ["message_id"])
    op.create_index(
        "ix_relevo_deliveries_order", "relevo_deliveries", ["subscription_id", "state", "sort_key", "message_id"]
    )
    op.create_index(
        "ix_relevo_deliveries_visible",
        "relevo_deliveries",
        ["visible_at"],
        sqlite_where=sa.text("visible_at IS NOT NULL"),
        postgresql_where=sa.text("visible_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_table("relevo_deliveries")
    op.drop_table("relevo_tallies")
    op.drop_table("relevo_subscriptions")
    op.drop_table("relevo_replays")
    op.drop_table("relevo_queues")
    op.drop_table("relevo_scopes")
    op.drop_table("relevo_api_keys")
    op.drop_table("relevo_tenants")
    op.drop_table("relevo_settings")
    op.drop_table("relevo_messages")
    op.drop_table("relevo_labels")
    op.drop_table("relevo_idempotency")
    op.drop_table("relevo_events_outbox")
    op.drop_table("relevo_audit")
    op.drop_table("relevo_archive")
    op.drop_table("relevo_agent_runs")
