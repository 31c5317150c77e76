"""Parts belong to a claim, an erasure knows how far it is, and deliveries are found by their webhook and their message."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
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
    # Nothing wrote to these two before this step: they are made anew, which every database can do.
    op.drop_table("relevo_chunks")
    op.drop_table("relevo_erasures")
    op.create_table(
        "relevo_chunks",
        sa.Column("message_id", _ULID, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("claim_token", _exact(26), nullable=False),
        sa.Column("body", _DOCUMENT, nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("final", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", "number", name="pk_relevo_chunks"),
        **_TABLE,
    )
    op.create_table(
        "relevo_erasures",
        sa.Column("id", _ULID, nullable=False),
        sa.Column("tenant_id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("subject_digest", _exact(64), nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("messages", sa.BigInteger(), nullable=False),
        sa.Column("reached", _exact(26), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_erasures"),
        **_TABLE,
    )
    op.create_index("ix_relevo_erasures_scope", "relevo_erasures", ["scope_id", "id"])
    op.create_index("ix_relevo_webhook_deliveries_log", "relevo_webhook_deliveries", ["webhook_id", "id"])
    op.create_index("ix_relevo_webhook_deliveries_message", "relevo_webhook_deliveries", ["message_id"])


def downgrade() -> None:
    op.drop_index("ix_relevo_webhook_deliveries_message", "relevo_webhook_deliveries")
    op.drop_index("ix_relevo_webhook_deliveries_log", "relevo_webhook_deliveries")
    op.drop_table("relevo_erasures")
    op.drop_table("relevo_chunks")
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
