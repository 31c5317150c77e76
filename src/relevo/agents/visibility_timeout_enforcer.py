"""Every second: claims that ran out come back, delayed messages whose time has come become visible.

A claim that ran out means a worker that died, hangs, or forgot to extend. The message goes back to its place and the loss is
counted; past the queue's max_reclaims it is dead, because it may be what kills the workers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import select, update

from relevo.agents.agent import Batch
from relevo.work.broadcast.timeouts import WORKER_LOST, promote_deliveries, reclaim_deliveries
from relevo.work.caller import Caller
from relevo.work.dead_letters.listing import bury
from relevo.work.message.failure import CLAIM_TIMED_OUT
from relevo.work.message.history import history_line
from relevo.work.queue_record import QueueRecord
from relevo.work.store.outbox import WorkEvent
from relevo.work.store.tables import CLAIMED, deliveries, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready
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
            counts.append(await work_queues.transactions.run(lambda each: promote_deliveries(each, limit)))
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
        query = (
            select(*(m.id, m.queue_id, m.sort_key, m.attempts, m.reclaims, m.message_type, m.correlation_id))
            .where(m.claim_until <= transaction.now, CLAIMED)
            .order_by(m.claim_until)
            .limit(self._batch)
        )
        rows = (await transaction.connection.execute(transaction.held(query))).all()
        for queue, own in await self._by_queue(rows):
            back = [row for row in own if row.reclaims < queue.max_reclaims]
            lost = [row for row in own if row.reclaims >= queue.max_reclaims]
            await self._return(transaction, queue, back)
            await bury(
                transaction,
                queue,
                lost,
                before="claimed",
                reason=WORKER_LOST,
                failure=CLAIM_TIMED_OUT,
                caller=self._caller,
                reclaims=m.reclaims + 1,
            )
            transaction.audit(
                self._caller,
                "message.reclaim",
                own[0].id,
                tenant_id=queue.tenant_id,
                scope_id=queue.scope_id,
                queue_id=queue.id,
                after=_ids(returned=back, dead=lost),
            )
        return len(rows)

    async def _return(self, transaction: SqlUnitOfWork, queue: QueueRecord, rows: Sequence[Any]) -> None:
        if not rows:
            return
        now, m = transaction.now, messages.c
        line = history_line(now, "reclaimed", self._caller.actor, CLAIM_TIMED_OUT.text)
        await transaction.connection.execute(
            update(messages)
            .where(m.id.in_([row.id for row in rows]))
            .values(
                state="pending",
                claim_until=None,
                claim_token=None,
                claimed_by=None,
                claimed_at=None,
                reclaims=m.reclaims + 1,
                updated_at=now,
                trail=m.trail + line,
                failure_reason=CLAIM_TIMED_OUT.text,
                error=CLAIM_TIMED_OUT.encoded(),
            )
        )
        transaction.counters.moved(queue.id, "claimed", "pending", len(rows))
        transaction.counters.add(queue.id, "reclaimed", len(rows))
        transaction.ready += [Ready(queue.id, row.sort_key, row.id) for row in rows]
        transaction.events += [
            WorkEvent(
                "reclaimed",
                queue.id,
                row.id,
                now,
                row.message_type,
                row.correlation_id,
                {"attempt": row.attempts, "reclaims": row.reclaims + 1, **CLAIM_TIMED_OUT.extras(CLAIM_TIMED_OUT.text)},
            )
            for row in rows
        ]

    async def _promote(self, transaction: SqlUnitOfWork) -> int:
        m = messages.c
        query = (
            select(m.id, m.queue_id, m.sort_key)
            .where(m.visible_at <= transaction.now, m.state == "delayed")
            .order_by(m.visible_at)
            .limit(self._batch)
        )
        rows = (await transaction.connection.execute(transaction.held(query))).all()
        if rows:
            await transaction.connection.execute(
                update(messages)
                .where(m.id.in_([row.id for row in rows]))
                .values(state="pending", visible_at=None, updated_at=transaction.now)
            )
        for queue, own in await self._by_queue(rows):
            transaction.counters.moved(queue.id, "delayed", "pending", len(own))
            if queue.consumer_mode == "competing":  # of a broadcast queue the deliveries are claimed, not the messages
                transaction.ready += [Ready(queue.id, row.sort_key, row.id) for row in own]
        return len(rows)

    async def _by_queue(self, rows: Sequence[Any]) -> list[tuple[QueueRecord, list[Any]]]:
        grouped: dict[int, list[Any]] = defaultdict(list)
        for row in rows:
            grouped[row.queue_id].append(row)
        return [(await self._work_queues.queues.by_id(queue_id), own) for queue_id, own in sorted(grouped.items())]


def _ids(**groups: Sequence[Any]) -> str:
    return msgspec.json.encode({name: [row.id for row in rows] for name, rows in groups.items() if rows}).decode()
