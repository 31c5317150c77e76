"""Schemas of bodies, and which queue asks for which."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer

from relevo.work.store.migrations.tables_0001.columns import Document, Number, exact, table, words
from relevo.work.store.migrations.tables_0001.tenancy import queues, scopes

schemas = table(
    "schemas",
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True),
    Column("name", exact(63), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("definition", Document, nullable=False),
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

queue_schemas = table(
    "queue_schemas",
    Column("queue_id", Number, ForeignKey(queues.c.id), primary_key=True, autoincrement=False),
    Column("schema_name", exact(63), nullable=False),
    Column("schema_version", Integer, nullable=False),
)
