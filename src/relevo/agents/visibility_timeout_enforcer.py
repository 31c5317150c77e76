"""Every second: claims that ran out come back, delayed messages whose time has come become visible.

A claim that ran out means a worker that died, hangs, or forgot to extend. The message goes back to its place and the loss is
counted; past the queue's max_reclaims it is dead, because it may be what kills the workers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import select, update

from relevo.agents.agent import Batch
from relevo.agents.due import take_due
from relevo.work.broadcast.timeouts import WORKER_LOST, promote_deliveries, reclaim_deliveries
from relevo.work.caller import Caller
from relevo.work.message.failure import CLAIM_TIMED_OUT
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import LOSE, PROMOTE, RECLAIM
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import LockedMessage
from relevo.work.store.lease import Lease
from relevo.work.store.tables import deliveries, due, leases, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

_LEASES = 20
"""Leases that are ended in one transaction: each may hold a thousand messages."""


class VisibilityTimeoutEnforcer:
    """See above; covers the deliveries of broadcast queues too. Ids that a dying claim left out of the order index
    go back with the next claim (work/ready_index/lua/order_take.lua)."""

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
        counts, more = [0], False
        for is_due, end in ((claims, self._reclaim), (visible, self._promote)):
            if is_due:
                count, left = await work_queues.transactions.run(end)
                counts.append(count)
                more = more or left
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
        return Batch(sum(counts), more=more or max(counts) >= limit)

    async def _due(self) -> list[bool]:
        """Whether there is anything to do, without a transaction that writes: mostly there is not."""
        now = self._work_queues.now_ms()
        questions = [
            select(leases.c.token).where(leases.c.look_at <= now),
            select(due.c.id).where(due.c.kind == "visible", due.c.at <= now),
            select(deliveries.c.message_id).where(deliveries.c.claim_until <= now, deliveries.c.state == "claimed"),
            select(deliveries.c.message_id).where(deliveries.c.visible_at <= now, deliveries.c.state == "delayed"),
        ]
        async with self._work_queues.database.connect() as connection:
            return [(await connection.execute(each.limit(1))).first() is not None for each in questions]

    async def _reclaim(self, transaction: SqlUnitOfWork) -> tuple[int, bool]:
        """Ends leases whose time is over, as far as they still hold something. What was extended keeps its lease, which is
        looked at again when that ends."""
        c, now = leases.c, transaction.now
        most = min(_LEASES, self._batch)
        over = select(leases).where(c.look_at <= now).order_by(c.look_at).limit(most)
        ended = [Lease.of_row(row) for row in await transaction.connection.execute(transaction.held(over))]
        held = {(message_id, number): lease for lease in ended for message_id, number in lease.claims.items()}
        rows: list[LockedMessage] = []
        longer: dict[str, int] = {}
        for row in await transaction.lock_messages(messages.c.id.in_({message_id for message_id, _ in held})):
            lease = held.get((row.id, row.claim_no))
            if lease is None or row.state != "claimed":
                continue
            until = lease.until if row.claim_until is None else row.claim_until
            if until > now:
                longer[lease.token] = min(until, longer.get(lease.token, until))
            else:
                rows.append(row._replace(lease=lease))
        await transaction.session.drop_leases([lease.token for lease in ended if lease.token not in longer])
        for token, until in longer.items():
            await transaction.connection.execute(update(leases).where(c.token == token).values(look_at=until))
        for queue, own in await self._by_queue(rows):
            lost = [Change(row, WORKER_LOST, CLAIM_TIMED_OUT) for row in own if row.reclaims >= queue.max_reclaims]
            back = [
                Change(row, CLAIM_TIMED_OUT.text, CLAIM_TIMED_OUT, told={"reclaims": row.reclaims + 1})
                for row in own
                if row.reclaims < queue.max_reclaims
            ]
            await apply(transaction, RECLAIM, queue, back, self._caller)
            await apply(transaction, LOSE, queue, lost, self._caller)
        return len(rows), len(ended) == most

    async def _promote(self, transaction: SqlUnitOfWork) -> tuple[int, bool]:
        places = await take_due(transaction, "visible", self._batch)
        locked = await transaction.lock_messages(messages.c.id.in_([place.id for place in places]))
        rows = [row for row in locked if row.visible_at is not None and row.visible_at <= transaction.now]
        for queue, own in await self._by_queue(rows):
            await apply(transaction, PROMOTE, queue, [Change(row) for row in own], self._caller)
        return len(rows), len(places) == self._batch

    async def _by_queue(self, rows: Sequence[LockedMessage]) -> list[tuple[QueueRecord, list[LockedMessage]]]:
        grouped: dict[int, list[LockedMessage]] = defaultdict(list)
        for row in rows:
            grouped[row.queue_id].append(row)
        return [(await self._work_queues.queues.by_id(queue_id), own) for queue_id, own in sorted(grouped.items())]
