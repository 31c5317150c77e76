"""What became of messages that are jobs of stream queues, from the jobs' side: completed, or failed as their queue says."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import select, update

from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.message.failure import Failure
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.retry import wait_before_retry
from relevo.work.message.transition import COMPLETE, GIVE_UP, RETRY_AS_JOB, SEND_AGAIN
from relevo.work.store.database import Database
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import live, messages, stream_jobs
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
        s, m = stream_jobs.c, live.c
        query = (
            select(stream_jobs, *(m[name].label(f"m_{name}") for name in _SENT))
            .join_from(stream_jobs, live, m.id == s.message_id)
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
                claims = await send_again(transaction, [message.id])
                queue = await self._queues.by_id(message.queue_id)  # nobody is known to have tried: no attempt counts
                await apply(transaction, SEND_AGAIN, queue, [Change(message, columns=claims[message.id])], self._caller)

        log.warning("the job %s is gone from its stream queue: it is added again", job_id)
        await self._transactions.run(again)

    async def completed(self, job_id: str, result: Any) -> bool:
        """Completes the message with what its job returned; false when that is known already."""

        async def settle(transaction: SqlUnitOfWork) -> bool:
            message = await self._held(transaction, job_id)
            if message is None:
                return False
            queue = await self._queues.by_id(message.queue_id)
            change = Change(message, detail=message.claimed_by, columns={"result": _json(result)})
            await apply(transaction, COMPLETE, queue, [change], self._caller, job=job_id)
            await self._over(transaction, job_id)
            return True

        return await self._transactions.run(settle)

    async def failed(self, job_id: str, reason: str, *, failure: Failure | None = None, dead: bool = False) -> bool:
        """Another try, after the queue's backoff, or a dead letter; false when that is known already."""
        why = failure or Failure(message=reason)

        async def settle(transaction: SqlUnitOfWork) -> bool:
            message = await self._held(transaction, job_id)
            if message is None:
                return False
            queue = await self._queues.by_id(message.queue_id)
            wait_ms = wait_before_retry(queue, message.attempts - message.reclaims)
            change = Change(message, reason, why)
            if dead or wait_ms is None:
                await apply(transaction, GIVE_UP, queue, [change], self._caller, job=job_id)
                await self._over(transaction, job_id)
            else:
                claims = await send_again(transaction, [message.id], send_at=transaction.now + wait_ms)
                change = change._replace(told={"backoff_ms": wait_ms}, columns=claims[message.id])
                await apply(transaction, RETRY_AS_JOB, queue, [change], self._caller, job=job_id)
            return True

        return await self._transactions.run(settle)

    async def _held(self, transaction: SqlUnitOfWork, job_id: str) -> LockedMessage | None:
        """The message of a job that nothing is decided about yet."""
        s, m = stream_jobs.c, messages.c
        query = select(s.message_id, s.stream_queue).where(s.job_id == job_id, s.state.in_(OPEN))
        job = (await transaction.connection.execute(transaction.held(query, wait=True))).one_or_none()
        if job is None:
            return None
        locked = await transaction.lock_messages(m.id == job.message_id, m.claimed_by == claimant(job.stream_queue))
        found = [row for row in locked if row.state == "claimed"]
        if not found:
            await self._over(transaction, job_id)
        return found[0] if found else None

    @staticmethod
    async def _over(transaction: SqlUnitOfWork, job_id: str) -> None:
        mine = update(stream_jobs).where(stream_jobs.c.job_id == job_id)
        await transaction.connection.execute(mine.values(state="over"))


_SENT = (
    *("body", "labels", "message_type", "correlation_id", "causation_id", "parent_id", "attempts", "state"),
    *("claimed_by", "queue_id", "scope_id", "deadline_at"),
)


def _json(result: Any) -> str | None:
    """A job may return what is no JSON: bytes, dates. Its text is better than nothing."""
    if result is None:
        return None
    try:
        return msgspec.json.encode(result).decode()
    except (TypeError, ValueError):
        return msgspec.json.encode(str(result)).decode()
