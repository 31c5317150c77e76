"""The tables of routing: what rules still have to look at, and messages that are jobs of stream queues."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from relevo.work.store.migrations.columns import DOCUMENT, NUMBER, TABLE, ULID, exact

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "relevo_routings",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("scope_id", NUMBER, nullable=False),
        sa.Column("queue_id", NUMBER, nullable=False),
        sa.Column("message_id", ULID, nullable=False),
        sa.Column("trigger_on", exact(20), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_relevo_routings"),
        **TABLE,
    )
    op.create_index("ix_relevo_routings_due", "relevo_routings", ["due_at", "id"])
    op.create_table(
        "relevo_stream_jobs",
        sa.Column("message_id", ULID, nullable=False),
        sa.Column("stream_queue", exact(200), nullable=False),
        sa.Column("job_name", sa.String(200), nullable=False),
        sa.Column("state", exact(10), nullable=False),
        sa.Column("job_id", exact(40), nullable=False),
        sa.Column("sends", sa.Integer(), nullable=False),
        sa.Column("send_at", sa.BigInteger(), nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", name="pk_relevo_stream_jobs"),
        **TABLE,
    )
    op.create_index("ix_relevo_stream_jobs_state", "relevo_stream_jobs", ["state", "send_at"])
    op.create_index("ix_relevo_stream_jobs_job", "relevo_stream_jobs", ["job_id"])
    op.create_table(
        "relevo_stream_watches",
        sa.Column("scope_id", NUMBER, autoincrement=False, nullable=False),
        sa.Column("stream_queue", exact(200), nullable=False),
        sa.Column("review", DOCUMENT, nullable=False),
        sa.Column("reached", exact(40), nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["relevo_scopes.id"]),
        sa.PrimaryKeyConstraint("scope_id", "stream_queue", name="pk_relevo_stream_watches"),
        **TABLE,
    )


def downgrade() -> None:
    for name in ("stream_watches", "stream_jobs", "routings"):
        op.drop_table(f"relevo_{name}")
