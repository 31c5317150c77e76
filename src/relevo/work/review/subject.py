"""What a review is about: the body of its message, or of the stream queue's job, as it is now."""

from __future__ import annotations

import msgspec
from sqlalchemy import select

from relevo.errors import NotFound, RelevoError
from relevo.work.caller import Caller
from relevo.work.reading.search import Search
from relevo.work.review.outcomes import Origin
from relevo.work.review.reviews import Review
from relevo.work.review.stream_letters import body_of
from relevo.work.store.database import Database
from relevo.work.store.tables import reviews
from relevo.work.streams.stream_queues import StreamQueues


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The body as JSON; None when there is none to be had (erased, gone, or unreadable). `failure` says why it died."""

    body: bytes | None
    content_type: str = "application/json"
    message_type: str | None = None
    failure: str | None = None
    attempts: int | None = None


class Subjects:
    """What the reviews of an installation are about."""

    def __init__(self, database: Database, search: Search, streams: StreamQueues) -> None:
        self._database = database
        self._search = search
        self._streams = streams

    async def of(self, caller: Caller, review: Review) -> Subject:
        """For somebody who sees the review already."""
        if review.message_id is not None:
            try:
                message = await self._search.get(caller, review.scope, review.message_id)
            except NotFound:
                return Subject(body=None)
            return Subject(
                body=bytes(message.body),
                content_type=message.content_type,
                message_type=message.message_type,
                failure=message.failure_reason,
                attempts=message.attempts,
            )
        async with self._database.connect() as connection:
            query = select(reviews.c.origin).where(reviews.c.id == review.id)
            origin = msgspec.json.decode((await connection.execute(query)).scalar_one(), type=Origin)
        if origin.stream_queue is None or origin.entry_id is None:
            return Subject(body=None)
        try:
            letter = await self._streams.get(origin.stream_queue).dead_letters.get(origin.entry_id)
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
