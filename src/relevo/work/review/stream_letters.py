"""Dead letters of stream queues, in front of people: sent to review by a click, or by a watch of the whole queue.

The letter stays where it is, among the dead letters of its stream queue, until somebody has decided. Approved, it goes back
into its queue with the body as it was corrected (agents/stream_bridge.py); rejected, it is deleted.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from sqlalchemy import delete, insert, select, update

from relevo.contract.pages import Page
from relevo.contract.reviews import StreamWatch
from relevo.engine.admin.dead_letters import DeadLetter
from relevo.errors import InvalidInput, NotFound, Undecodable
from relevo.wire.payload import MSGPACK
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueRecord
from relevo.work.review.case import Case
from relevo.work.review.outcomes import APPROVE, Origin, require_replays_left
from relevo.work.review.patterns import Patterns
from relevo.work.review.reviews import Review, Reviews
from relevo.work.review.spec import ReviewSpec, Section
from relevo.work.store.database import Database
from relevo.work.store.tables import reviews, stream_watches
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.streams.stream_queues import StreamQueues
from relevo.work.tenancy.queues import Queues

_SHOWN = 10_000


_LISTING = Listing("stream-watches", stream_queue=stream_watches.c.stream_queue)


class StreamLetters:
    """Dead letters of stream queues, as an installation's people see them."""

    def __init__(
        self,
        transactions: Transactions,
        database: Database,
        queues: Queues,
        reviews: Reviews,
        patterns: Patterns,
        streams: StreamQueues,
        now_ms: Clock,
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._reviews = reviews
        self._patterns = patterns
        self._streams = streams
        self._now_ms = now_ms

    async def review(
        self, caller: Caller, scope: str, stream_queue: str, entry_id: str, given: bytes | msgspec.Raw = b""
    ) -> Review:
        """Opens a review of one dead letter. `given` is a specification or the use of a pattern; none: what it was, why it
        died, approve or reject, and the body may be corrected."""
        caller.require("review")
        home = await self._queues.scope_of(caller, scope)
        self._streams.require_open(home.tenant, stream_queue)
        letter = await self._streams.get(stream_queue).dead_letters.get(_entry(entry_id))
        if letter is None:
            raise NotFound(what=f"dead letter of stream queue {stream_queue}", name=entry_id)
        row = await self.row(home, stream_queue, letter, given)

        async def open_it(transaction: SqlUnitOfWork) -> str:
            under_way = select(reviews.c.id).where(
                reviews.c.scope_id == home.scope_id,
                reviews.c.state.in_(("waiting", "held")),
                reviews.c.source == "stream_dead_letter",
                reviews.c.origin == row["origin"],
            )
            existing = (await transaction.connection.execute(under_way)).scalar()
            if existing is not None:
                return existing  # asked twice: it is the same letter
            transaction.audit(
                caller,
                "stream_dead_letter.review",
                row["id"],
                tenant_id=home.tenant_id,
                scope_id=home.scope_id,
                correlation_id=row["correlation_id"],
                after=row["origin"],
            )
            return await self._reviews.open(transaction, row)

        review_id = await self._transactions.run(open_it)
        reader = msgspec.structs.replace(caller, permissions=caller.permissions | {"view"})
        return await self._reviews.get(reader, scope, review_id)

    async def row(
        self, home: QueueRecord, stream_queue: str, letter: DeadLetter, given: bytes | msgspec.Raw
    ) -> dict[str, Any]:
        """The row of a review; `ReplayLoop` when the letter was sent back often enough."""
        body = body_of(letter)
        envelope = letter.envelope
        job_id = letter.source_id if envelope is None else envelope.id
        replays = await self._replays(home.scope_id, stream_queue, job_id)
        require_replays_left(job_id, replays)
        if len(given):
            system = Caller.system("stream_bridge", home.tenant_id)
            spec = await self._patterns.resolve(system, home.scope, given, body)
        else:
            spec = _usual(stream_queue, letter, body)
        fields = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
        correlation = fields.get("correlation_id")
        return self._reviews.row(
            spec,
            tenant_id=home.tenant_id,
            scope_id=home.scope_id,
            queue_id=None,
            message_id=None,
            source="stream_dead_letter",
            origin=Origin(stream_queue=stream_queue, entry_id=letter.dlq_id, job_id=job_id, replays=replays),
            correlation_id=correlation[:200] if isinstance(correlation, str) and correlation else job_id[:200],
            now=self._now_ms(),
        )

    async def _replays(self, scope_id: int, stream_queue: str, job_id: str) -> int:
        """How often people have sent this job back."""
        r = reviews.c
        query = select(r.origin, r.document).where(
            r.scope_id == scope_id,
            r.state == "decided",
            r.source == "stream_dead_letter",
            r.origin.contains(msgspec.json.encode(job_id).decode(), autoescape=True),
        )
        async with self._database.connect() as connection:
            rows = (await connection.execute(query)).all()
        count = 0
        for row in rows:
            origin = msgspec.json.decode(row.origin, type=Origin)
            case = msgspec.json.decode(row.document, type=Case)
            count += (origin.stream_queue, origin.job_id) == (stream_queue, job_id) and approved(case)
        return count

    # --- watches ---------------------------------------------------------------------------------------------------------

    async def watch(
        self, caller: Caller, scope: str, stream_queue: str, given: bytes | msgspec.Raw = b""
    ) -> StreamWatch:
        """From now on dead letters of this stream queue go to review in this scope by themselves."""
        caller.require("manage")
        home = await self._queues.scope_of(caller, scope)
        self._streams.require_open(home.tenant, stream_queue)
        if len(given):
            await self._patterns.check(caller, scope, msgspec.json.decode(given, type=dict[str, Any]))
        review = bytes(given).decode()

        async def save(transaction: SqlUnitOfWork) -> StreamWatch:
            w, now = stream_watches.c, transaction.now
            mine = (w.scope_id == home.scope_id) & (w.stream_queue == stream_queue)
            before = (await transaction.connection.execute(select(w.reached).where(mine))).scalar()
            await transaction.connection.execute(delete(stream_watches).where(mine))
            values = {
                "scope_id": home.scope_id,
                "stream_queue": stream_queue,
                "review": review,
                "created_by": caller.actor,
                "created_at": now,
                "reached": before or f"{now}-0",
            }
            await transaction.connection.execute(insert(stream_watches).values(values))
            transaction.audit(caller, "stream_watch.set", stream_queue, scope_id=home.scope_id, after=review or "null")
            return _watch(values)

        return await self._transactions.run(save)

    async def unwatch(self, caller: Caller, scope: str, stream_queue: str) -> None:
        caller.require("manage")
        home = await self._queues.scope_of(caller, scope)

        async def forget(transaction: SqlUnitOfWork) -> None:
            w = stream_watches.c
            mine = (w.scope_id == home.scope_id) & (w.stream_queue == stream_queue)
            gone = await transaction.connection.execute(delete(stream_watches).where(mine))
            if gone.rowcount == 0:
                raise NotFound(what="watch of stream queue", name=stream_queue)
            transaction.audit(caller, "stream_watch.remove", stream_queue, scope_id=home.scope_id)

        await self._transactions.run(forget)

    async def watches(
        self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[StreamWatch]:
        """The watches of a scope by the name of the stream queue."""
        caller.require("view")
        home = await self._queues.scope_of(caller, scope)
        query = select(stream_watches).where(stream_watches.c.scope_id == home.scope_id)
        async with self._database.connect() as connection:
            return await _LISTING.page(connection, query, _watch, limit=limit, cursor=cursor)

    async def reached(self, transaction: SqlUnitOfWork, watch: Any, dlq_id: str) -> bool:
        """Moves a watch on; false when another process was faster."""
        w = stream_watches.c
        mine = (w.scope_id == watch["scope_id"]) & (w.stream_queue == watch["stream_queue"])
        moved = update(stream_watches).where(mine, w.reached == watch["reached"]).values(reached=dlq_id)
        return (await transaction.connection.execute(moved)).rowcount == 1


def approved(case: Case) -> bool:
    return case.state == "decided" and (case.outcome or {}).get(case.spec.decision.field) == APPROVE


def body_of(letter: DeadLetter) -> Any:
    """What the job carried, as JSON can say it; None when it cannot be read."""
    envelope = letter.envelope
    if envelope is None:
        return None
    try:
        return msgspec.json.decode(msgspec.json.encode(MSGPACK.decode(envelope.payload)))
    except (Undecodable, msgspec.MsgspecError, TypeError, ValueError):
        return None


def _usual(stream_queue: str, letter: DeadLetter, body: Any) -> ReviewSpec:
    shown = msgspec.json.format(msgspec.json.encode(body)).decode()[:_SHOWN]
    why = letter.reason if letter.detail is None else f"{letter.reason}: {letter.detail}"
    if letter.traceback:
        why += f"\n\n{letter.traceback}"
    return ReviewSpec(
        title=f"Dead letter of {stream_queue}: {letter.name or 'job'}"[:500],
        context=[Section("Why it died", why[:_SHOWN]), Section("Body", shown)],
        may_correct=body is not None,
    )


def _entry(entry_id: str) -> str:
    ms, dash, sequence = entry_id.partition("-")
    if not (
        ms.isascii() and ms.isdigit() and dash and sequence.isascii() and sequence.isdigit() and len(entry_id) <= 40
    ):
        raise InvalidInput(
            where="entry_id", reason=f"{entry_id[:60]!r} is not a dead letter's id, such as 1700000000000-0"
        )
    return entry_id


def _watch(row: Any) -> StreamWatch:
    return StreamWatch(
        stream_queue=row["stream_queue"],
        review=msgspec.Raw((row["review"] or "null").encode()),
        created_by=row["created_by"],
        created_at=row["created_at"],
    )
