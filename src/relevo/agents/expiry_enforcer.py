"""Every minute: messages that nobody took before their ttl or deadline expire, and kept answers of requests after a day.

Only what waits expires, pending or delayed; work that has begun is finished. An expired message is terminal, or a dead letter
when its queue says `dead_letter_expired`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Column, select, update

from relevo.agents.agent import Batch
from relevo.agents.window import Window
from relevo.work.caller import Caller
from relevo.work.message.failure import Failure
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import BURY_EXPIRED, EXPIRE
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import deliveries, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

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
        query = select(messages.c.id).where(column > since, column <= now, messages.c.state.in_(EXPIRE.before)).limit(1)
        async with self._work_queues.database.connect() as connection:
            return (await connection.execute(query)).first() is not None

    async def _expire(self, transaction: SqlUnitOfWork, column: Column[int], reason: str, since: int) -> int:
        rows = await transaction.lock_messages(
            *(column > since, column <= transaction.now, messages.c.state.in_(EXPIRE.before)),
            by=(column,),
            limit=self._batch,
        )
        grouped: dict[int, list[LockedMessage]] = defaultdict(list)
        for row in rows:
            grouped[row.queue_id].append(row)
        for queue_id, own in sorted(grouped.items()):
            queue = await self._work_queues.queues.by_id(queue_id)
            if queue.consumer_mode == "broadcast":
                await self._close_deliveries(transaction, own)
            buried = queue.dead_letter_expired and not queue.system
            columns = {"open_deliveries": None} if buried else {}
            why = (f"expired: {reason}", _EXPIRED[reason], reason, {"reason": reason})
            changes = [Change(row, *why, columns) for row in own]
            await apply(transaction, BURY_EXPIRED if buried else EXPIRE, queue, changes, self._caller, reason=reason)
        return len(rows)

    async def _close_deliveries(self, transaction: SqlUnitOfWork, rows: Sequence[LockedMessage]) -> None:
        """Subscriptions that have not begun with them will not; those that have may finish."""
        d = deliveries.c
        await transaction.connection.execute(
            update(deliveries)
            .where(d.message_id.in_([row.id for row in rows]), d.state.in_(EXPIRE.before))
            .values(state="expired", visible_at=None, updated_at=transaction.now)
        )
