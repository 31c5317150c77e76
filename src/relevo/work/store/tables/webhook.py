"""Webhooks and what they were sent."""

from __future__ import annotations

from typing import get_args

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer

from relevo.contract.webhooks import DeliveryState, WebhookState
from relevo.work.store.tables.columns import Document, Number, among, exact, not_negative, table, ulid, words
from relevo.work.store.tables.tenancy import scopes

webhooks = table(
    "webhooks",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("url", words(2000), nullable=False),
    Column("events", Document, nullable=False),  # JSON list of event names; empty for all
    Column("secrets", Document, nullable=False),  # JSON list: one, or two during a rotation
    Column("state", exact(10), nullable=False),  # active, disabled
    Column("failures_in_a_row", Integer, nullable=False),
    Column("disabled_reason", Document, nullable=True),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    among("state", get_args(WebhookState)),
    not_negative("failures_in_a_row"),
    Index("ix_relevo_webhooks_scope", "scope_id"),
)

webhook_deliveries = table(
    "webhook_deliveries",
    ulid("id", primary_key=True),
    ulid("webhook_id", nullable=False),
    Column("event_key", exact(80), nullable=False),  # one delivery for each event: the relay may come twice
    Column("event", exact(30), nullable=False),
    ulid("message_id", nullable=False),
    Column("payload", Document, nullable=False),
    Column("state", exact(10), nullable=False),  # waiting, delivered, failed
    Column("attempts", Integer, nullable=False),
    Column("last_status", Integer, nullable=True),
    Column("last_error", Document, nullable=True),
    Column("next_at", BigInteger, nullable=True),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    among("state", get_args(DeliveryState)),
    not_negative("attempts"),
    Index("uq_relevo_webhook_deliveries_event", "webhook_id", "event_key", unique=True),
    Index("ix_relevo_webhook_deliveries_next", "state", "next_at"),
    Index("ix_relevo_webhook_deliveries_log", "webhook_id", "id"),
    Index("ix_relevo_webhook_deliveries_message", "message_id"),
)
