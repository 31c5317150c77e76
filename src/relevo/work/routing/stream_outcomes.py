"""What became of messages that are jobs of stream queues, from the jobs' side: completed, or failed as their queue says."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import select, update

from relevo.contract.events import EventName
from relevo.wire.retry import RetryDefaults
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.dead_letters.listing import bury
from relevo.work.message.failure import Failure
from relevo.work.message.history import history_line
from relevo.work.queue_record import QueueRecord
from relevo.work.store.database import Database
from relevo.work.store.outbox import WorkEvent
from relevo.work.store.tables import messages, stream_jobs
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.streams.stream_jobs import claimant, send_again
from relevo.work.tenancy.queues import Queues

log = logging.getLogger("relevo.work.routing")

OPEN = ("waiting", "sent")


class StreamOutcomes:
    """Settles messages whose jobs have ended. Each outcome counts once: it belongs to one job id, and to its state."""

    def __init__(
        self, transactions: Transactions, database: Database, queues: Queues, now_ms: Clock, caller: Caller
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._now_ms = now_ms
        self._caller = caller

    async def waiting(self, limit: int) -> Sequence[Any]:
        """Jobs to add, with their messages."""
        s, m = stream_jobs.c, messages.c
        query = (
            select(stream_jobs, *(m[name].label(f"m_{name}") for name in _SENT))
            .join_from(stream_jobs, messages, m.id == s.message_id)
            .where(s.state == "waiting", s.send_at <= self._now_ms())
            .order_by(s.send_at)
            .limit(limit)
        )
        async with self._database.connect() as connection:
            return (await connection.execute(query)).mappings().all()

    async def open_queues(self) -> list[str]:
        """Stream queues that have jobs of ours."""
        query = select(stream_jobs.c.stream_queue).where(stream_jobs.c.state.in_(OPEN)).distinct()
        async with self._database.connect() as connection:
            return sorted((await connection.execute(query)).scalars())

    async def silent(self, since: int, limit: int) -> Sequence[Any]:
        """Jobs that nothing was heard of since then."""
        s = stream_jobs.c
        query = select(stream_jobs).where(s.state == "sent", s.looked_at <= since).order_by(s.looked_at).limit(limit)
        async with self._database.connect() as connection:
            return (await connection.execute(query)).mappings().all()

    async def known(self, job_ids: Sequence[str]) -> set[str]:
        """Those of these jobs that are, or once were, messages of ours."""
        s = stream_jobs.c
        ids = {job_id.partition(".")[0]: job_id for job_id in job_ids}
        found: set[str] = set()
        for at in range(0, len(ids), 500):
            some = list(ids)[at : at + 500]
            async with self._database.connect() as connection:
                rows = await connection.execute(select(s.message_id).where(s.message_id.in_(some)))
                found |= {ids[message_id] for message_id in rows.scalars()}
        return found

    async def sent(self, job_ids: Sequence[str]) -> None:
        """The stream queue has these jobs."""
        s, now = stream_jobs.c, self._now_ms()
        mine = update(stream_jobs).where(s.job_id.in_(job_ids), s.state == "waiting")
        async with self._database.begin() as connection:
            await connection.execute(mine.values(state="sent", looked_at=now))

    async def looked(self, job_id: str) -> None:
        mine = update(stream_jobs).where(stream_jobs.c.job_id == job_id)
        async with self._database.begin() as connection:
            await connection.execute(mine.values(looked_at=self._now_ms()))

    async def lost(self, job_id: str) -> None:
        """The stream queue knows nothing of this job (its Redis was emptied): it is added again, under a new id."""

        async def again(transaction: SqlUnitOfWork) -> None:
            message = await self._held(transaction, job_id)
            if message is not None:
                await send_again(transaction, [message["id"]])
                values = {"attempts": message["attempts"]}  # nobody is known to have tried
                mine = messages.c.id == message["id"]
                await transaction.connection.execute(update(messages).where(mine).values(values))

        log.warning("the job %s is gone from its stream queue: it is added again", job_id)
        await self._transactions.run(again)

    async def completed(self, job_id: str, result: Any) -> bool:
        """Completes the message with what its job returned; false when that is known already."""

        async def settle(transaction: SqlUnitOfWork) -> bool:
            message = await self._held(transaction, job_id)
            if message is None:
                return False
            now, m = transaction.now, messages.c
            held_ms = max(0, now - (message["claimed_at"] or now))
            await transaction.connection.execute(
                update(messages)
                .where(m.id == message["id"])
                .values(
                    state="completed",
                    result=_json(result),
                    finished_at=now,
                    updated_at=now,
                    claim_until=None,
                    trail=m.trail + history_line(now, "completed", self._caller.actor, message["claimed_by"]),
                )
            )
            counters = transaction.counters
            counters.moved(message["queue_id"], "claimed", None)
            counters.add(message["queue_id"], "completed", 1)
            counters.add(message["queue_id"], "handler_ms", held_ms)
            _tell(transaction, "completed", message, attempt=message["attempts"], duration_us=held_ms * 1000)
            await self._over(transaction, job_id)
            self._audit(transaction, "message.complete", message, {"job": job_id})
            return True

        return await self._transactions.run(settle)

    async def failed(self, job_id: str, reason: str, *, failure: Failure | None = None, dead: bool = False) -> bool:
        """Another try, after the queue's backoff, or a dead letter; false when that is known already."""
        why = failure or Failure(message=reason)

        async def settle(transaction: SqlUnitOfWork) -> bool:
            message = await self._held(transaction, job_id)
            if message is None:
                return False
            queue = await self._queues.by_id(message["queue_id"])
            held_ms = max(0, transaction.now - (message["claimed_at"] or transaction.now))
            transaction.counters.add(queue.id, "failed", 1)
            transaction.counters.add(queue.id, "handler_ms", held_ms)
            _tell(
                transaction,
                "failed",
                message,
                attempt=message["attempts"],
                duration_us=held_ms * 1000,
                **why.extras(reason),
            )
            self._audit(transaction, "message.fail", message, {"job": job_id})
            tries = message["attempts"] - message["reclaims"]
            if dead or tries >= queue.max_retries:
                query = select(messages).where(messages.c.id == message["id"])
                rows = (await transaction.connection.execute(query)).all()
                await bury(transaction, queue, rows, before="claimed", reason=reason, failure=why, caller=self._caller)
                await self._over(transaction, job_id)
            else:
                await self._try_again(transaction, queue, message, tries, reason, why)
            return True

        return await self._transactions.run(settle)

    async def _try_again(
        self, transaction: SqlUnitOfWork, queue: QueueRecord, message: Any, tries: int, reason: str, why: Failure
    ) -> None:
        backoff = RetryDefaults(
            initial_ms=queue.backoff_initial_ms,
            max_ms=queue.backoff_cap_ms,
            multiplier=queue.backoff_multiplier,
            jitter_ms=queue.backoff_jitter_ms,
        )
        wait_ms, m = backoff.wait_ms(tries), messages.c
        await send_again(transaction, [message["id"]], send_at=transaction.now + wait_ms)
        line = history_line(transaction.now, "failed", self._caller.actor, reason)
        values = {"failure_reason": reason, "error": why.encoded(), "trail": m.trail + line}
        await transaction.connection.execute(update(messages).where(m.id == message["id"]).values(values))
        transaction.counters.add(queue.id, "retried", 1)
        _tell(transaction, "retried", message, attempt=message["attempts"], backoff_ms=wait_ms)

    async def _held(self, transaction: SqlUnitOfWork, job_id: str) -> Any:
        """The message of a job that nothing is decided about yet."""
        s, m = stream_jobs.c, messages.c
        query = select(s.message_id, s.stream_queue).where(s.job_id == job_id, s.state.in_(OPEN))
        job = (await transaction.connection.execute(transaction.held(query, wait=True))).one_or_none()
        if job is None:
            return None
        mine = select(messages).where(m.id == job.message_id, m.state == "claimed")
        mine = mine.where(m.claimed_by == claimant(job.stream_queue))
        message = (await transaction.connection.execute(transaction.held(mine, wait=True))).mappings().one_or_none()
        if message is None:
            await self._over(transaction, job_id)
        return message

    @staticmethod
    async def _over(transaction: SqlUnitOfWork, job_id: str) -> None:
        mine = update(stream_jobs).where(stream_jobs.c.job_id == job_id)
        await transaction.connection.execute(mine.values(state="over"))

    def _audit(self, transaction: SqlUnitOfWork, action: str, message: Any, after: dict[str, Any]) -> None:
        transaction.audit(
            self._caller,
            action,
            message["id"],
            tenant_id=message["tenant_id"],
            scope_id=message["scope_id"],
            queue_id=message["queue_id"],
            correlation_id=message["correlation_id"],
            after=msgspec.json.encode(after).decode(),
        )


_SENT = (
    *("body", "labels", "message_type", "correlation_id", "causation_id", "parent_id", "attempts", "state"),
    *("claimed_by", "queue_id", "scope_id", "deadline_at"),
)


def _tell(transaction: SqlUnitOfWork, name: EventName, message: Any, **extras: int | str) -> None:
    transaction.events.append(
        WorkEvent(
            name,
            message["queue_id"],
            message["id"],
            transaction.now,
            message["message_type"],
            message["correlation_id"],
            extras,
        )
    )


def _json(result: Any) -> str | None:
    """A job may return what is no JSON: bytes, dates. Its text is better than nothing."""
    if result is None:
        return None
    try:
        return msgspec.json.encode(result).decode()
    except (TypeError, ValueError):
        return msgspec.json.encode(str(result)).decode()
