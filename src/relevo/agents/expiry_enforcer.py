"""Every minute: messages that nobody took before their ttl or deadline expire, and kept answers of requests after a day.

Only what waits expires, pending or delayed; work that has begun is finished. An expired message is terminal, or a dead letter
when its queue says `dead_letter_expired`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import select, update

from relevo.agents.agent import Batch
from relevo.agents.due import take_due
from relevo.work.message.expiry import EXPIRY, Limit, expire
from relevo.work.message.transition import EXPIRE
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import deliveries, due, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

_LIMITS: tuple[Limit, ...] = ("ttl", "deadline")
_AGAIN_MS = 60_000
"""A message that somebody works on when its time is over is looked at again: it may come back."""


class ExpiryEnforcer:
    """Looks at what is due by ttl and by deadline."""

    name = "expiry_enforcer"
    every_s = 60.0
    about = "expires messages past their ttl or deadline, and forgets what idempotency keys were answered a day ago"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 500) -> None:
        self._work_queues = work_queues
        self._batch = batch

    async def work(self) -> Batch:
        counts: list[int] = []
        more = False
        for limit in _LIMITS:
            if await self._any(limit):
                count, left = await self._work_queues.transactions.run(lambda each, a=limit: self._expire(each, a))
                counts.append(count)
                more = more or left
        forgotten = await self._work_queues.kept_answers.forget_old()
        return Batch(sum(counts) + forgotten, more=more)

    async def _any(self, limit: Limit) -> bool:
        query = select(due.c.id).where(due.c.kind == limit, due.c.at <= self._work_queues.now_ms()).limit(1)
        async with self._work_queues.database.connect() as connection:
            return (await connection.execute(query)).first() is not None

    async def _expire(self, transaction: SqlUnitOfWork, limit: Limit) -> tuple[int, bool]:
        """Expires what waits; how many, and whether there may be more."""
        places = await take_due(transaction, limit, self._batch)
        rows = await transaction.lock_messages(messages.c.id.in_([place.id for place in places]))
        grouped: dict[int, list[LockedMessage]] = defaultdict(list)
        for row in rows:
            at = row.expires_at if limit == "ttl" else row.deadline_at
            if at is None or at > transaction.now:
                continue
            if row.state in EXPIRE.before:
                grouped[row.queue_id].append(row)
            elif row.state == "claimed":
                transaction.due.append((limit, transaction.now + _AGAIN_MS, row.id))
        for queue_id, own in sorted(grouped.items()):
            queue = await self._work_queues.queues.by_id(queue_id)
            if queue.consumer_mode == "broadcast":
                await self._close_deliveries(transaction, own)
            await expire(transaction, queue, own, limit, EXPIRY)
        return sum(map(len, grouped.values())), len(places) == self._batch

    async def _close_deliveries(self, transaction: SqlUnitOfWork, rows: Sequence[LockedMessage]) -> None:
        """Subscriptions that have not begun with them will not; those that have may finish."""
        d = deliveries.c
        await transaction.connection.execute(
            update(deliveries)
            .where(d.message_id.in_([row.id for row in rows]), d.state.in_(EXPIRE.before))
            .values(state="expired", visible_at=None, updated_at=transaction.now)
        )
