"""The search table: what messages are found by besides their queue and their id, and what it does not know yet."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, SmallInteger

from relevo.work.store.tables.columns import NEVER_AGAIN, Document, Number, table, ulid

search = table(
    "search",  # a row for each attribute of a message that is not at its default; the message's row has the last word
    Column("scope_id", Number, primary_key=True, autoincrement=False),
    Column(
        "attribute", BigInteger, primary_key=True, autoincrement=False
    ),  # its name and value, see search_attributes.py
    ulid("id", primary_key=True),
    sqlite_with_rowid=False,
)

search_feed = table(
    "search_feed",  # messages that the search table does not know yet, many in a row
    Column("id", Number, primary_key=True),
    ulid("first_id", nullable=False),  # the oldest of them
    Column("fresh", SmallInteger, nullable=False),  # 1: they are new; 0: what they are found by has changed
    Column("ids", Document, nullable=False),  # JSON list
    **NEVER_AGAIN,
)
