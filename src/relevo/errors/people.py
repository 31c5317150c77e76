"""What routing, review, schemas, access, audit and webhooks raise."""

from __future__ import annotations

from relevo.errors.work_queues import WorkError


class BadExpression(WorkError):
    """The expression {expression!r} cannot be used: {reason}. Write CEL over message, labels, body, queue and now."""

    code = "BAD_EXPRESSION"
    status = 422


class ExpressionFailed(WorkError):
    """The expression {expression!r} gives no answer for this message: {reason}. Guard it with `has(…)`, or correct it."""

    code = "EXPRESSION_FAILED"
    status = 422


class BadRule(WorkError):
    """The rule {rule!r} cannot be used: {reason}."""

    code = "BAD_RULE"
    status = 422


class BadReviewSpec(WorkError):
    """The review cannot be asked for: {reason}."""

    code = "BAD_REVIEW_SPEC"
    status = 422


class BadDecision(WorkError):
    """This is no answer: {reason}."""

    code = "BAD_DECISION"
    status = 422


class ReviewHeld(WorkError):
    """The review {review!r} is in the hands of {holder!r} until {until}: wait, or ask them to hand it over."""

    code = "REVIEW_HELD"
    status = 409


class NotYourReview(WorkError):
    """The review {review!r} cannot be {done} by {person!r}: {reason}."""

    code = "NOT_YOUR_REVIEW"
    status = 409


class ReviewOver(WorkError):
    """The review {review!r} is {state} already: nothing about it can be changed any more."""

    code = "REVIEW_OVER"
    status = 409


class BadWebhookUrl(WorkError):
    """No events can be sent to {url!r}: {reason}."""

    code = "BAD_WEBHOOK_URL"
    status = 422


class WebhookTargetRefused(WorkError):
    """Nothing is sent to {host!r}: {reason}. If it is meant to be one of yours, allow it with `--webhook-allow`."""

    code = "WEBHOOK_TARGET_REFUSED"
    status = 422


class BadSignature(WorkError):
    """The signature of this event is no good: {reason}. Do not act on it."""

    code = "BAD_SIGNATURE"
    status = 401


class BadSchema(WorkError):
    """The schema cannot be used: {reason}."""

    code = "BAD_SCHEMA"
    status = 422


class SchemaInvalid(WorkError):
    """The body does not fit the schema {schema!r}, version {version}: {faults}."""

    code = "SCHEMA_INVALID"
    status = 422


class SchemaIncompatible(WorkError):
    """Version {version} of the schema {schema!r} would refuse {count} messages that are waiting, such as {example}: let them
    be worked on first, correct the schema, or pass `force`."""

    code = "SCHEMA_INCOMPATIBLE"
    status = 409


class ReviewChanged(WorkError):
    """Review {review!r} was changed by somebody else again and again while you did: look at it and try once more."""

    code = "REVIEW_CHANGED"
    status = 409


class ReplayLoop(WorkError):
    """Dead letter {message_id!r} was sent back {replays} times and died each time: mend what kills it, then replay it by hand
    (`relevo work replay`), or cancel it."""

    code = "REPLAY_LOOP"
    status = 409


class SchemaInUse(WorkError):
    """The schema {schema!r} is asked for by {queues}: unbind it there first."""

    code = "SCHEMA_IN_USE"
    status = 409


class NotTrusted(WorkError):
    """Scope {scope!r} does not let messages of scope {other!r} in: whoever manages it has to trust {other!r} first."""

    code = "NOT_TRUSTED"
    status = 409


class StreamQueueClosed(WorkError):
    """The stream queue {queue!r} is not open to this tenant: start `relevo serve` with `--stream-queue {queue}` for it."""

    code = "STREAM_QUEUE_CLOSED"
    status = 409


class ChunkConflict(WorkError):
    """Part {number} of message {message_id!r} is refused: {reason}. Send each part once, or again with the same body."""

    code = "CHUNK_CONFLICT"
    status = 409


class TooManyRequests(WorkError):
    """The API key {key} may send {rate} requests a second: wait {wait_ms} ms, send batches, or have its limit raised."""

    code = "RATE_LIMITED"
    status = 429


class EventsNotKept(WorkError):
    """Events cannot be followed here, because there is no Redis to keep them: start `relevo serve` with `--redis-url`, or use
    a webhook or the queue `_events`."""

    code = "EVENTS_NOT_KEPT"
    status = 409


class EventsUnavailable(WorkError):
    """Events cannot be followed now: {reason}. Try again later, or use a webhook or the queue `_events`."""

    code = "EVENTS_UNAVAILABLE"
    status = 503


class ForeignForm(WorkError):
    """This form was not made by a page of this session, so nothing was done: load the page again and send it from there."""

    code = "FOREIGN_FORM"
    status = 403
