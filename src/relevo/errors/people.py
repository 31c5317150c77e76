"""What routing, review, schemas, access, audit and webhooks raise."""

from __future__ import annotations

from relevo.errors.work_queues import WorkError


class BadExpression(WorkError):
    message = (
        "The expression {expression!r} is not valid: {reason}. Write CEL over message, labels, body, queue and now."
    )
    code = "BAD_EXPRESSION"
    status = 422


class ExpressionFailed(WorkError):
    message = "The expression {expression!r} failed for this message: {reason}. Guard it with `has(…)`, or correct it."
    code = "EXPRESSION_FAILED"
    status = 422


class BadRule(WorkError):
    message = "The rule {rule!r} is not valid: {reason}."
    code = "BAD_RULE"
    status = 422


class BadReviewSpec(WorkError):
    message = "The review request is not valid: {reason}. docs/how-to/reviews.md lists the fields."
    code = "BAD_REVIEW_SPEC"
    status = 422


class BadDecision(WorkError):
    message = "The decision is not valid: {reason}. Send one that the review offers."
    code = "BAD_DECISION"
    status = 422


class ReviewHeld(WorkError):
    message = "Review {review!r} is held by {holder!r} until {until}: wait, or ask them to hand it over."
    code = "REVIEW_HELD"
    status = 409


class NotYourReview(WorkError):
    message = "Review {review!r} cannot be {done} by {person!r}: {reason}. Claim it first, or ask an assignee."
    code = "NOT_YOUR_REVIEW"
    status = 409


class ReviewOver(WorkError):
    message = "Review {review!r} is already {state}: it can no longer be changed."
    code = "REVIEW_OVER"
    status = 409


class BadWebhookUrl(WorkError):
    message = "Events cannot be sent to {url!r}: {reason}. Pass an https:// address that the server may reach."
    code = "BAD_WEBHOOK_URL"
    status = 422


class WebhookTargetRefused(WorkError):
    message = "Webhooks may not be sent to {host!r}: {reason}. If this host is yours, allow it with `--webhook-allow`."
    code = "WEBHOOK_TARGET_REFUSED"
    status = 422


class BadSignature(WorkError):
    message = "The signature of this event is not valid: {reason}. Do not act on the event."
    code = "BAD_SIGNATURE"
    status = 401


class BadSchema(WorkError):
    message = "The schema is not valid: {reason}."
    code = "BAD_SCHEMA"
    status = 422


class SchemaInvalid(WorkError):
    message = "The body does not fit the schema {schema!r}, version {version}: {faults}."
    code = "SCHEMA_INVALID"
    status = 422


class SchemaIncompatible(WorkError):
    message = (
        "Version {version} of schema {schema!r} would refuse {count} waiting messages, such as {example}: let them "
        "be processed first, correct the schema, or pass `force`."
    )
    code = "SCHEMA_INCOMPATIBLE"
    status = 409


class ReviewChanged(WorkError):
    message = "Review {review!r} was changed by somebody else at the same time: look at it and try again."
    code = "REVIEW_CHANGED"
    status = 409


class ReplayLoop(WorkError):
    message = (
        "Dead letter {message_id!r} was replayed {replays} times and died each time: fix the cause, then replay it "
        "by hand (`relevo work replay`), or cancel it."
    )
    code = "REPLAY_LOOP"
    status = 409


class SchemaInUse(WorkError):
    message = "Schema {schema!r} is used by {queues}: unbind it there first."
    code = "SCHEMA_IN_USE"
    status = 409


class NotTrusted(WorkError):
    message = (
        "Scope {scope!r} does not accept messages from scope {other!r}: whoever manages {scope!r} has to trust "
        "{other!r} first."
    )
    code = "NOT_TRUSTED"
    status = 409


class StreamQueueClosed(WorkError):
    message = (
        "The stream queue {queue!r} is not open to this tenant: start `relevo serve` with `--stream-queue {queue}` "
        "for it."
    )
    code = "STREAM_QUEUE_CLOSED"
    status = 409


class ChunkConflict(WorkError):
    message = (
        "Chunk {number} of message {message_id!r} was refused: {reason}. Send each chunk once, or again with the "
        "same body."
    )
    code = "CHUNK_CONFLICT"
    status = 409


class TooManyRequests(WorkError):
    message = (
        "The API key {key} may send {rate} requests a second: wait {wait_ms} ms, send batches, or have its limit "
        "raised."
    )
    code = "RATE_LIMITED"
    status = 429


class EventsNotKept(WorkError):
    message = (
        "Events cannot be followed because this server has no Redis to keep them: start `relevo serve` with "
        "`--redis-url`, or use a webhook or the queue `_events`."
    )
    code = "EVENTS_NOT_KEPT"
    status = 409


class EventsUnavailable(WorkError):
    message = "Events cannot be followed now: {reason}. Try again later, or use a webhook or the queue `_events`."
    code = "EVENTS_UNAVAILABLE"
    status = 503


class ForeignForm(WorkError):
    message = (
        "This form was not made by a page of this session, so nothing was changed: reload the page and send it again."
    )
    code = "FOREIGN_FORM"
    status = 403
