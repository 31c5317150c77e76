"""Messages, live and archived, and what is kept of each beside its row: labels, idempotency key, parts of its result."""

from __future__ import annotations

from typing import Any, get_args

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    SmallInteger,
    String,
    Subquery,
    and_,
    case,
    literal_column,
    select,
    text,
)

from relevo.contract.messages import State
from relevo.work.store.tables.columns import (
    Document,
    Number,
    among,
    exact,
    not_negative,
    table,
    ulid,
    words,
)

STATES = [state for state in get_args(State) if state != "archived"]
"""What a message can be. `archived` is where it lies."""

STANDINGS = ("in_review", "failed", "expired", "dead", "cancelled")
"""What a live row says of where it stands. Of the others it says nothing: see `live`."""


DUE = {"visible": "visible_at", "ttl": "expires_at", "deadline": "deadline_at"}
"""What is due, and the column of a message that says when."""


def _message_columns() -> tuple[Any, ...]:
    return (
        ulid("id", primary_key=True),
        Column("tenant_id", Number, nullable=False),
        Column("scope_id", Number, nullable=False),
        Column("queue_id", Number, nullable=False),
        Column("origin_queue_id", Number, nullable=True),  # of a dead letter or a routed message: where it came from
        Column("sort_key", BigInteger, nullable=False),  # lowest first, then by id; see work/ready_index/index.py
        Column("visible_at", BigInteger, nullable=True),  # of a delayed message, else NULL
        Column("claim_until", BigInteger, nullable=True),  # of a claim that was extended: longer than its lease says
        Column("claim_token", exact(26), nullable=True),  # of the last claim, once it is settled: who, and from when on
        Column("claimed_by", words(200), nullable=True),
        Column("claimed_at", BigInteger, nullable=True),
        Column("attempts", Integer, nullable=False, server_default=text("0")),  # that are over: not one under way
        Column("reclaims", Integer, nullable=False, server_default=text("0")),
        Column("replays", Integer, nullable=False, server_default=text("0")),
        Column("message_type", words(200), nullable=False, server_default=text("'message'")),
        Column("source_type", words(100), nullable=True),
        Column("source_id", words(200), nullable=True),
        Column("correlation_id", words(200), nullable=False),
        Column("causation_id", words(200), nullable=True),
        ulid("parent_id", nullable=True),
        Column("priority_tier", SmallInteger, nullable=False, server_default=text("2")),  # 0 background … 4 critical
        Column("priority_score", SmallInteger, nullable=False, server_default=text("0")),
        Column("labels", Document, nullable=False, server_default=text("'{}'")),  # a JSON object of text
        Column("content_type", words(100), nullable=False, server_default=text("'application/json'")),
        Column("body", Document, nullable=True),  # JSON; none after erasure
        Column("body_digest", exact(64), nullable=True),  # of what was published, once the body is another
        Column("expires_at", BigInteger, nullable=True),  # ttl
        Column("deadline_at", BigInteger, nullable=True),
        Column("idempotency_key", words(200), nullable=True),
        Column("hitl_spec", Document, nullable=True),
        Column("open_deliveries", Integer, nullable=True),  # of a broadcast message: subscriptions still at it
        Column("failure_reason", Document, nullable=True),
        Column("error", Document, nullable=True),  # its last failure as JSON, see work/message/failure.py
        Column("result", Document, nullable=True),
        Column("published_by", words(200), nullable=True),  # the actor; NULL where `trail` says it
        # The rest of its history: JSON arrays [ms, event, actor, detail], each with a comma after.
        Column("trail", Document, nullable=False, server_default=text("''")),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("finished_at", BigInteger, nullable=True),
    )


messages = table(
    "messages",
    *_message_columns(),
    Column("standing", exact(10), nullable=True),  # in whose hands it is, or how it ended; NULL: see `live`
    Column("claim_no", Integer, nullable=False, server_default=text("0")),  # its claims that ended without its end
    among("standing", STANDINGS),
    not_negative("attempts", "reclaims", "replays", "claim_no"),
    Index("ix_relevo_messages_queue", "queue_id", "id"),
    postgresql_with={"fillfactor": 55},  # room for the end of each message: a row that stays in its page costs a third
)

