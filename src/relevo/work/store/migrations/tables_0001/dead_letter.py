"""Replays of dead letters."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer

from relevo.work.store.migrations.tables_0001.columns import (
    Document,
    Number,
    among,
    exact,
    not_negative,
    table,
    ulid,
    words,
)
from relevo.work.store.migrations.tables_0001.tenancy import scopes

replays = table(
    "replays",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("filter", Document, nullable=False),
    Column("rate_per_s", Integer, nullable=True),
    Column("state", exact(10), nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    Column("cursor", exact(26), nullable=False),
    Column("error", Document, nullable=True),
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    among("state", ["running", "done", "cancelled", "failed"]),
    not_negative("total", "done", "skipped"),
    Index("ix_relevo_replays_scope", "scope_id", "id"),
)
