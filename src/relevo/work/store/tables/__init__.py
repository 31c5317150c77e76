"""The tables of work queues, the same on SQLite, MariaDB and PostgreSQL: a file for each feature, imported from here.

Comes in: nothing. Goes out: the tables, to the statements of every part of work/, and to the reader of the lake. `columns.py`
says how times, ids and documents are kept.
"""

from __future__ import annotations

from relevo.work.store.tables.access import api_keys, console_sessions, grants, kept_answers, key_limits
from relevo.work.store.tables.broadcast import deliveries, subscriptions
from relevo.work.store.tables.columns import (
    NEVER_AGAIN,
    PREFIX,
    Document,
    Number,
    exact,
    metadata,
    table,
    ulid,
)
from relevo.work.store.tables.dead_letter import replays
from relevo.work.store.tables.installation import agent_runs, settings
from relevo.work.store.tables.journal import audit, audit_chains, outbox, tallies
from relevo.work.store.tables.message import (
    DUE,
    STANDINGS,
    archive,
    chunks,
    due,
    in_state,
    keys,
    labels,
    leases,
    live,
    messages,
    ready,
)
from relevo.work.store.tables.retention import erased, erasures
from relevo.work.store.tables.review import review_patterns, reviews, stream_watches
from relevo.work.store.tables.routing import routings, rules, stream_jobs
from relevo.work.store.tables.schema import queue_schemas, schemas
from relevo.work.store.tables.search import search, search_feed
from relevo.work.store.tables.tenancy import queues, scopes, tenants, trusts
from relevo.work.store.tables.webhook import webhook_deliveries, webhooks

__all__ = [
    "DUE",
    "NEVER_AGAIN",
    "PREFIX",
    "STANDINGS",
    "Document",
    "Number",
    "agent_runs",
    "api_keys",
    "archive",
    "audit",
    "audit_chains",
    "chunks",
    "console_sessions",
    "deliveries",
    "due",
    "erased",
    "erasures",
    "exact",
    "grants",
    "in_state",
    "kept_answers",
    "key_limits",
    "keys",
    "labels",
    "leases",
    "live",
    "messages",
    "metadata",
    "outbox",
    "queue_schemas",
    "queues",
    "ready",
    "replays",
    "review_patterns",
    "reviews",
    "routings",
    "rules",
    "schemas",
    "scopes",
    "search",
    "search_feed",
    "settings",
    "stream_jobs",
    "stream_watches",
    "subscriptions",
    "table",
    "tallies",
    "tenants",
    "trusts",
    "ulid",
    "webhook_deliveries",
    "webhooks",
]
