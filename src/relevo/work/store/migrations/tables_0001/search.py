"""The search table: what messages are found by besides their queue and their id, and what it does not know yet."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, SmallInteger

from relevo.work.store.migrations.tables_0001.columns import NEVER_AGAIN, Document, Number, table, ulid

search = table(
    "search",
    Column("scope_id", Number, primary_key=True, autoincrement=False),
    Column("attribute", BigInteger, primary_key=True, autoincrement=False),
    ulid("id", primary_key=True),
    sqlite_with_rowid=False,
)

search_feed = table(
    "search_feed",
    Column("id", Number, primary_key=True),
    ulid("first_id", nullable=False),
    Column("fresh", SmallInteger, nullable=False),
    Column("ids", Document, nullable=False),
    **NEVER_AGAIN,
)
