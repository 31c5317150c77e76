"""Subscriptions of broadcast queues, and what each has to do with each message."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer

from relevo.work.store.tables.columns import (
    NEVER_AGAIN,
    Document,
    Number,
    among,
    exact,
    not_negative,
    table,
    ulid,
    where_set,
    words,
)
from relevo.work.store.tables.message import STATES
from relevo.work.store.tables.tenancy import queues

subscriptions = table(
    "subscriptions",
    Column("id", Number, primary_key=True),
    Column("queue_id", Number, ForeignKey(queues.c.id), nullable=False),
    Column("name", exact(63), nullable=False),
    ulid("from_id", nullable=False),  # sees messages with ids after this
    Column("created_at", BigInteger, nullable=False),
    Index("uq_relevo_subscriptions_name", "queue_id", "name", unique=True),
    **NEVER_AGAIN,
)

deliveries = table(
    "deliveries",  # one a subscription and message of a broadcast queue, with the claim columns of a message
    Column("subscription_id", Number, ForeignKey(subscriptions.c.id), primary_key=True),
    ulid("message_id", primary_key=True),
    Column("state", exact(10), nullable=False),
    Column("sort_key", BigInteger, nullable=False),
    Column("visible_at", BigInteger, nullable=True),
    Column("claim_until", BigInteger, nullable=True),
    Column("claim_token", exact(26), nullable=True),
    Column("claimed_by", words(200), nullable=True),
    Column("claimed_at", BigInteger, nullable=True),
    Column("attempts", Integer, nullable=False),
    Column("reclaims", Integer, nullable=False),
    Column("failure_reason", Document, nullable=True),
    Column("result", Document, nullable=True),
    Column("updated_at", BigInteger, nullable=False),
    among("state", STATES),
    not_negative("attempts", "reclaims"),
    Index("ix_relevo_deliveries_order", "subscription_id", "state", "sort_key", "message_id"),
    where_set("ix_relevo_deliveries_visible", "visible_at"),
    where_set("ix_relevo_deliveries_claims", "claim_until"),
    Index("ix_relevo_deliveries_message", "message_id"),
)
