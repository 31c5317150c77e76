"""Messages, live and archived, and what is kept of each beside its row: labels, idempotency key, parts of its result."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_args

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    Integer,
    SmallInteger,
    Table,
    and_,
    literal,
    literal_column,
    select,
    union_all,
)

from relevo.contract.messages import State
from relevo.wire.ids import minted_ms
from relevo.work.store.tables.columns import (
    Document,
    Number,
    among,
    exact,
    not_negative,
    partial,
    table,
    ulid,
    where_set,
    words,
)

STATES = [state for state in get_args(State) if state != "archived"]
"""What a row can say. `archived` is where it lies."""


def _message_columns() -> tuple[Any, ...]:
    return (
        ulid("id", primary_key=True),
        Column("tenant_id", Number, nullable=False),
        Column("scope_id", Number, nullable=False),
        Column("queue_id", Number, nullable=False),
        Column("origin_queue_id", Number, nullable=True),  # of a dead letter or a routed message: where it came from
        Column("state", exact(10), nullable=False),
        Column("sort_key", BigInteger, nullable=False),  # lowest first, then by id; see work/ready_index/index.py
        Column("visible_at", BigInteger, nullable=True),  # of a delayed message, else NULL
        Column("claim_until", BigInteger, nullable=True),  # of a claimed one, else NULL
        Column("claim_token", exact(26), nullable=True),
        Column("claimed_by", words(200), nullable=True),
        Column("claimed_at", BigInteger, nullable=True),
        Column("attempts", Integer, nullable=False),
        Column("reclaims", Integer, nullable=False),
        Column("replays", Integer, nullable=False),
        Column("message_type", words(200), nullable=False),
        Column("source_type", words(100), nullable=True),
        Column("source_id", words(200), nullable=True),
        Column("correlation_id", words(200), nullable=False),
        Column("causation_id", words(200), nullable=True),
        ulid("parent_id", nullable=True),
        Column("priority_tier", SmallInteger, nullable=False),  # 0 background … 4 critical
        Column("priority_score", SmallInteger, nullable=False),
        Column("labels", Document, nullable=False),  # a JSON object of text
        Column("content_type", words(100), nullable=False),
        Column("body", Document, nullable=True),  # JSON; none after erasure
        Column("body_digest", exact(64), nullable=False),
        Column("expires_at", BigInteger, nullable=True),  # ttl
        Column("deadline_at", BigInteger, nullable=True),
        Column("idempotency_key", words(200), nullable=True),
        Column("hitl_spec", Document, nullable=True),
        Column("open_deliveries", Integer, nullable=True),  # of a broadcast message: subscriptions still at it
        Column("failure_reason", Document, nullable=True),
        Column("error", Document, nullable=True),  # its last failure as JSON, see work/message/failure.py
        Column("result", Document, nullable=True),
        Column(
            "trail", Document, nullable=False
        ),  # its history: JSON arrays [ms, event, actor, detail], each with a comma after
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("finished_at", BigInteger, nullable=True),
    )


def _checks() -> tuple[CheckConstraint, ...]:
    return among("state", STATES), not_negative("attempts", "reclaims", "replays")


messages = table(
    "messages",
    *_message_columns(),
    *_checks(),
    # All but those in the two states that every message passes through and nobody looks for by queue.
    partial(
        "ix_relevo_messages_order", "queue_id", "state", "sort_key", "id", where="state NOT IN ('claimed', 'completed')"
    ),
    where_set("ix_relevo_messages_visible", "visible_at"),
    partial("ix_relevo_messages_claims", "claim_until", where="state = 'claimed'"),
    where_set("ix_relevo_messages_finished", "finished_at"),
    where_set("ix_relevo_messages_expires", "expires_at"),
    where_set("ix_relevo_messages_deadline", "deadline_at"),
    Index("ix_relevo_messages_scope", "scope_id", "id"),
    # Most messages are correlated with themselves alone, and found by their id.
    partial("ix_relevo_messages_correlation", "scope_id", "correlation_id", where="correlation_id <> id"),
)

STANDING: ColumnElement[bool] = messages.c.state.not_in([literal_column("'claimed'"), literal_column("'completed'")])
"""What the order index covers. SQLite uses it for a query that says so, PostgreSQL also for one that means so."""

CLAIMED: ColumnElement[bool] = messages.c.state == literal_column("'claimed'")
"""What the index of claims covers."""


def correlated(rows: Table, scope_ids: Collection[int], correlation_id: str) -> ColumnElement[bool]:
    """Those rows of these scopes that belong together; of messages by their ids, which their index leads to."""
    here = and_(rows.c.scope_id.in_(scope_ids), rows.c.correlation_id == correlation_id)
    if rows is not messages:
        return here
    others = messages.alias().c
    found = select(others.id).where(
        *(others.scope_id.in_(scope_ids), others.correlation_id == correlation_id, others.correlation_id != others.id)
    )
    if minted_ms(correlation_id) is None:  # no message has it as its id
        return and_(here, messages.c.id.in_(found))
    return and_(here, messages.c.id.in_(union_all(found, select(literal(correlation_id)))))


archive = table(
    "archive",  # a finished message moves here an hour later; it is read through the same API
    *_message_columns(),
    Column("archived_at", BigInteger, nullable=False),
    *_checks(),
    Index("ix_relevo_archive_scope", "scope_id", "id"),
    Index("ix_relevo_archive_queue", "queue_id", "id"),
    Index("ix_relevo_archive_correlation", "scope_id", "correlation_id"),
    Index("ix_relevo_archive_archived", "archived_at"),
)

labels = table(
    "labels",  # the labels once more, a row each, to find messages by; they stay while the message or its archive does
    Column("scope_id", Number, primary_key=True),
    Column("name", words(100), primary_key=True),
    Column("value", words(200), primary_key=True),
    ulid("message_id", primary_key=True),
    Index("ix_relevo_labels_message", "message_id"),
)

idempotency = table(
    "idempotency",  # one row a key, for as long as the message or its archive exists
    Column("queue_id", Number, primary_key=True),
    Column("idempotency_key", words(200), primary_key=True),
    ulid("message_id", nullable=False),
    Column("body_digest", exact(64), nullable=False),
    Index("ix_relevo_idempotency_message", "message_id"),
    sqlite_with_rowid=False,  # its key is all that is looked for: one tree less to write
)

chunks = table(
    "chunks",  # parts of one message's result, in order
    ulid("message_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("claim_token", exact(26), nullable=False),  # the claim that made it: the parts of an earlier one go
    Column("body", Document, nullable=False),  # JSON; number 0 is the whole, made when the final part came
    Column("total", BigInteger, nullable=False),  # bytes up to here
    Column("final", SmallInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
