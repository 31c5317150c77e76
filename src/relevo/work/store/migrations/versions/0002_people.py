"""The tables of what people decide: rules, reviews, schemas, access, webhooks, chunks and erasures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from relevo.work.store.migrations.columns import DOCUMENT, NUMBER, TABLE, ULID, exact

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "relevo_chunks",
        sa.Column("message_id", ULID, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", DOCUMENT, nullable=False),
        sa.Column("final", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "number", name="pk_relevo_chunks"),
        **TABLE,
    )
    op.create_table(
        "relevo_erased",
        sa.Column("erasure_id", ULID, nullable=False),
        sa.Column("message_id", ULID, nullable=False),
        sa.PrimaryKeyConstraint("erasure_id", "message_id", name="pk_relevo_erased"),
        **TABLE,
    )
    op.create_table(
        "relevo_webhook_deliveries",
        sa.Column("id", ULID, nullable=False),
        sa.Column("webhook_id", ULID, nullable=False),
        sa.Column("event_key", exact(80), nullable=False),
        sa.Column("event", exact(30), nullable=False),
        sa.Column("message_id", ULID, nullable=False),
        sa.Column("payload", DOCUMENT, nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", DOCUMENT, nullable=True),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_webhook_deliveries"),
        **TABLE,
    )
    op.create_index("ix_relevo_webhook_deliveries_next", "relevo_webhook_deliveries", ["state", "next_at"])
    op.create_index(
        "uq_relevo_webhook_deliveries_event", "relevo_webhook_deliveries", ["webhook_id", "event_key"], unique=True
    )
    op.create_table(
        "relevo_erasures",
        sa.Column("id", ULID, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("subject_digest", exact(64), nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_erasures"),
        **TABLE,
    )
    op.create_table(
        "relevo_key_limits",
        sa.Column("key_id", exact(26), nullable=False),
        sa.Column("requests_per_s", sa.Integer(), nullable=True),
        sa.Column("burst", sa.Integer(), nullable=True),
        sa.Column("max_body_bytes", sa.Integer(), nullable=True),
        sa.Column("previous_digest", exact(64), nullable=True),
        sa.Column("previous_until", sa.BigInteger(), nullable=True),
        sa.Column("acts_for_people", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["relevo_api_keys.id"]),
        sa.PrimaryKeyConstraint("key_id", name="pk_relevo_key_limits"),
        sa.UniqueConstraint("previous_digest", name="uq_relevo_key_limits_previous_digest"),
        **TABLE,
    )
    op.create_table(
        "relevo_review_patterns",
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("name", exact(63), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition", DOCUMENT, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "name", "version", name="pk_relevo_review_patterns"),
        **TABLE,
    )
    op.create_table(
        "relevo_reviews",
        sa.Column("id", ULID, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("queue_id", NUMBER, nullable=True),
        sa.Column("message_id", ULID, nullable=True),
        sa.Column("source", exact(20), nullable=False),
        sa.Column("origin", DOCUMENT, nullable=False),
        sa.Column("correlation_id", sa.String(length=200), nullable=False),
        sa.Column("title", sa.String(length=500), nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("holder", sa.String(length=200), nullable=True),
        sa.Column("next_tick_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_reviews"),
        **TABLE,
    )
    op.create_index("ix_relevo_reviews_inbox", "relevo_reviews", ["scope_id", "state", "id"])
    op.create_index("ix_relevo_reviews_message", "relevo_reviews", ["message_id"])
    op.create_index("ix_relevo_reviews_tick", "relevo_reviews", ["next_tick_at"])
    op.create_table(
        "relevo_rules",
        sa.Column("id", ULID, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("name", exact(63), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("trigger_on", exact(20), nullable=False),
        sa.Column("enabled", sa.SmallInteger(), nullable=False),
        sa.Column("definition", DOCUMENT, nullable=False),
        sa.Column("breaker", DOCUMENT, nullable=False),
        sa.Column("matched", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_rules"),
        **TABLE,
    )
    op.create_index("uq_relevo_rules_name", "relevo_rules", ["scope_id", "name"], unique=True)
    op.create_table(
        "relevo_schemas",
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("name", exact(63), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition", DOCUMENT, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "name", "version", name="pk_relevo_schemas"),
        **TABLE,
    )
    op.create_table(
        "relevo_trusts",
        sa.Column("scope_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("trusted_scope_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.ForeignKeyConstraint(["trusted_scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "trusted_scope_id", name="pk_relevo_trusts"),
        **TABLE,
    )
    op.create_table(
        "relevo_webhooks",
        sa.Column("id", ULID, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("events", DOCUMENT, nullable=False),
        sa.Column("secrets", DOCUMENT, nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("failures_in_a_row", sa.Integer(), nullable=False),
        sa.Column("disabled_reason", DOCUMENT, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_webhooks"),
        **TABLE,
    )
    op.create_index("ix_relevo_webhooks_scope", "relevo_webhooks", ["scope_id"])
    op.create_table(
        "relevo_grants",
        sa.Column("id", ULID, nullable=False),
        sa.Column("tenant_id", NUMBER, nullable=False),
        sa.Column("key_id", exact(26), nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("queue_id", NUMBER, nullable=True),
        sa.Column("permissions", sa.String(length=200), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["relevo_api_keys.id"]),
        sa.ForeignKeyConstraint(["queue_id"], ["relevo_queues.id"]),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_grants"),
        **TABLE,
    )
    op.create_index("ix_relevo_grants_key", "relevo_grants", ["key_id"])
    op.create_index("ix_relevo_grants_scope", "relevo_grants", ["scope_id"])
    op.create_table(
        "relevo_queue_schemas",
        sa.Column("queue_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("schema_name", exact(63), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["queue_id"], ["relevo_queues.id"]),
        sa.PrimaryKeyConstraint("queue_id", name="pk_relevo_queue_schemas"),
        **TABLE,
    )


def downgrade() -> None:
    op.drop_table("relevo_queue_schemas")
    op.drop_table("relevo_grants")
    op.drop_table("relevo_webhooks")
    op.drop_table("relevo_trusts")
    op.drop_table("relevo_schemas")
    op.drop_table("relevo_rules")
    op.drop_table("relevo_reviews")
    op.drop_table("relevo_review_patterns")
    op.drop_table("relevo_key_limits")
    op.drop_table("relevo_erasures")
    op.drop_table("relevo_webhook_deliveries")
    op.drop_table("relevo_erased")
    op.drop_table("relevo_chunks")
