"""Reviews, their patterns, and the stream queues whose dead letters go to review."""

from __future__ import annotations

from typing import get_args

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer

from relevo.contract.reviews import CaseState
from relevo.work.store.tables.columns import Document, Number, among, exact, not_negative, table, ulid, words
from relevo.work.store.tables.tenancy import scopes

reviews = table(
    "reviews",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("queue_id", Number, nullable=True),
    ulid("message_id", nullable=True),  # none for a dead letter of a stream queue
    Column("source", exact(20), nullable=False),  # message, dead_letter, stream_dead_letter
    Column("origin", Document, nullable=False),  # JSON: where an approved dead letter goes back to
    Column("correlation_id", words(200), nullable=False),
    Column("title", words(500), nullable=False),
    Column("state", exact(10), nullable=False),
    Column("holder", words(200), nullable=True),
    Column("next_tick_at", BigInteger, nullable=True),
    Column("version", Integer, nullable=False),  # a change is written only over the version it was read from
    Column("document", Document, nullable=False),  # JSON, the whole case; see review/case.py
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=True),
    among("state", get_args(CaseState)),
    not_negative("version"),
    Index("ix_relevo_reviews_inbox", "scope_id", "state", "id"),
    Index("ix_relevo_reviews_tick", "next_tick_at"),
    Index("ix_relevo_reviews_message", "message_id"),
    Index("ix_relevo_reviews_correlation", "scope_id", "correlation_id"),
)

review_patterns = table(
    "review_patterns",
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True),
    Column("name", exact(63), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("definition", Document, nullable=False),  # JSON, see review/spec.py
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

stream_watches = table(
    "stream_watches",  # dead letters of this stream queue go to review in this scope
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True, autoincrement=False),
    Column("stream_queue", exact(200), primary_key=True),
    Column("review", Document, nullable=False),  # JSON: a review specification, or the use of a pattern
    Column("reached", exact(40), nullable=False),  # the last dead letter that was looked at
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
