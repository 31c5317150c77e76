"""A message keeps its last failure: the error's type, message and stack."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from relevo.work.store.migrations.columns import DOCUMENT

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_TABLES = ("relevo_messages", "relevo_archive")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("error", DOCUMENT, nullable=True))


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "error")
