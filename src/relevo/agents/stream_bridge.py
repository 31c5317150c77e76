"""Every second: between work queues and stream queues, in both directions.

- Messages that rules sent to a stream queue become jobs there, at least once, each send under an id of its own.
- What became of those jobs is read from the stream queue's events, from a place that is kept in the database, and settles the
  messages. Jobs that nothing was heard of for a while (events were trimmed, or are off; Redis was emptied) are asked for.
- Dead letters of watched stream queues go to review; those that people decided over go back, or go.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update

from relevo.agents.agent import Batch
from relevo.engine.admin.dead_letters import DeadLetter, DeadLetterFilter
from relevo.engine.events.queue_events import QueueEvent
from relevo.engine.queue import Queue
from relevo.errors import BadArgument, NameTooLong, NotEncodable, PayloadTooLarge, ReplayLoop
from relevo.wire.payload import MSGPACK
from relevo.work.caller import Caller
from relevo.work.faults import fault
from relevo.work.message.failure import Failure
from relevo.work.review.case import Case
from relevo.work.review.outcomes import Origin
from relevo.work.review.stream_letters import approved
from relevo.work.routing.stream_outcomes import StreamOutcomes
from relevo.work.store.tables import queues, reviews, settings, stream_watches
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.streams.stream_jobs import claimant
from relevo.work.tenancy.queues import DEAD_LETTER
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.agents")

_ENDS = ("completed", "dlq", "cancelled")
_PAGE = 500
_TYPE = re.compile(r"[\w.<>]+")
"""The name of an error, as Python prints it."""
_HOPELESS = (PayloadTooLarge, NotEncodable, NameTooLong, BadArgument)
"""Why a message cannot be a job at all."""


class StreamBridge:
    """Carries messages over, and their outcomes back."""

    name = "stream_bridge"
    every_s = 1.0
    about = "makes messages jobs of stream queues and brings their outcomes back"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 200, silent_s: float = 30.0) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._silent_ms = int(silent_s * 1000)
        self._caller = Caller.system(self.name)
        self._outcomes = StreamOutcomes(
            work_queues.transactions, work_queues.database, work_queues.queues, work_queues.now_ms, self._caller
        )

    async def work(self) -> Batch:
        if not self._work_queues.streams.there:
            return Batch(0)
        counts = [await self._send()]
        counts += [await self._hear(name) for name in await self._outcomes.open_queues()]
        counts.append(await self._ask())
        counts.append(await self._watch())
        counts.append(await self._follow())
        return Batch(sum(counts), more=max(counts) >= self._batch)

    # --- there -----------------------------------------------------------------------------------------------------------

    async def _send(self) -> int:
        rows = await self._outcomes.waiting(self._batch)
        for row in rows:
            if row["m_state"] != "claimed" or row["m_claimed_by"] != claimant(row["stream_queue"]):
                await self._outcomes.sent([row["job_id"]])  # cancelled or erased meanwhile; the next look ends it
                continue
            queue = self._work_queues.streams.get(row["stream_queue"])
            await self._place(queue)  # before the first job: an outcome cannot be older than the place we read from
            try:
                await queue.add(row["job_name"], await self._data(row), job_id=row["job_id"])
            except _HOPELESS as error:
                await self._outcomes.failed(row["job_id"], str(error), dead=True)
                continue
            fault("bridge.added")
            await self._outcomes.sent([row["job_id"]])
        return len(rows)

    async def _data(self, row: Any) -> dict[str, Any]:
        home = await self._work_queues.queues.by_id(row["m_queue_id"])
        return {
            "message_id": row["message_id"],
            "body": msgspec.json.decode(row["m_body"] or "null"),
            "labels": msgspec.json.decode(row["m_labels"]),
            "message_type": row["m_message_type"],
            "correlation_id": row["m_correlation_id"],
            "causation_id": row["m_causation_id"],
            "parent_id": row["m_parent_id"],
            "attempt": row["m_attempts"],
            "deadline": row["m_deadline_at"],
            "scope": home.scope,
            "queue": home.slug,
        }

    # --- and back --------------------------------------------------------------------------------------------------------

    async def _hear(self, name: str) -> int:
        """Reads on in the events of a stream queue; how many there were."""
        queue = self._work_queues.streams.get(name)
        place = await self._place(queue)
        heard = await self._work_queues.streams.events(name, place, _PAGE)
        if not heard:
            return 0
        ours = await self._outcomes.known([event.job_id for event in heard if event.name in _ENDS and event.job_id])
        reasons: dict[str, str] = {}
        dead: list[QueueEvent] = []
        letters = await self._letters(queue, [event for event in heard if event.name == "dlq" and event.job_id in ours])
        for event in heard:
            if event.job_id is None or (event.job_id not in ours and event.name != "failed"):
                continue
            if event.name == "failed":
                reasons[event.job_id] = str(event.fields.get("reason", "failed"))
            elif event.name in _ENDS:
                fault("bridge.heard")
                await self._settle(queue, event, reasons.get(event.job_id), letters.get(event.job_id))
                if event.name == "dlq":
                    dead.append(event)
        await self._take_over(queue, dead)
        fault("bridge.settled")
        await self._keep_place(queue, heard[-1].id)
        return len(heard)

    async def _settle(self, queue: Queue, event: QueueEvent, reason: str | None, letter: DeadLetter | None) -> None:
        assert event.job_id is not None
        if event.name == "completed":
            await self._outcomes.completed(event.job_id, await queue.get_job_result(event.job_id))
        elif event.name == "cancelled":
            await self._outcomes.failed(event.job_id, "its job was cancelled", dead=True)
        else:
            # The event of the failure may have been in an earlier page; the dead letter has its words too.
            told = (letter and letter.detail) or str(event.fields.get("reason", "dead"))
            await self._outcomes.failed(event.job_id, reason or told, failure=_failure_of(letter))

    async def _letters(self, queue: Queue, dead: Sequence[QueueEvent]) -> dict[str, DeadLetter]:
        """The dead letters of these jobs, by job: they have the traceback, which events have not."""
        if not dead:
            return {}
        found = [letter async for letter in queue.dead_letters.each(_about(dead))]
        return {letter.envelope.id: letter for letter in found if letter.envelope is not None}

    async def _take_over(self, queue: Queue, dead: Sequence[QueueEvent]) -> None:
        """The message has its own way of dying: two dead letters of one thing would be replayed twice."""
        if dead:
            await queue.dead_letters.purge(wanted=_about(dead))

    async def _ask(self) -> int:
        """Looks for jobs that are silent."""
        rows = await self._outcomes.silent(self._work_queues.now_ms() - self._silent_ms, self._batch)
        for row in rows:
            queue, job_id = self._work_queues.streams.get(row["stream_queue"]), row["job_id"]
            found = await queue.jobs.find(job_id)
            if found.state == "completed":
                await self._outcomes.completed(job_id, await queue.get_job_result(job_id))
            elif found.state == "failed":
                letters = await queue.dead_letters.peek(1, DeadLetterFilter(job_ids={job_id}))
                why = letters[0].detail or letters[0].reason if letters else "dead"
                await self._outcomes.failed(job_id, why, failure=_failure_of(letters[0] if letters else None))
                for letter in letters:
                    await queue.dead_letters.discard(letter.dlq_id)
            elif found.state == "unknown" and found.complete:
                await self._hear(queue.name)  # it may have ended between the two looks
                await self._outcomes.lost(job_id)
            else:
                await self._outcomes.looked(job_id)
        return len(rows)

    # --- dead letters of stream queues -------------------------------------------------------------------------------------

    async def _watch(self) -> int:
        async with self._work_queues.database.connect() as connection:
            watches = (await connection.execute(select(stream_watches))).mappings().all()
        count = 0
        for watch in watches:
            queue = self._work_queues.streams.get(watch["stream_queue"])
            letters = await queue.dead_letters.after(watch["reached"], self._batch)
            ours = await self._outcomes.known([each.envelope.id for each in letters if each.envelope is not None])
            for letter in letters:
                row = None
                if letter.envelope is None or letter.envelope.id not in ours:
                    row = await self._review_row(watch, letter)
                if not await self._work_queues.transactions.run(
                    lambda each, a=watch, b=letter, c=row: self._open(each, a, b.dlq_id, c)
                ):
                    break
                watch = dict(watch) | {"reached": letter.dlq_id}
                count += 1
        return count

    async def _review_row(self, watch: Any, letter: Any) -> dict[str, Any] | None:
        wanted = select(queues.c.id).where(queues.c.scope_id == watch["scope_id"], queues.c.slug == DEAD_LETTER)
        async with self._work_queues.database.connect() as connection:
            home = await self._work_queues.queues.by_id((await connection.execute(wanted)).scalar_one())
        try:
            return await self._work_queues.stream_letters.row(
                home, watch["stream_queue"], letter, watch["review"].encode()
            )
        except ReplayLoop as error:
            log.warning("stream queue %s: %s", watch["stream_queue"], error)
            return None

    async def _open(self, transaction: SqlUnitOfWork, watch: Any, dlq_id: str, row: dict[str, Any] | None) -> bool:
        """Opens the review and moves the watch on, in one: a letter is reviewed once."""
        if not await self._work_queues.stream_letters.reached(transaction, watch, dlq_id):
            return False
        if row is not None:
            await self._work_queues.reviews.open(transaction, row)
            transaction.audit(
                self._caller,
                "stream_dead_letter.review",
                row["id"],
                tenant_id=row["tenant_id"],
                scope_id=row["scope_id"],
                correlation_id=row["correlation_id"],
                after=row["origin"],
            )
        return True

    async def _follow(self) -> int:
        """Does what people decided."""
        r = reviews.c
        decided = (
            select(reviews)
            .where(
                r.next_tick_at <= self._work_queues.now_ms(),
                r.source == "stream_dead_letter",
                r.finished_at.is_not(None),
            )
            .order_by(r.next_tick_at)
            .limit(self._batch)
        )
        async with self._work_queues.database.connect() as connection:
            rows = (await connection.execute(decided)).mappings().all()
        for row in rows:
            done = await self._carry_out(row)
            fault("bridge.replayed")
            await self._work_queues.transactions.run(lambda each, a=row, b=done: self._close(each, a, b))
        return len(rows)

    async def _carry_out(self, row: Any) -> str:
        origin = msgspec.json.decode(row["origin"], type=Origin)
        case = msgspec.json.decode(row["document"], type=Case)
        assert origin.stream_queue is not None
        assert origin.entry_id is not None
        letters = self._work_queues.streams.get(origin.stream_queue).dead_letters
        if approved(case):
            letter = await letters.get(origin.entry_id)
            if letter is None:
                return "gone"  # sent back before a crash, or by somebody else
            body = None if case.corrected_body is None else MSGPACK.encode(case.corrected_body, letter.name)
            return "replayed" if await letters.replay_one(letter, body) else "left"
        if case.state == "decided":
            return "discarded" if await letters.discard(origin.entry_id) else "gone"
        return "left"

    async def _close(self, transaction: SqlUnitOfWork, row: Any, done: str) -> None:
        mine = (reviews.c.id == row["id"]) & reviews.c.next_tick_at.is_not(None)
        closed = await transaction.connection.execute(update(reviews).where(mine).values(next_tick_at=None))
        if closed.rowcount:
            transaction.audit(
                self._caller,
                f"stream_dead_letter.{done}",
                row["id"],
                tenant_id=row["tenant_id"],
                scope_id=row["scope_id"],
                correlation_id=row["correlation_id"],
                after=row["origin"],
            )

    # --- the place in the events -------------------------------------------------------------------------------------------

    async def _place(self, queue: Queue) -> str:
        """Where to read on; at first, the end there is now."""
        name = _place_name(queue.name)
        async with self._work_queues.database.connect() as connection:
            known = (await connection.execute(select(settings.c.value).where(settings.c.name == name))).scalar()
        if known is not None:
            return known
        place = await self._work_queues.streams.last_event_id(queue.name)
        await self._keep_place(queue, place)
        return place

    async def _keep_place(self, queue: Queue, place: str) -> None:
        name = _place_name(queue.name)
        async with self._work_queues.database.begin() as connection:
            await connection.execute(delete(settings).where(settings.c.name == name))
            await connection.execute(insert(settings).values(name=name, value=place))


_TOLD_LATE_MS = 600_000
"""A worker tells of a dead letter once Redis has answered that it is there: on a busy machine that may be a while later."""


def _place_name(queue: str) -> str:
    return f"bridge:{hashlib.sha256(queue.encode()).hexdigest()[:48]}"


def _about(dead: Sequence[QueueEvent]) -> DeadLetterFilter:
    since = min(int(event.id.partition("-")[0]) for event in dead) - _TOLD_LATE_MS
    return DeadLetterFilter(job_ids={event.job_id for event in dead if event.job_id}, since_ms=since)


def _failure_of(letter: DeadLetter | None) -> Failure | None:
    """What a job's dead letter says of its last run. Its detail is `Type: message` where there is a traceback."""
    if letter is None or not letter.detail:
        return None
    kind, colon, message = letter.detail.partition(": ")
    if letter.traceback is None or not _TYPE.fullmatch(kind if colon else letter.detail):
        return Failure(message=letter.detail, stack=letter.traceback)
    return Failure(type=kind, message=message or None, stack=letter.traceback)
