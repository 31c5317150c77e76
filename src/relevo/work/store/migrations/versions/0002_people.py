"""The tables of what people decide: rules, reviews, schemas, access, webhooks, chunks and erasures."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# As in store/people.py at the time of this step; a step stays what it is when the tables go on.
_DOCUMENT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_NUMBER = sa.BigInteger().with_variant(sa.INTEGER(), "sqlite")
_ULID = sa.String(26).with_variant(mysql.CHAR(26, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
_TABLE: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _exact(length: int) -> sa.String:
    kind = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(kind, "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "relevo_chunks",
        sa.Column("message_id", _ULID, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", _DOCUMENT, nullable=False),
        sa.Column("final", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "number", name="pk_relevo_chunks"),
        **_TABLE,
    )
    op.create_table(
        "relevo_erased",
        sa.Column("erasure_id", _ULID, nullable=False),
        sa.Column("message_id", _ULID, nullable=False),
        sa.PrimaryKeyConstraint("erasure_id", "message_id", name="pk_relevo_erased"),
        **_TABLE,
    )
    op.create_table(
        "relevo_webhook_deliveries",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("webhook_id", _ULID, nullable=False),
        sa.Column("event_key", _exact(80), nullable=False),
        sa.Column("event", _exact(30), nullable=False),
        sa.Column("message_id", _ULID, nullable=False),
        sa.Column("payload", _DOCUMENT, nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", _DOCUMENT, nullable=True),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_webhook_deliveries"),
        **_TABLE,
    )
    op.create_index("ix_relevo_webhook_deliveries_next", "relevo_webhook_deliveries", ["state", "next_at"])
    op.create_index(
        "uq_relevo_webhook_deliveries_event", "relevo_webhook_deliveries", ["webhook_id", "event_key"], unique=True
    )
    op.create_table(
        "relevo_erasures",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("subject_digest", _exact(64), nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_erasures"),
        **_TABLE,
    )
    op.create_table(
        "relevo_key_limits",
        sa.Column("key_id", _exact(26), nullable=False),
        sa.Column("requests_per_s", sa.Integer(), nullable=True),
        sa.Column("burst", sa.Integer(), nullable=True),
        sa.Column("max_body_bytes", sa.Integer(), nullable=True),
        sa.Column("previous_digest", _exact(64), nullable=True),
        sa.Column("previous_until", sa.BigInteger(), nullable=True),
        sa.Column("acts_for_people", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["relevo_api_keys.id"]),
        sa.PrimaryKeyConstraint("key_id", name="pk_relevo_key_limits"),
        sa.UniqueConstraint("previous_digest", name="uq_relevo_key_limits_previous_digest"),
        **_TABLE,
    )
    op.create_table(
        "relevo_review_patterns",
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("name", _exact(63), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition", _DOCUMENT, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "name", "version", name="pk_relevo_review_patterns"),
        **_TABLE,
    )
    op.create_table(
        "relevo_reviews",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("queue_id", _NUMBER, nullable=True),
        sa.Column("message_id", _ULID, nullable=True),
        sa.Column("source", _exact(20), nullable=False),
        sa.Column("origin", _DOCUMENT, nullable=False),
        sa.Column("correlation_id", sa.String(length=200), nullable=False),
        sa.Column("title", sa.String(length=500), nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("holder", sa.String(length=200), nullable=True),
        sa.Column("next_tick_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("document", _DOCUMENT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_reviews"),
        **_TABLE,
    )
    op.create_index("ix_relevo_reviews_inbox", "relevo_reviews", ["scope_id", "state", "id"])
    op.create_index("ix_relevo_reviews_message", "relevo_reviews", ["message_id"])
    op.create_index("ix_relevo_reviews_tick", "relevo_reviews", ["next_tick_at"])
    op.create_table(
        "relevo_rules",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("name", _exact(63), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("trigger_on", _exact(20), nullable=False),
        sa.Column("enabled", sa.SmallInteger(), nullable=False),
        sa.Column("definition", _DOCUMENT, nullable=False),
        sa.Column("breaker", _DOCUMENT, nullable=False),
        sa.Column("matched", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_rules"),
        **_TABLE,
    )
    op.create_index("uq_relevo_rules_name", "relevo_rules", ["scope_id", "name"], unique=True)
    op.create_table(
        "relevo_schemas",
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("name", _exact(63), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition", _DOCUMENT, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "name", "version", name="pk_relevo_schemas"),
        **_TABLE,
    )
    op.create_table(
        "relevo_trusts",
        sa.Column("scope_id", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("trusted_scope_id", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.ForeignKeyConstraint(["trusted_scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "trusted_scope_id", name="pk_relevo_trusts"),
        **_TABLE,
    )
    op.create_table(
        "relevo_webhooks",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("events", _DOCUMENT, nullable=False),
        sa.Column("secrets", _DOCUMENT, nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("failures_in_a_row", sa.Integer(), nullable=False),
        sa.Column("disabled_reason", _DOCUMENT, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_webhooks"),
        **_TABLE,
    )
    op.create_index("ix_relevo_webhooks_scope", "relevo_webhooks", ["scope_id"])
    op.create_table(
        "relevo_grants",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("key_id", _exact(26), nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("queue_id", _NUMBER, nullable=True),
        sa.Column("permissions", sa.String(length=200), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["relevo_api_keys.id"]),
        sa.ForeignKeyConstraint(["queue_id"], ["relevo_queues.id"]),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_grants"),
        **_TABLE,
    )
    op.create_index("ix_relevo_grants_key", "relevo_grants", ["key_id"])
    op.create_index("ix_relevo_grants_scope", "relevo_grants", ["scope_id"])
    op.create_table(
        "relevo_queue_schemas",
        sa.Column("queue_id", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("schema_name", _exact(63), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["queue_id"], ["relevo_queues.id"]),
        sa.PrimaryKeyConstraint("queue_id", name="pk_relevo_queue_schemas"),
        **_TABLE,
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
