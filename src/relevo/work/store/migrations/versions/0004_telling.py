"""Parts belong to a claim, an erasure knows how far it is, and deliveries are found by their webhook and their message."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from relevo.work.store.migrations.columns import DOCUMENT, NUMBER, TABLE, ULID, exact

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nothing wrote to these two before this step: they are made anew, which every database can do.
    op.drop_table("relevo_chunks")
    op.drop_table("relevo_erasures")
    _create_chunks(
        sa.Column("claim_token", exact(26), nullable=False), sa.Column("total", sa.BigInteger(), nullable=False)
    )
    _create_erasures(sa.Column("reached", exact(26), nullable=False))
    op.create_index("ix_relevo_erasures_scope", "relevo_erasures", ["scope_id", "id"])
    op.create_index("ix_relevo_webhook_deliveries_log", "relevo_webhook_deliveries", ["webhook_id", "id"])
    op.create_index("ix_relevo_webhook_deliveries_message", "relevo_webhook_deliveries", ["message_id"])


def downgrade() -> None:
    op.drop_index("ix_relevo_webhook_deliveries_message", "relevo_webhook_deliveries")
    op.drop_index("ix_relevo_webhook_deliveries_log", "relevo_webhook_deliveries")
    op.drop_table("relevo_erasures")
    op.drop_table("relevo_chunks")
    _create_chunks()
    _create_erasures()


def _create_chunks(*added: sa.Column[Any]) -> None:
    op.create_table(
        "relevo_chunks",
        sa.Column("message_id", ULID, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", DOCUMENT, nullable=False),
        sa.Column("final", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        *added,
        sa.PrimaryKeyConstraint("message_id", "number", name="pk_relevo_chunks"),
        **TABLE,
    )


def _create_erasures(*added: sa.Column[Any]) -> None:
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
        *added,
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_erasures"),
        **TABLE,
    )
