"""The tables of work queues: tenants, keys, scopes, queues, messages and all that is kept about them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from relevo.work.store.migrations.columns import DOCUMENT, NUMBER, TABLE, ULID, exact, index_where_set

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _of_a_message() -> list[sa.Column[Any]]:
    """What a row of `messages` says, and of `archive` after it."""
    return [
        sa.Column("id", ULID, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("queue_id", NUMBER, nullable=False),
        sa.Column("origin_queue_id", NUMBER, nullable=True),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("sort_key", sa.BigInteger(), nullable=False),
        sa.Column("visible_at", sa.BigInteger(), nullable=True),
        sa.Column("claim_until", sa.BigInteger(), nullable=True),
        sa.Column("claim_token", exact(26), nullable=True),
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
        sa.Column("parent_id", ULID, nullable=True),
        sa.Column("priority_tier", sa.SmallInteger(), nullable=False),
        sa.Column("priority_score", sa.SmallInteger(), nullable=False),
        sa.Column("labels", DOCUMENT, nullable=False),
        sa.Column("content_type", sa.String(length=100), nullable=False),
        sa.Column("body", DOCUMENT, nullable=True),
        sa.Column("body_digest", exact(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("deadline_at", sa.BigInteger(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("hitl_spec", DOCUMENT, nullable=True),
        sa.Column("open_deliveries", sa.Integer(), nullable=True),
        sa.Column("failure_reason", DOCUMENT, nullable=True),
        sa.Column("result", DOCUMENT, nullable=True),
        sa.Column("trail", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
    ]


def upgrade() -> None:
    op.create_table(
        "relevo_agent_runs",
        sa.Column("agent", exact(40), nullable=False),
        sa.Column("last_started_at", sa.BigInteger(), nullable=True),
        sa.Column("last_finished_at", sa.BigInteger(), nullable=True),
        sa.Column("last_items", sa.BigInteger(), nullable=True),
        sa.Column("last_error", DOCUMENT, nullable=True),
        sa.Column("last_node", sa.String(length=100), nullable=True),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("lease_holder", sa.String(length=100), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("agent", name="pk_relevo_agent_runs"),
        **TABLE,
    )
    op.create_table(
        "relevo_archive",
        *_of_a_message(),
        sa.Column("archived_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_archive"),
        **TABLE,
    )
    op.create_index("ix_relevo_archive_archived", "relevo_archive", ["archived_at"])
    op.create_index("ix_relevo_archive_correlation", "relevo_archive", ["scope_id", "correlation_id"])
    op.create_index("ix_relevo_archive_queue", "relevo_archive", ["queue_id", "id"])
    op.create_index("ix_relevo_archive_scope", "relevo_archive", ["scope_id", "id"])
    op.create_table(
        "relevo_audit",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=True),
        sa.Column("queue_id", NUMBER, nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("action", exact(60), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("request_id", exact(40), nullable=False),
        sa.Column("correlation_id", sa.String(length=200), nullable=True),
        sa.Column("before", DOCUMENT, nullable=True),
        sa.Column("after", DOCUMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_audit"),
        **TABLE,
    )
    op.create_index("ix_relevo_audit_correlation", "relevo_audit", ["correlation_id"])
    op.create_index("ix_relevo_audit_target", "relevo_audit", ["target"])
    op.create_index("ix_relevo_audit_tenant", "relevo_audit", ["tenant_id", "id"])
    op.create_table(
        "relevo_events_outbox",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("events", DOCUMENT, nullable=False),
        sa.Column("copied", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_events_outbox"),
        **TABLE,
        sqlite_autoincrement=True,
    )
    op.create_table(
        "relevo_idempotency",
        sa.Column("queue_id", NUMBER, nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("message_id", ULID, nullable=False),
        sa.Column("body_digest", exact(64), nullable=False),
        sa.PrimaryKeyConstraint("queue_id", "idempotency_key", name="pk_relevo_idempotency"),
        **TABLE,
    )
    op.create_index("ix_relevo_idempotency_message", "relevo_idempotency", ["message_id"])
    op.create_table(
        "relevo_labels",
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("value", sa.String(length=200), nullable=False),
        sa.Column("message_id", ULID, nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "name", "value", "message_id", name="pk_relevo_labels"),
        **TABLE,
    )
    op.create_index("ix_relevo_labels_message", "relevo_labels", ["message_id"])
    op.create_table(
        "relevo_messages",
        *_of_a_message(),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_messages"),
        **TABLE,
    )
    index_where_set("ix_relevo_messages_claims", "relevo_messages", "claim_until")
    op.create_index("ix_relevo_messages_correlation", "relevo_messages", ["scope_id", "correlation_id"])
    index_where_set("ix_relevo_messages_deadline", "relevo_messages", "deadline_at")
    index_where_set("ix_relevo_messages_expires", "relevo_messages", "expires_at")
    index_where_set("ix_relevo_messages_finished", "relevo_messages", "finished_at")
    op.create_index("ix_relevo_messages_order", "relevo_messages", ["queue_id", "state", "sort_key", "id"])
    op.create_index("ix_relevo_messages_scope", "relevo_messages", ["scope_id", "id"])
    index_where_set("ix_relevo_messages_visible", "relevo_messages", "visible_at")
    op.create_table(
        "relevo_settings",
        sa.Column("name", exact(64), nullable=False),
        sa.Column("value", DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_relevo_settings"),
        **TABLE,
    )
    op.create_table(
        "relevo_tenants",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("slug", exact(63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_tenants"),
        sa.UniqueConstraint("slug", name="uq_relevo_tenants_slug"),
        **TABLE,
        sqlite_autoincrement=True,
    )
    op.create_table(
        "relevo_api_keys",
        sa.Column("id", exact(26), nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("hint", exact(12), nullable=False),
        sa.Column("digest", exact(64), nullable=False),
        sa.Column("permissions", sa.String(length=200), nullable=False),
        sa.Column("scope_slugs", DOCUMENT, nullable=True),
        sa.Column("queue_slugs", DOCUMENT, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["relevo_tenants.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_api_keys"),
        sa.UniqueConstraint("digest", name="uq_relevo_api_keys_digest"),
        **TABLE,
    )
    op.create_index("ix_relevo_api_keys_tenant_id", "relevo_api_keys", ["tenant_id"])
    op.create_table(
        "relevo_scopes",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("slug", exact(63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=False),
        sa.Column("description", DOCUMENT, nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("events_to_queue", DOCUMENT, nullable=False),
        sa.Column("audit_to_queue", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["relevo_tenants.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_scopes"),
        **TABLE,
        sqlite_autoincrement=True,
    )
    op.create_index("uq_relevo_scopes_slug", "relevo_scopes", ["tenant_id", "slug"], unique=True)
    op.create_table(
        "relevo_queues",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("slug", exact(63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=False),
        sa.Column("description", DOCUMENT, nullable=False),
        sa.Column("system", sa.SmallInteger(), nullable=False),
        sa.Column("ordering", exact(8), nullable=False),
        sa.Column("consumer_mode", exact(9), nullable=False),
        sa.Column("visibility_timeout_s", sa.Integer(), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("backoff_initial_ms", sa.Integer(), nullable=False),
        sa.Column("backoff_multiplier", sa.String(length=20), nullable=False),
        sa.Column("backoff_cap_ms", sa.Integer(), nullable=False),
        sa.Column("backoff_jitter_ms", sa.Integer(), nullable=False),
        sa.Column("max_reclaims", sa.Integer(), nullable=False),
        sa.Column("max_depth", sa.BigInteger(), nullable=True),
        sa.Column("overflow_policy", exact(18), nullable=False),
        sa.Column("default_ttl_s", sa.BigInteger(), nullable=True),
        sa.Column("dead_letter_expired", sa.SmallInteger(), nullable=False),
        sa.Column("aging_crosses_tiers", sa.SmallInteger(), nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.ForeignKeyConstraint(["tenant_id"], ["relevo_tenants.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_queues"),
        **TABLE,
        sqlite_autoincrement=True,
    )
    op.create_index("uq_relevo_queues_slug", "relevo_queues", ["scope_id", "slug"], unique=True)
    op.create_table(
        "relevo_replays",
        sa.Column("id", ULID, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("filter", DOCUMENT, nullable=False),
        sa.Column("rate_per_s", sa.Integer(), nullable=True),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("cursor", exact(26), nullable=False),
        sa.Column("error", DOCUMENT, nullable=True),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_replays"),
        **TABLE,
    )
    op.create_index("ix_relevo_replays_scope", "relevo_replays", ["scope_id", "id"])
    op.create_table(
        "relevo_subscriptions",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("queue_id", NUMBER, nullable=False),
        sa.Column("name", exact(63), nullable=False),
        sa.Column("from_id", ULID, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["queue_id"], ["relevo_queues.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_subscriptions"),
        **TABLE,
        sqlite_autoincrement=True,
    )
    op.create_index("uq_relevo_subscriptions_name", "relevo_subscriptions", ["queue_id", "name"], unique=True)
    op.create_table(
        "relevo_tallies",
        sa.Column("queue_id", NUMBER, nullable=False),
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
        sa.ForeignKeyConstraint(["queue_id"], ["relevo_queues.id"]),
        sa.PrimaryKeyConstraint("queue_id", "day", "slot", name="pk_relevo_tallies"),
        **TABLE,
    )
    op.create_table(
        "relevo_deliveries",
        sa.Column("subscription_id", NUMBER, nullable=False),
        sa.Column("message_id", ULID, nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("sort_key", sa.BigInteger(), nullable=False),
        sa.Column("visible_at", sa.BigInteger(), nullable=True),
        sa.Column("claim_until", sa.BigInteger(), nullable=True),
        sa.Column("claim_token", exact(26), nullable=True),
        sa.Column("claimed_by", sa.String(length=200), nullable=True),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reclaims", sa.Integer(), nullable=False),
        sa.Column("failure_reason", DOCUMENT, nullable=True),
        sa.Column("result", DOCUMENT, nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["subscription_id"], ["relevo_subscriptions.id"]),
        sa.PrimaryKeyConstraint("subscription_id", "message_id", name="pk_relevo_deliveries"),
        **TABLE,
    )
    index_where_set("ix_relevo_deliveries_claims", "relevo_deliveries", "claim_until")
    op.create_index("ix_relevo_deliveries_message", "relevo_deliveries", ["message_id"])
    op.create_index(
        "ix_relevo_deliveries_order", "relevo_deliveries", ["subscription_id", "state", "sort_key", "message_id"]
    )
    index_where_set("ix_relevo_deliveries_visible", "relevo_deliveries", "visible_at")


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
