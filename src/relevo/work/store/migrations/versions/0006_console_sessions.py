"""Who is logged in at the console."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from relevo.work.store.migrations.columns import TABLE, exact

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "relevo_console_sessions",
        sa.Column("digest", exact(64), nullable=False),
        sa.Column("key_id", exact(26), nullable=False),
        sa.Column("key_digest", exact(64), nullable=False),
        sa.Column("person", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["relevo_api_keys.id"]),
        sa.PrimaryKeyConstraint("digest", name="pk_relevo_console_sessions"),
        **TABLE,
    )
    op.create_index("ix_relevo_console_sessions_expiry", "relevo_console_sessions", ["expires_at"])


def downgrade() -> None:
    op.drop_table("relevo_console_sessions")
