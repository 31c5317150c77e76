"""The tables of what people decide: rules, reviews, schemas, access, webhooks, chunks and erasures. As store/tables.py."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger, String

from relevo.work.store.tables import Document, Number, api_keys, exact, queues, scopes, table, ulid

rules = table(
    "rules",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("name", exact(63), nullable=False),
    Column("position", Integer, nullable=False),
    Column("trigger_on", exact(20), nullable=False),
    Column("enabled", SmallInteger, nullable=False),
    Column("definition", Document, nullable=False),  # JSON, see routing/rule.py
    Column("breaker", Document, nullable=False),  # JSON, see routing/breaker.py
    Column("matched", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("uq_relevo_rules_name", "scope_id", "name", unique=True),
)

reviews = table(
    "reviews",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("queue_id", Number, nullable=True),
    ulid("message_id", nullable=True),  # none for a dead letter of a stream queue
    Column("source", exact(20), nullable=False),  # message, dead_letter, stream_dead_letter
    Column("origin", Document, nullable=False),  # JSON: where an approved dead letter goes back to
    Column("correlation_id", String(200), nullable=False),
    Column("title", String(500), nullable=False),
    Column("state", exact(10), nullable=False),
    Column("holder", String(200), nullable=True),
    Column("next_tick_at", BigInteger, nullable=True),
    Column("version", Integer, nullable=False),  # a change is written only over the version it was read from
    Column("document", Document, nullable=False),  # JSON, the whole case; see review/case.py
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=True),
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
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

schemas = table(
    "schemas",
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True),
    Column("name", exact(63), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("definition", Document, nullable=False),  # JSON Schema
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

queue_schemas = table(
    "queue_schemas",
    Column("queue_id", Number, ForeignKey(queues.c.id), primary_key=True, autoincrement=False),
    Column("schema_name", exact(63), nullable=False),
    Column("schema_version", Integer, nullable=False),
)

grants = table(
    "grants",  # what a key may do beside what it says itself, in one scope or one queue
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("key_id", exact(26), ForeignKey(api_keys.c.id), nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("queue_id", Number, ForeignKey(queues.c.id), nullable=True),
    Column("permissions", String(200), nullable=False),
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_relevo_grants_key", "key_id"),
    Index("ix_relevo_grants_scope", "scope_id"),
)

trusts = table(
    "trusts",  # messages of `trusted_scope_id` may be routed into `scope_id`
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True, autoincrement=False),
    Column("trusted_scope_id", Number, ForeignKey(scopes.c.id), primary_key=True, autoincrement=False),
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

key_limits = table(
    "key_limits",
    Column("key_id", exact(26), ForeignKey(api_keys.c.id), primary_key=True),
    Column("requests_per_s", Integer, nullable=True),
    Column("burst", Integer, nullable=True),
    Column("max_body_bytes", Integer, nullable=True),
    Column("previous_digest", exact(64), nullable=True, unique=True),  # after a rotation, the old secret for a while
    Column("previous_until", BigInteger, nullable=True),
    Column("acts_for_people", SmallInteger, nullable=False),
)

webhooks = table(
    "webhooks",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("url", String(2000), nullable=False),
    Column("events", Document, nullable=False),  # JSON list of event names; empty for all
    Column("secrets", Document, nullable=False),  # JSON list: one, or two during a rotation
    Column("state", exact(10), nullable=False),  # active, disabled
    Column("failures_in_a_row", Integer, nullable=False),
    Column("disabled_reason", Document, nullable=True),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
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
    Index("uq_relevo_webhook_deliveries_event", "webhook_id", "event_key", unique=True),
    Index("ix_relevo_webhook_deliveries_next", "state", "next_at"),
    Index("ix_relevo_webhook_deliveries_log", "webhook_id", "id"),
    Index("ix_relevo_webhook_deliveries_message", "message_id"),
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

erasures = table(
    "erasures",
    ulid("id", primary_key=True),
    Column("tenant_id", Number, nullable=False),
    Column("scope_id", Number, ForeignKey(scopes.c.id), nullable=False),
    Column("subject_digest", exact(64), nullable=False),  # who it was is gone too
    Column("state", exact(10), nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("reached", exact(26), nullable=False),  # the last message that is done: it goes on from here after a crash
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger, nullable=True),
    Index("ix_relevo_erasures_scope", "scope_id", "id"),
)

erased = table(
    "erased",  # for the lake: these messages' bodies are to go there too
    ulid("erasure_id", primary_key=True),
    ulid("message_id", primary_key=True),
)

routings = table(
    "routings",  # something happened to a message that a rule waits for; gone once the rules were asked
    Column("id", Number, primary_key=True),
    Column("scope_id", Number, nullable=False),
    Column("queue_id", Number, nullable=False),  # where it happened
    ulid("message_id", nullable=False),
    Column("trigger_on", exact(20), nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Index("ix_relevo_routings_due", "due_at", "id"),
)

stream_jobs = table(
    "stream_jobs",  # a message that is worked on as a job of a stream queue
    ulid("message_id", primary_key=True),
    Column("stream_queue", exact(200), nullable=False),
    Column("job_name", String(200), nullable=False),
    Column("state", exact(10), nullable=False),  # waiting (to be added), sent, over
    Column("job_id", exact(40), nullable=False),
    Column("sends", Integer, nullable=False),  # each send has a job id of its own
    Column("send_at", BigInteger, nullable=False),
    Column("looked_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("ix_relevo_stream_jobs_state", "state", "send_at"),
    Index("ix_relevo_stream_jobs_job", "job_id"),
)

stream_watches = table(
    "stream_watches",  # dead letters of this stream queue go to review in this scope
    Column("scope_id", Number, ForeignKey(scopes.c.id), primary_key=True, autoincrement=False),
    Column("stream_queue", exact(200), primary_key=True),
    Column("review", Document, nullable=False),  # JSON: a review specification, or the use of a pattern
    Column("reached", exact(40), nullable=False),  # the last dead letter that was looked at
    Column("created_by", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

console_sessions = table(
    "console_sessions",  # who is logged in at the console
    Column("digest", exact(64), primary_key=True),  # of the token, which only the browser has
    Column("key_id", exact(26), ForeignKey(api_keys.c.id), nullable=False),
    Column("key_digest", exact(64), nullable=False),  # of the secret they came with: a rotation ends the session
    Column("person", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("ix_relevo_console_sessions_expiry", "expires_at"),
)