ready = table(
    "ready",  # the order of every queue: a row only while its message can be claimed
    Column("queue_id", Number, primary_key=True, autoincrement=False),
    Column("sort_key", BigInteger, primary_key=True, autoincrement=False),
    ulid("id", primary_key=True),
    sqlite_with_rowid=False,
)

due = table(
    "due",  # what messages wait for, or end by: agents look here and nowhere else; a row may have become needless
    Column("kind", exact(8), primary_key=True),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    ulid("id", primary_key=True),
    among("kind", [*DUE, "dead"]),  # `dead`: it died, and nobody was warned yet
    sqlite_with_rowid=False,
)

leases = table(
    "leases",  # a row a claim, however many messages it took: written once, gone when all of them are settled or it runs out
    Column("token", exact(26), primary_key=True),
    Column("scope_id", Number, nullable=False),
    Column("queue_id", Number, nullable=False),
    Column("claimed_by", words(200), nullable=False),
    Column("actor", words(200), nullable=False),
    Column("claimed_at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("held", Document, nullable=False),  # JSON list of messages, see store/lease.py
    Column("look_at", BigInteger, nullable=False),  # when it may be over for one of them: an extension moves this
    Index("ix_relevo_leases_look", "look_at"),
)


def _said(state: State) -> ColumnElement[str]:
    return literal_column(f"'{state}'", String)


def _live() -> Subquery:
    m = messages.c
    state = case(
        (m.standing.is_not(None), m.standing),
        (m.finished_at.is_not(None), _said("completed")),
        (m.visible_at.is_not(None), _said("delayed")),
        (ready.c.id.is_not(None), _said("pending")),
        else_=_said("claimed"),
    )
    under_way = and_(m.standing.is_(None), m.finished_at.is_(None), m.visible_at.is_(None), ready.c.id.is_(None))
    columns = [each for each in messages.columns if each is not m.attempts]
    mine = and_(ready.c.queue_id == m.queue_id, ready.c.sort_key == m.sort_key, ready.c.id == m.id)
    attempts = (m.attempts + case((under_way, 1), else_=0)).label("attempts")
    query = select(*columns, attempts, state.label("state"), ready.c.id.label("ready_id"))
    return query.select_from(messages.outerjoin(ready, mine)).subquery("live")


live = _live()
"""Messages that are not archived, each with its state, which no row says: what stands nowhere else is finished, waits for its
time, waits to be claimed, or is claimed. A claim under way counts as an attempt; who has it stands in its lease."""


def in_state(state: str) -> ColumnElement[bool]:
    """Messages of `live` in this state, in words that an index can answer."""
    c = live.c
    if state in STANDINGS:
        return c.standing == state
    return and_(c.standing.is_(None), _OPEN_STATES[state])


_OPEN_STATES: dict[str, ColumnElement[bool]] = {
    "completed": live.c.finished_at.is_not(None),
    "delayed": and_(live.c.finished_at.is_(None), live.c.visible_at.is_not(None)),
    "pending": live.c.ready_id.is_not(None),
    "claimed": and_(live.c.finished_at.is_(None), live.c.visible_at.is_(None), live.c.ready_id.is_(None)),
}


archive = table(
    "archive",  # a finished message moves here an hour later; it is read through the same API
    *_message_columns(),
    Column("state", exact(10), nullable=False),
    Column("archived_at", BigInteger, nullable=False),
    among("state", STATES),
    not_negative("attempts", "reclaims", "replays"),
    Index("ix_relevo_archive_queue", "queue_id", "id"),
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

keys = table(
    "keys",  # the idempotency keys of a queue: one row each, for as long as the message or its archive exists
    Column("queue_id", Number, primary_key=True, autoincrement=False),
    Column("idempotency_key", words(200), primary_key=True),
    ulid("message_id", nullable=False),
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
