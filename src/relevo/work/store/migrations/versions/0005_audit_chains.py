"""Every audit row has its place in a chain of hashes; those there are become the first chain."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from relevo.wire.ids import IdMint
from relevo.work.store.audit_chain import COLUMNS, HEAD, Chain, began_after
from relevo.work.store.migrations.columns import DOCUMENT, TABLE, ULID, exact

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_PAGE = 1_000


def upgrade() -> None:
    op.create_table(
        "relevo_audit_chains",
        sa.Column("chain", ULID, nullable=False),
        sa.Column("began_after", DOCUMENT, nullable=False),
        sa.Column("last_no", sa.BigInteger(), nullable=False),
        sa.Column("last_hash", exact(64), nullable=False),
        sa.Column("cut_no", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cut_hash", exact(64), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("chain", name="pk_relevo_audit_chains"),
        **TABLE,
    )
    op.add_column("relevo_audit", sa.Column("chain", ULID, nullable=True))
    op.add_column("relevo_audit", sa.Column("chain_no", sa.BigInteger(), nullable=True))
    op.add_column("relevo_audit", sa.Column("hash", exact(64), nullable=True))
    _link_what_is_there()
    op.create_index("ix_relevo_reviews_correlation", "relevo_reviews", ["scope_id", "correlation_id"])


def _link_what_is_there() -> None:
    """They are taken as they are: what was changed before this step nobody can tell."""
    names = ("id", *COLUMNS, "chain", "chain_no", "hash")
    audit, heads = _named("relevo_audit", *names), _named("relevo_audit_chains", *HEAD)
    connection = op.get_bind()
    chain, last = Chain(IdMint()(), began_after([])), 0
    place: dict[str, Any] = {"chain": chain.name, "chain_no": sa.bindparam("no"), "hash": sa.bindparam("digest")}
    link = sa.update(audit).where(audit.c.id == sa.bindparam("row")).values(place)
    while True:
        page = sa.select(audit.c.id, *(audit.c[name] for name in COLUMNS))
        rows = connection.execute(page.where(audit.c.id > last).order_by(audit.c.id).limit(_PAGE)).all()
        if not rows:
            break
        links = [(row[0], *chain.link(tuple(row[1:]))) for row in rows]
        connection.execute(link, [{"row": row, "no": no, "digest": digest} for row, no, digest in links])
        last = rows[-1][0]
    head = chain.head
    if head.last_no:
        connection.execute(sa.insert(heads).values(dict(zip(HEAD, head.row, strict=True))))


def _named(table: str, *names: str) -> sa.TableClause:
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in names]
    return sa.table(table, *columns)


def downgrade() -> None:
    op.drop_index("ix_relevo_reviews_correlation", "relevo_reviews")
    op.drop_table("relevo_audit_chains")
    for name in ("hash", "chain_no", "chain"):
        op.drop_column("relevo_audit", name)
