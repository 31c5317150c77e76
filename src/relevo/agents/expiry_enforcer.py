"""Every minute: messages that nobody took before their ttl or deadline expire, and kept answers of requests after a day.

Only what waits expires, pending or delayed; work that has begun is finished. An expired message is terminal, or a dead letter
when its queue says `dead_letter_expired`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Column, select, update

from relevo.agents.agent import Batch
from relevo.agents.window import Window
from relevo.work.caller import Caller
from relevo.work.dead_letters.listing import bury
from relevo.work.message.failure import Failure
from relevo.work.message.history import history_line
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import WorkEvent
from relevo.work.store.tables import deliveries, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

_WAITING = ("pending", "delayed")
_WHOLE_EVERY_MS = 600_000
_EXPIRED = {
    "ttl": Failure(type="Expired", message="nobody claimed it before its ttl was over"),
    "deadline": Failure(type="Expired", message="nobody claimed it before its deadline"),
}


class ExpiryEnforcer:
    """Looks by ttl and by deadline, each in the order of time."""

    name = "expiry_enforcer"
    every_s = 60.0
    about = "expires messages past their ttl or deadline, and forgets what idempotency keys were answered a day ago"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 500) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._caller = Caller.system(self.name)
        self._looks: list[tuple[Column[int], str, Window]] = [
            (messages.c.expires_at, "ttl", Window(whole_every_ms=_WHOLE_EVERY_MS)),
            (messages.c.deadline_at, "deadline", Window(whole_every_ms=_WHOLE_EVERY_MS)),
        ]

    async def work(self) -> Batch:
        counts: list[int] = []
        for column, reason, window in self._looks:
            count = 0
            now = self._work_queues.now_ms()
            since = window.since(now)
            if await self._any(column, since, now):
                count = await self._work_queues.transactions.run(
                    lambda each, a=column, b=reason, c=since: self._expire(each, a, b, c)
                )
            if count < self._batch:
                window.seen(now)
            counts.append(count)
        forgotten = await self._work_queues.kept_answers.forget_old()
        return Batch(sum(counts) + forgotten, more=max(counts) >= self._batch)

    async def _any(self, column: Column[int], since: int, now: int) -> bool:
        query = select(messages.c.id).where(column > since, column <= now, messages.c.state.in_(_WAITING)).limit(1)
        async with self._work_queues.database.connect() as connection:
            return (await connection.execute(query)).first() is not None

    async def _expire(self, transaction: SqlUnitOfWork, column: Column[int], reason: str, since: int) -> int:
        m = messages.c
        query = (
            select(*(m.id, m.queue_id, m.state, m.attempts, m.message_type, m.correlation_id))
            .where(column > since, column <= transaction.now, m.state.in_(_WAITING))
            .order_by(column)
            .limit(self._batch)
        )
        rows = (await transaction.connection.execute(transaction.held(query))).all()
        grouped: dict[tuple[int, str], list[Any]] = defaultdict(list)
        for row in rows:
            grouped[row.queue_id, row.state].append(row)
        for (queue_id, state), own in sorted(grouped.items()):
            queue = await self._work_queues.queues.by_id(queue_id)
            transaction.counters.add(queue.id, "expired", len(own))
            if queue.consumer_mode == "broadcast":
                await self._close_deliveries(transaction, own)
            if queue.dead_letter_expired and not queue.system:
                await bury(
                    transaction,
                    queue,
                    own,
                    before=state,
                    reason=f"expired: {reason}",
                    failure=_EXPIRED[reason],
                    caller=self._caller,
                    open_deliveries=None,
                )
            else:
                await self._end(transaction, queue, state, own, reason)
            self._tell(transaction, queue, own, reason)
        return len(rows)

    async def _end(
        self, transaction: SqlUnitOfWork, queue: QueueRecord, before: str, rows: Sequence[Any], reason: str
    ) -> None:
        now, m = transaction.now, messages.c
        await transaction.connection.execute(
            update(messages)
            .where(m.id.in_([row.id for row in rows]))
            .values(
                state="expired",
                failure_reason=f"expired: {reason}",
                visible_at=None,
                finished_at=now,
                updated_at=now,
                error=_EXPIRED[reason].encoded(),
                trail=m.trail + history_line(now, "expired", self._caller.actor, reason),
            )
        )
        transaction.counters.moved(queue.id, before, None, len(rows))

    async def _close_deliveries(self, transaction: SqlUnitOfWork, rows: Sequence[Any]) -> None:
        """Subscriptions that have not begun with them will not; those that have may finish."""
        d = deliveries.c
        await transaction.connection.execute(
            update(deliveries)
            .where(d.message_id.in_([row.id for row in rows]), d.state.in_(_WAITING))
            .values(state="expired", visible_at=None, updated_at=transaction.now)
        )

    def _tell(self, transaction: SqlUnitOfWork, queue: QueueRecord, rows: Sequence[Any], reason: str) -> None:
        now = transaction.now
        transaction.events += [
            WorkEvent("expired", queue.id, row.id, now, row.message_type, row.correlation_id, {"reason": reason})
            for row in rows
        ]
        transaction.audit(
            self._caller,
            "message.expire",
            rows[0].id,
            tenant_id=queue.tenant_id,
            scope_id=queue.scope_id,
            queue_id=queue.id,
            after=msgspec.json.encode({"ids": [row.id for row in rows], "reason": reason}).decode(),
        )
