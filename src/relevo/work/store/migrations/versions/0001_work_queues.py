"""The tables of work queues: tenants, keys, scopes, queues, messages and all that is kept about them; and the views on them."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from relevo.work.store.migrations.tables_0001 import metadata
from relevo.work.store.migrations.views_0001 import NAMES, statement

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # MariaDB commits after each table: who was killed in between goes on with those that are missing.
    connection = op.get_bind()
    metadata.create_all(connection)
    for name in NAMES:
        connection.execute(text(f"DROP VIEW IF EXISTS relevo_{name}"))
        connection.exec_driver_sql(statement(name, connection.dialect.name))


def downgrade() -> None:
    connection = op.get_bind()
    for name in NAMES:
        connection.execute(text(f"DROP VIEW relevo_{name}"))
    metadata.drop_all(connection)
