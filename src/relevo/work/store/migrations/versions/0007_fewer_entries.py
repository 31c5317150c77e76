"""Fewer entries in the indexes of messages: none for a state, a claim or a correlation that nobody looks for there.

MariaDB has no indexes over some rows only: nothing changes there.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_MESSAGES = "relevo_messages"
_INDEXES = (
    (
        "ix_relevo_messages_order",
        ("queue_id", "state", "sort_key", "id"),
        "state NOT IN ('claimed', 'completed')",
        None,
    ),
    ("ix_relevo_messages_claims", ("claim_until",), "state = 'claimed'", "claim_until IS NOT NULL"),
    ("ix_relevo_messages_correlation", ("scope_id", "correlation_id"), "correlation_id <> id", None),
)
"""Name, columns, the condition from now on, and the one before."""

_KEYS = "queue_id, idempotency_key, message_id, body_digest"


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    if dialect in ("sqlite", "postgresql"):
        for name, columns, where, _ in _INDEXES:
            _replace(name, columns, where)
    if dialect == "sqlite":
        _remake_keys("WITHOUT ROWID")


def downgrade() -> None:
    dialect = op.get_bind().dialect.name
    if dialect in ("sqlite", "postgresql"):
        for name, columns, _, where in _INDEXES:
            _replace(name, columns, where)
    if dialect == "sqlite":
        _remake_keys("")


def _replace(name: str, columns: tuple[str, ...], where: str | None) -> None:
    condition = None if where is None else sa.text(where)
    op.drop_index(name, _MESSAGES)
    op.create_index(name, _MESSAGES, list(columns), sqlite_where=condition, postgresql_where=condition)


def _remake_keys(kind: str) -> None:
    """SQLite decides with the table itself whether its rows have a number beside their key."""
    op.execute(
        f"""
        CREATE TABLE relevo_idempotency_new (
            queue_id INTEGER NOT NULL,
            idempotency_key VARCHAR(200) NOT NULL,
            message_id VARCHAR(26) NOT NULL,
            body_digest VARCHAR(64) NOT NULL,
            CONSTRAINT pk_relevo_idempotency PRIMARY KEY (queue_id, idempotency_key)
        ) {kind}
        """
    )
    op.execute(f"INSERT INTO relevo_idempotency_new ({_KEYS}) SELECT {_KEYS} FROM relevo_idempotency")  # noqa: S608 - names of ours
    op.drop_table("relevo_idempotency")
    op.rename_table("relevo_idempotency_new", "relevo_idempotency")
    op.create_index("ix_relevo_idempotency_message", "relevo_idempotency", ["message_id"])
