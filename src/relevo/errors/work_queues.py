"""What work queues raise. Each error has the stable `code` of its problem document and its HTTP status."""

from __future__ import annotations

from typing import ClassVar

from relevo.errors.tree import RelevoError


class WorkError(RelevoError):
    """Something went wrong in a work queue."""

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500


class Unauthenticated(WorkError):
    message = "No valid API key was sent: send `Authorization: Bearer rlv_…`; `relevo work keys create` makes a key."
    code = "UNAUTHENTICATED"
    status = 401


class KeyMissing(Unauthenticated):
    message = (
        "No API key was given: pass `key` (`--key` on the command line), or set RELEVO_KEY. `relevo up` keeps one in "
        "data/work.key, and `relevo work keys create` makes more."
    )


class KeyExpired(WorkError):
    message = "The API key {key} expired or was revoked at {at}: make a new one with `relevo work keys create`."
    code = "KEY_EXPIRED"
    status = 401


class PermissionDenied(WorkError):
    message = (
        "The API key may not {permission} here: use a key with the permission {permission!r}, for this scope and queue."
    )
    code = "PERMISSION_DENIED"
    status = 403


class NotFound(WorkError):
    message = "There is no {what} {name!r} here: check its name, and that the key belongs to its tenant."
    code = "NOT_FOUND"
    status = 404


class MethodNotAllowed(WorkError):
    message = "{method} is not allowed at {path}: use {allowed}."
    code = "METHOD_NOT_ALLOWED"
    status = 405


class MalformedBody(WorkError):
    message = "The body is not valid JSON: {reason}. Send one JSON object in UTF-8."
    code = "MALFORMED_BODY"
    status = 400


class BadCursor(WorkError):
    message = "The cursor {cursor!r} is not from this listing: pass `meta.next_cursor` of the previous page, unchanged."
    code = "BAD_CURSOR"
    status = 400


class InvalidInput(WorkError):
    message = "{where}: {reason}."
    code = "INVALID_INPUT"
    status = 422


class BodyTooLarge(WorkError):
    message = (
        "The {what} is {size} bytes, the limit is {limit}: store it elsewhere and send a reference, or raise {option}."
    )
    code = "BODY_TOO_LARGE"
    status = 413


class UnsupportedMediaType(WorkError):
    message = "The content type {given!r} is not supported: send `Content-Type: application/json`."
    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415


class SlugTaken(WorkError):
    message = "There is a {what} {slug!r} already: choose another slug, or change the existing one with PATCH."
    code = "SLUG_TAKEN"
    status = 409


class ScopePaused(WorkError):
    message = 'Scope {scope!r} is {state}: set its state to "active" to go on.'
    code = "SCOPE_PAUSED"
    status = 409


class QueuePaused(WorkError):
    message = 'Queue {queue!r} is paused: set its state to "active" to go on.'
    code = "QUEUE_PAUSED"
    status = 409


class QueueDraining(WorkError):
    message = 'Queue {queue!r} is draining and takes no new messages: publish elsewhere, or set its state to "active".'
    code = "QUEUE_DRAINING"
    status = 409


class QueueArchived(WorkError):
    message = 'Queue {queue!r} is archived and read-only: set its state to "active" to use it again.'
    code = "QUEUE_ARCHIVED"
    status = 409


class WorkQueueFull(WorkError):
    message = (
        "Queue {queue!r} holds {depth} messages, its max_depth is {max_depth}: add workers, raise it, or try again "
        "later."
    )
    code = "QUEUE_FULL"
    status = 429


class QueueNotEmpty(WorkError):
    message = (
        "The {what} {name!r} still holds {count} messages: let it drain or cancel them first, or archive it instead."
    )
    code = "NOT_EMPTY"
    status = 409


class SystemQueue(WorkError):
    message = "Queue {queue!r} is managed by its scope: it cannot be {done}."
    code = "SYSTEM_QUEUE"
    status = 409


class IdempotencyConflict(WorkError):
    message = (
        "The idempotency key {key!r} was used with another body, for message {message_id}: use a new key for a new "
        "message."
    )
    code = "IDEMPOTENCY_CONFLICT"
    status = 409


class IdempotencyKeyReused(WorkError):
    message = (
        "The idempotency key {key!r} was used for another request, with another address or body. Use a new key for a new "
        "request, and send a request again as it was."
    )
    code = "IDEMPOTENCY_KEY_REUSED"
    status = 422


class IdempotencyKeyBusy(WorkError):
    message = (
        "The request with the idempotency key {key!r} is being worked on and has no answer yet. Send it again in "
        "{wait_s} s."
    )
    code = "IDEMPOTENCY_KEY_BUSY"
    status = 409


class IdempotentAnswerLost(WorkError):
    message = (
        "The request with the idempotency key {key!r} was done ({at} in milliseconds since 1970), but its answer was lost. "
        "Look for what it made, and do not send it again with a new key."
    )
    code = "IDEMPOTENT_ANSWER_LOST"
    status = 409


class ClaimLost(WorkError):
    message = (
        "The claim on message {message_id!r} is lost ({reason}): it timed out, was settled or was taken over. Drop "
        "your result, and extend claims that take long."
    )
    code = "CLAIM_LOST"
    status = 409


class WrongState(WorkError):
    message = "The {what} {name!r} is {state}: it can no longer be {done}."
    code = "WRONG_STATE"
    status = 409


class WrongConsumerMode(WorkError):
    message = "Queue {queue!r} is {mode}: {remedy}."
    code = "WRONG_CONSUMER_MODE"
    status = 409


class StoreUnavailable(WorkError):
    message = "The database does not answer: {reason}. Nothing was changed unless you were told so. Try again later."
    code = "STORE_UNAVAILABLE"
    status = 503


class BadDatabaseUrl(WorkError, ValueError):
    message = (
        "The database address {url!r} is not valid: {reason}. Write sqlite:///path/to/file, "
        "mariadb://user:password@host/name or postgresql://user:password@host/name."
    )
    code = "BAD_DATABASE_URL"
    status = 500


class StoreOutdated(WorkError):
    message = "The database is at revision {current}, this program needs {wanted}: run `relevo db upgrade`."
    code = "STORE_OUTDATED"
    status = 503


class StoreUnknown(WorkError):
    message = (
        "The database is at revision {current}, which this version of relevo does not know: run the version that made "
        "its tables, or start with an empty database."
    )
    code = "STORE_UNKNOWN"
    status = 503


class BadRevision(WorkError, ValueError):
    message = (
        "There is no revision {revision!r} of the tables: pass one of {known}, or leave `--to` out for the newest."
    )
    code = "BAD_REVISION"


class ServiceUnreachable(WorkError):
    message = (
        "No relevo server answers at {url}: {reason}. Start one with `relevo serve` or `relevo up`, or correct the "
        "address."
    )
    code = "UNREACHABLE"
    status = 503


class EventsOvertaken(WorkError):
    message = (
        "Two processes relayed the same events at the same time: each event is in its stream once, and none is lost."
    )
    code = "EVENTS_OVERTAKEN"
