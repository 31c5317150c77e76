"""Erasures, and what the lake still has to erase."""

from __future__ import annotations

from typing import get_args

from sqlalchemy import BigInteger, Column, ForeignKey, Index

from relevo.contract.erasures import ErasureState
from relevo.work.store.tables.columns import Number, among, exact, not_negative, table, ulid, words
from relevo.work.store.tables.tenancy import scopes

erasures = table(
    "erasures",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("subject_digest", exact(64), nullable=False),  # who it was is gone too
    Column("state", exact(10), nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("reached", exact(26), nullable=False),  # the last message that is done: it goes on from here after a crash
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=True),
    among("state", get_args(ErasureState)),
    not_negative("messages"),
    Index("ix_relevo_erasures_scope", "scope_id", "id"),
)

erased = table(
    "erased",  # for the lake: these messages' bodies are to go there too
    ulid("erasure_id", primary_key=True),
    ulid("message_id", primary_key=True),
)
