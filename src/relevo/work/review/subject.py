"""What a review is about: the body of its message, or of the stream queue's job, as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import select

from relevo.errors import NotFound, RelevoError
from relevo.work.caller import Caller
from relevo.work.review.outcomes import Origin
from relevo.work.review.reviews import Review
from relevo.work.review.stream_letters import body_of
from relevo.work.store.tables import reviews

if TYPE_CHECKING:
    from relevo.work.work_queues import WorkQueues


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The body as JSON; None when there is none to be had (erased, gone, or unreadable). `failure` says why it died."""

    body: bytes | None
    content_type: str = "application/json"
    message_type: str | None = None
    failure: str | None = None
    attempts: int | None = None


async def subject_of(work_queues: WorkQueues, caller: Caller, review: Review) -> Subject:
    """For somebody who sees the review already."""
    if review.message_id is not None:
        try:
            message = await work_queues.search.get(caller, review.scope, review.message_id)
        except NotFound:
            return Subject(body=None)
        return Subject(
            body=bytes(message.body),
            content_type=message.content_type,
            message_type=message.message_type,
            failure=message.failure_reason,
            attempts=message.attempts,
        )
    async with work_queues.database.connect() as connection:
        query = select(reviews.c.origin).where(reviews.c.id == review.id)
        origin = msgspec.json.decode((await connection.execute(query)).scalar_one(), type=Origin)
    if origin.stream_queue is None or origin.entry_id is None:
        return Subject(body=None)
    try:
        letter = await work_queues.streams.get(origin.stream_queue).dead_letters.get(origin.entry_id)
    except (RelevoError, OSError):
        letter = None  # Redis is away: the review can be read all the same
    if letter is None:
        return Subject(body=None)
    body = body_of(letter)
    return Subject(
        body=None if body is None else msgspec.json.encode(body),
        message_type=letter.name,
        failure=letter.reason if letter.detail is None else f"{letter.reason}: {letter.detail}",
    )
