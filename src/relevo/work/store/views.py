"""The views on the tables, for people, BI tools and Spark: their columns stay, while the tables behind them may change with any
release. Nobody outside of the store reads those. Migrations make the views, and docs/views.md is made from this list."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table
from sqlalchemy.types import TypeEngine

_TYPES: dict[str, type[TypeEngine[Any]]] = {"text": String, "bigint": BigInteger, "int": Integer}

_OF_A_MESSAGE = """
    id               text    the message's id, a ULID: in the order of arrival
    tenant           text    the slug of its tenant
    scope            text    the slug of its scope
    queue            text    the slug of the queue it is in; null when that was deleted
    origin_queue     text    of a dead letter or a routed message: the slug of the queue it came from
    tenant_id        bigint  the number of its tenant
    scope_id         bigint  the number of its scope
    queue_id         bigint  the number of its queue
    origin_queue_id  bigint  the number of the queue it came from
    state            text    pending, delayed, claimed, in_review, completed, failed, expired, dead or cancelled
    message_type     text    what kind of message it is
    priority_tier    text    background, low, normal, high or critical
    priority_score   int     its place within the tier: the higher goes first
    labels           text    its labels, a JSON object of text
    content_type     text    of the body
    body             text    what was published, JSON; null once it was erased
    result           text    what came of it, JSON
    failure_reason   text    why it failed
    error            text    its last failure, JSON
    attempts         int     how often it was claimed
    reclaims         int     how often a claim ran out
    replays          int     how often it was replayed
    idempotency_key  text    the key it was published with
    correlation_id   text    what belongs together
    causation_id     text    what caused it
    parent_id        text    the message it was made from
    source_type      text    what kind of sender it has
    source_id        text    which sender
    claimed_by       text    who claimed it last
    claimed_at       bigint  when it was last claimed
    claim_until      bigint  until when it is claimed; null unless it is
    visible_at       bigint  from when on it can be claimed; null unless it is delayed
    expires_at       bigint  when it expires
    deadline_at      bigint  when it has to be done
    hitl_spec        text    how people are asked, JSON
    created_at       bigint  when it was published
    updated_at       bigint  when it was last changed
    finished_at      bigint  when it ended
"""

_DECLARED: dict[str, tuple[str, str]] = {
    "messages": (
        "Messages that are not archived: all that are worked on, and what ended within the last hour.",
        _OF_A_MESSAGE,
    ),
    "archive": (
        "Archived messages.",
        f"{_OF_A_MESSAGE}    archived_at      bigint  when it was archived\n",
    ),
    "events": (
        "What happened to each message, archived or not: a row a step.",
        """
        message_id       text    the message it happened to
        place            bigint  its number in the history of the message, from 1
        scope_id         bigint  the number of the message's scope
        queue_id         bigint  the number of the queue the message is in now
        at               bigint  when it happened
        event            text    what happened: published, claimed, completed, failed, retried, ...
        actor            text    who did it
        detail           text    more about it; JSON when it is more than a sentence
        """,
    ),
    "queues": (
        "Queues, and how many messages each has that are not over.",
        """
        id               bigint  the queue's number
        tenant           text    the slug of its tenant
        scope            text    the slug of its scope
        queue            text    its slug
        tenant_id        bigint  the number of its tenant
        scope_id         bigint  the number of its scope
        display_name     text    its name for people
        state            text    active, paused, draining or archived
        ordering         text    fifo, priority or deadline
        consumer_mode    text    competing or broadcast
        max_depth        bigint  how many messages may wait in it; null for any number
        pending_count    bigint  messages that can be claimed
        delayed_count    bigint  messages that cannot be claimed yet
        claimed_count    bigint  messages that somebody works on
        in_review_count  bigint  messages that wait for people
        dead_count       bigint  dead letters in it
        created_at       bigint  when it was created
        updated_at       bigint  when its settings were last changed
        """,
    ),
    "usage": (
        "What happened in each queue on each day.",
        """
        queue_id         bigint  the number of the queue
        day              int     the day (UTC), in days since 1970
        published        bigint  messages published to it
        published_bytes  bigint  bytes of their bodies
        claims           bigint  messages claimed
        completed        bigint  messages completed
        failed           bigint  failures reported
        retried          bigint  failures that were tried again
        released         bigint  messages handed back
        reclaimed        bigint  claims that ran out
        expired          bigint  messages that expired
        dead_lettered    bigint  messages that became dead letters
        cancelled        bigint  messages cancelled
        replayed         bigint  dead letters replayed
        reviews          bigint  reviews begun
        handler_ms       bigint  time between claim and settle, all together
        """,
    ),
    "reviews": (
        "What people are asked to decide, and what they were.",
        """
        id               text    the review's id
        tenant           text    the slug of its tenant
        scope            text    the slug of its scope
        queue            text    the slug of the queue of the message; null for none
        tenant_id        bigint  the number of its tenant
        scope_id         bigint  the number of its scope
        queue_id         bigint  the number of the queue of the message
        message_id       text    the message that is reviewed; null for a dead letter of a stream queue
        source           text    message, dead_letter or stream_dead_letter
        correlation_id   text    what belongs together
        title            text    what people are asked
        state            text    waiting, held, decided, failed or withdrawn
        holder           text    who holds it
        created_at       bigint  when it was asked for
        updated_at       bigint  when it was last changed
        finished_at      bigint  when it ended
        """,
    ),
    "audit": (
        "Who changed what: an entry for each call that changed something.",
        """
        id               bigint  the entry's number
        tenant           text    the slug of its tenant
        scope            text    the slug of its scope; null for none
        queue            text    the slug of its queue; null for none
        tenant_id        bigint  the number of its tenant
        scope_id         bigint  the number of its scope
        queue_id         bigint  the number of its queue
        at               bigint  when it was done
        actor            text    who did it
        action           text    what was done
        target           text    to what: a slug, or the id of a message (of a batch the first)
        request_id       text    the request that did it
        correlation_id   text    what belongs together
        before           text    what was before, JSON
        after            text    what was after, JSON
        chain            text    the chain of hashes that it is part of
        chain_no         bigint  its number in the chain, without a gap
        hash             text    of this entry and all before it in its chain
        """,
    ),
    "audit_chains": (
        "Where each chain of the audit ends.",
        """
        chain            text    the chain's name
        last_no          bigint  the number of its last entry
        last_hash        text    the hash of its last entry
        cut_no           bigint  the number of the last entry that was cut off; 0 for none
        cut_hash         text    the hash of that entry
        """,
    ),
}


def _view(name: str, about: str, columns: str) -> Table:
    made: list[Column[Any]] = []
    for line in columns.split("\n"):
        if line.strip():
            column, kind, holds = line.split(maxsplit=2)
            made.append(Column(column, _TYPES[kind], comment=holds))
    return Table(f"relevo_{name}", MetaData(), *made, comment=about)


VIEWS: dict[str, Table] = {name: _view(name, *declared) for name, declared in _DECLARED.items()}
"""Every view by its name without the prefix `relevo_`. What a column holds is its comment."""

messages, archive, reviews = VIEWS["messages"], VIEWS["archive"], VIEWS["reviews"]
audit, audit_chains = VIEWS["audit"], VIEWS["audit_chains"]
queues = VIEWS["queues"]
