"""Every second: claims that ran out come back, delayed messages whose time has come become visible.

A claim that ran out means a worker that died, hangs, or forgot to extend. The message goes back to its place and the loss is
counted; past the queue's max_reclaims it is dead, because it may be what kills the workers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import select

from relevo.agents.agent import Batch
from relevo.work.broadcast.timeouts import WORKER_LOST, promote_deliveries, reclaim_deliveries
from relevo.work.caller import Caller
from relevo.work.message.failure import CLAIM_TIMED_OUT
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import LOSE, PROMOTE, RECLAIM
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import CLAIMED, deliveries, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues


class VisibilityTimeoutEnforcer:
    """See above; covers the deliveries of broadcast queues too. Ids that a dying claim left out of the order index
    go back with the next claim (work/lua/order_take.lua)."""

    name = "visibility_timeout_enforcer"
    every_s = 1.0
    about = "returns timed-out claims, makes delayed messages visible"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 500) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._caller = Caller.system(self.name)

    async def work(self) -> Batch:
        work_queues, limit = self._work_queues, self._batch
        claims, visible, delivery_claims, visible_deliveries = await self._due()
        counts = [0]
        if claims:
            counts.append(await work_queues.transactions.run(self._reclaim))
        if visible:
            counts.append(await work_queues.transactions.run(self._promote))
        if delivery_claims:
            counts.append(
                await work_queues.transactions.run(
                    lambda each: reclaim_deliveries(each, work_queues.queues, work_queues.mint, limit, self._caller)
                )
            )
        if visible_deliveries:
            counts.append(
                await work_queues.transactions.run(
                    lambda each: promote_deliveries(each, work_queues.queues, limit, self._caller)
                )
            )
        return Batch(sum(counts), more=max(counts) >= limit)

    async def _due(self) -> list[bool]:
        """Whether there is anything to do, without a transaction that writes: mostly there is not."""
        now = self._work_queues.now_ms()
        questions = [
            select(messages.c.id).where(messages.c.claim_until <= now, CLAIMED),
            select(messages.c.id).where(messages.c.visible_at <= now, messages.c.state == "delayed"),
            select(deliveries.c.message_id).where(deliveries.c.claim_until <= now, deliveries.c.state == "claimed"),
            select(deliveries.c.message_id).where(deliveries.c.visible_at <= now, deliveries.c.state == "delayed"),
        ]
        async with self._work_queues.database.connect() as connection:
            return [(await connection.execute(each.limit(1))).first() is not None for each in questions]

    async def _reclaim(self, transaction: SqlUnitOfWork) -> int:
        m = messages.c
        rows = await transaction.lock_messages(
            m.claim_until <= transaction.now, CLAIMED, by=(m.claim_until,), limit=self._batch
        )
        for queue, own in await self._by_queue(rows):
            lost = [Change(row, WORKER_LOST, CLAIM_TIMED_OUT) for row in own if row.reclaims >= queue.max_reclaims]
            back = [
                Change(row, CLAIM_TIMED_OUT.text, CLAIM_TIMED_OUT, told={"reclaims": row.reclaims + 1})
                for row in own
                if row.reclaims < queue.max_reclaims
            ]
            await apply(transaction, RECLAIM, queue, back, self._caller)
            await apply(transaction, LOSE, queue, lost, self._caller)
        return len(rows)

    async def _promote(self, transaction: SqlUnitOfWork) -> int:
        m = messages.c
        rows = await transaction.lock_messages(
            m.visible_at <= transaction.now, m.state == "delayed", by=(m.visible_at,), limit=self._batch
        )
        for queue, own in await self._by_queue(rows):
            await apply(transaction, PROMOTE, queue, [Change(row) for row in own], self._caller)
        return len(rows)

    async def _by_queue(self, rows: Sequence[LockedMessage]) -> list[tuple[QueueRecord, list[LockedMessage]]]:
        grouped: dict[int, list[LockedMessage]] = defaultdict(list)
        for row in rows:
            grouped[row.queue_id].append(row)
        return [(await self._work_queues.queues.by_id(queue_id), own) for queue_id, own in sorted(grouped.items())]
