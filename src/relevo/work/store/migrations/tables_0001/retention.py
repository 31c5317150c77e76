"""Erasures, and what the lake still has to erase."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index

from relevo.work.store.migrations.tables_0001.columns import Number, among, exact, not_negative, table, ulid, words
from relevo.work.store.migrations.tables_0001.tenancy import scopes

erasures = table(
    "erasures",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("subject_digest", exact(64), nullable=False),
    Column("state", exact(10), nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("reached", exact(26), nullable=False),
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=True),
    among("state", ["running", "done"]),
    not_negative("messages"),
    Index("ix_relevo_erasures_scope", "scope_id", "id"),
)

erased = table(
    "erased",
    ulid("erasure_id", primary_key=True),
    ulid("message_id", primary_key=True),
)
