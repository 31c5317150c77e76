"""The tables of work queues: tenants, keys, scopes, queues, messages and all that is kept about them."""

from __future__ import annotations

from alembic import op

from relevo.work.store.migrations.tables_0001 import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # MariaDB commits after each table: who was killed in between goes on with those that are missing.
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
