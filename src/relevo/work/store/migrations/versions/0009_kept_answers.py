"""Requests with an idempotency key: what they were answered, for a day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from relevo.work.store.migrations.columns import DOCUMENT, NUMBER, TABLE, exact

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "relevo_kept_answers",
        sa.Column("tenant_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("actor", exact(100), nullable=False),
        sa.Column("key_digest", exact(64), nullable=False),
        sa.Column("fingerprint", exact(64), nullable=False),
        sa.Column("begun_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=True),
        sa.Column("answer", DOCUMENT, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["relevo_tenants.id"]),
        sa.PrimaryKeyConstraint("tenant_id", "actor", "key_digest", name="pk_relevo_kept_answers"),
        **TABLE,
    )
    op.create_index("ix_relevo_kept_answers_age", "relevo_kept_answers", ["begun_at"])


def downgrade() -> None:
    op.drop_table("relevo_kept_answers")
