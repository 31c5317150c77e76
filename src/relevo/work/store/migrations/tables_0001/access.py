"""API keys, what they may do beside their own permissions, their limits, and who is logged in with one."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger

from relevo.work.store.migrations.tables_0001.columns import Document, Number, exact, table, ulid, words
from relevo.work.store.migrations.tables_0001.tenancy import queues, scopes, tenants

api_keys = table(
    "api_keys",
    Column("id", exact(26), primary_key=True),
    Column("tenant_id", Number, ForeignKey(tenants.c.id), nullable=False, index=True),
    Column("name", words(200), nullable=False),
    Column("hint", exact(12), nullable=False),
    Column("digest", exact(64), nullable=False, unique=True),
    Column("permissions", words(200), nullable=False),
    Column("scope_slugs", Document, nullable=True),
    Column("queue_slugs", Document, nullable=True),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=True),
    Column("revoked_at", BigInteger, nullable=True),
    Column("last_used_at", BigInteger, nullable=True),
)

grants = table(
    "grants",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("key_id", exact(26), ForeignKey(api_keys.c.id), nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("queue_id", Number, ForeignKey(queues.c.id), nullable=True),
    Column("permissions", words(200), nullable=False),
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_relevo_grants_key", "key_id"),
    Index("ix_relevo_grants_scope", "scope_id"),
)

key_limits = table(
    "key_limits",
    Column("key_id", exact(26), ForeignKey(api_keys.c.id), primary_key=True),
    Column("requests_per_s", Integer, nullable=True),
    Column("burst", Integer, nullable=True),
    Column("max_body_bytes", Integer, nullable=True),
    Column("previous_digest", exact(64), nullable=True, unique=True),
    Column("previous_until", BigInteger, nullable=True),
    Column("acts_for_people", SmallInteger, nullable=False),
)

kept_answers = table(
    "kept_answers",
    Column("tenant_id", Number, ForeignKey(tenants.c.id), primary_key=True, autoincrement=False),
    Column("actor", exact(100), primary_key=True),
    Column("key_digest", exact(64), primary_key=True),
    Column("fingerprint", exact(64), nullable=False),
    Column("begun_at", BigInteger, nullable=False),
    Column("status", SmallInteger, nullable=True),
    Column("answer", Document, nullable=True),
    Index("ix_relevo_kept_answers_age", "begun_at"),
)

console_sessions = table(
    "console_sessions",
    Column("digest", exact(64), primary_key=True),
    Column("key_id", exact(26), ForeignKey(api_keys.c.id), nullable=False),
    Column("key_digest", exact(64), nullable=False),
    Column("person", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("ix_relevo_console_sessions_expiry", "expires_at"),
)
