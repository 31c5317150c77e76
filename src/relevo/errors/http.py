"""What limits of keys, webhooks, events, chunks and forms raise."""

from __future__ import annotations

from relevo.errors.work_queues import WorkError


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


class ChunkConflict(WorkError):
    message = (
        "Chunk {number} of message {message_id!r} was refused: {reason}. Send each chunk once, or again with the "
        "same body."
    )
    code = "CHUNK_CONFLICT"
    status = 409


class TooManyRequests(WorkError):
    message = (
        "The API key {key} may send {rate} requests a second: wait {wait_s} s, send batches, or have its limit raised."
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
