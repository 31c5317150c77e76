"""What rules, reviews, schemas and trust between scopes raise."""

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
