"""Tenants, their scopes and queues, and which scope trusts which."""

from __future__ import annotations

from typing import get_args

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger

from relevo.contract.queues import ConsumerMode, Ordering, OverflowPolicy
from relevo.contract.scopes import QueueState
from relevo.work.store.tables.columns import NEVER_AGAIN, Document, Number, among, exact, not_negative, table, words

tenants = table(
    "tenants",
    Column("id", Number, primary_key=True),
    Column("slug", exact(63), nullable=False, unique=True),
    Column("display_name", words(200), nullable=False),
    Column("state", exact(10), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    **NEVER_AGAIN,
)

scopes = table(
    "scopes",
    Column("id", Number, primary_key=True),
    Column("tenant_id", Number, ForeignKey(tenants.c.id), nullable=False),
    Column("slug", exact(63), nullable=False),
    Column("display_name", words(200), nullable=False),
    Column("description", Document, nullable=False),
    Column("state", exact(10), nullable=False),
    Column("events_to_queue", Document, nullable=False),  # JSON list of event names that become messages of `_events`
    Column("audit_to_queue", SmallInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    among("state", get_args(QueueState)),
    Index("uq_relevo_scopes_slug", "tenant_id", "slug", unique=True),
    **NEVER_AGAIN,
)

queues = table(
    "queues",
    Column("id", Number, primary_key=True),
    Column("tenant_id", Number, ForeignKey(tenants.c.id), nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("slug", exact(63), nullable=False),
    Column("display_name", words(200), nullable=False),
    Column("description", Document, nullable=False),
    Column("system", SmallInteger, nullable=False),  # 1 for `_dead_letter` and its like
    Column("ordering", exact(8), nullable=False),
    Column("consumer_mode", exact(9), nullable=False),
    Column("visibility_timeout_s", Integer, nullable=False),
    Column("max_retries", Integer, nullable=False),
    Column("backoff_initial_ms", Integer, nullable=False),
    Column("backoff_multiplier", words(20), nullable=False),  # a decimal in text: floats differ between databases
    Column("backoff_cap_ms", Integer, nullable=False),
    Column("backoff_jitter_ms", Integer, nullable=False),
    Column("max_reclaims", Integer, nullable=False),
    Column("max_depth", BigInteger, nullable=True),
    Column("overflow_policy", exact(18), nullable=False),
    Column("default_ttl_s", BigInteger, nullable=True),
    Column("dead_letter_expired", SmallInteger, nullable=False),
    Column("aging_crosses_tiers", SmallInteger, nullable=False),
    Column("state", exact(10), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    among("state", get_args(QueueState)),
    among("ordering", get_args(Ordering)),
    among("consumer_mode", get_args(ConsumerMode)),
    among("overflow_policy", get_args(OverflowPolicy)),
    not_negative("max_retries", "max_reclaims", "backoff_initial_ms", "backoff_cap_ms", "backoff_jitter_ms"),
    Index("uq_relevo_queues_slug", "scope_id", "slug", unique=True),
    **NEVER_AGAIN,
)

trusts = table(
    "trusts",  # messages of `trusted_scope_id` may be routed into `scope_id`
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True, autoincrement=False),
    Column("trusted_scope_id", Number, ForeignKey(scopes.c.id), primary_key=True, autoincrement=False),
    Column("created_by", words(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
