"""The tables of routing: what rules still have to look at, and messages that are jobs of stream queues."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"
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
        "relevo_routings",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("scope_id", _NUMBER, nullable=False),
        sa.Column("queue_id", _NUMBER, nullable=False),
        sa.Column("message_id", _ULID, nullable=False),
        sa.Column("trigger_on", _exact(20), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_routings"),
        **_TABLE,
    )
    op.create_index("ix_relevo_routings_due", "relevo_routings", ["due_at", "id"])
    op.create_table(
        "relevo_stream_jobs",
        sa.Column("message_id", _ULID, nullable=False),
        sa.Column("stream_queue", _exact(200), nullable=False),
        sa.Column("job_name", sa.String(200), nullable=False),
        sa.Column("state", _exact(10), nullable=False),
        sa.Column("job_id", _exact(40), nullable=False),
        sa.Column("sends", sa.Integer(), nullable=False),
        sa.Column("send_at", sa.BigInteger(), nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", name="pk_relevo_stream_jobs"),
        **_TABLE,
    )
    op.create_index("ix_relevo_stream_jobs_state", "relevo_stream_jobs", ["state", "send_at"])
    op.create_index("ix_relevo_stream_jobs_job", "relevo_stream_jobs", ["job_id"])
    op.create_table(
        "relevo_stream_watches",
        sa.Column("scope_id", _NUMBER, autoincrement=False, nullable=False),
        sa.Column("stream_queue", _exact(200), nullable=False),
        sa.Column("review", _DOCUMENT, nullable=False),
        sa.Column("reached", _exact(40), nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "stream_queue", name="pk_relevo_stream_watches"),
        **_TABLE,
    )


def downgrade() -> None:
    for name in ("stream_watches", "stream_jobs", "routings"):
        op.drop_table(f"relevo_{name}")
