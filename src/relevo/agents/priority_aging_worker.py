"""Every five minutes: messages of priority queues that have waited long become more urgent, so that none waits for ever.

A message that nobody has touched for five minutes gains `step` points of its score, up to the top of its tier; it enters the
next tier only when its queue says `aging_crosses_tiers`. The index follows after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, bindparam, or_, select, update

from relevo.agents.agent import Batch
from relevo.work.caller import Caller
from relevo.work.message.history import history_line
from relevo.work.message.model import TIERS
from relevo.work.message.ordering import sort_key
from relevo.work.queue_record import QueueRecord
from relevo.work.store.tables import STANDING, messages, queues
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready
from relevo.work.work_queues import WorkQueues

TOP_SCORE = 999
_TOP_TIER = len(TIERS) - 1
_FRONT = (-(2**62), "")

Place = tuple[int, str]


class PriorityAgingWorker:
    """Walks each queue from its most to its least urgent message: what is raised moves to where the walk has been, so nothing
    is raised twice. `updated_at` keeps two walks at once from doing so."""

    name = "priority_aging_worker"
    every_s = 300.0
    about = "raises the priority of messages that have waited long"

    def __init__(self, work_queues: WorkQueues, *, step: int = 50, batch: int = 500) -> None:
        self._work_queues = work_queues
        self._step = step
        self._batch = batch
        self._caller = Caller.system(self.name)
        self._walk: list[tuple[int, Place]] = []

    async def work(self) -> Batch:
        if not self._walk:
            wanted = and_(queues.c.ordering == "priority", queues.c.state != "archived")
            async with self._work_queues.database.connect() as connection:
                ids = (await connection.execute(select(queues.c.id).where(wanted).order_by(queues.c.id))).scalars()
                self._walk = [(queue_id, _FRONT) for queue_id in ids]
            if not self._walk:
                return Batch(0)
        queue_id, place = self._walk.pop(0)
        try:
            queue = await self._work_queues.queues.by_id(queue_id)
            raised, reached = await self._work_queues.transactions.run(lambda each: self._raise(each, queue, place))
        except Exception:
            self._walk.clear()  # the next run begins anew
            raise
        if reached is not None:
            self._walk.insert(0, (queue_id, reached))
        return Batch(raised, more=bool(self._walk))

    async def _raise(self, transaction: SqlUnitOfWork, queue: QueueRecord, place: Place) -> tuple[int, Place | None]:
        """Raises one page behind `place`; returns where the page ended, None at the end of the queue."""
        m, now = messages.c, transaction.now
        key, last_id = place
        query = (
            select(m.id, m.sort_key, m.priority_tier, m.priority_score, m.created_at, m.deadline_at)
            .where(
                *(
                    m.queue_id == queue.id,
                    STANDING,
                    m.state == "pending",
                    m.updated_at <= now - int(self.every_s * 1000),
                ),
                or_(m.sort_key > key, and_(m.sort_key == key, m.id > last_id)),
                m.priority_score < TOP_SCORE
                if not queue.aging_crosses_tiers
                else or_(m.priority_score < TOP_SCORE, m.priority_tier < _TOP_TIER),
            )
            .order_by(m.sort_key, m.id)
            .limit(self._batch)
        )
        rows = (await transaction.connection.execute(transaction.held(query))).all()
        if not rows:
            return 0, None
        await self._write(transaction, queue, rows)
        reached = (rows[-1].sort_key, rows[-1].id) if len(rows) == self._batch else None
        return len(rows), reached

    async def _write(self, transaction: SqlUnitOfWork, queue: QueueRecord, rows: Sequence[Any]) -> None:
        now, actor = transaction.now, self._caller.actor
        values: list[dict[str, Any]] = []
        for row in rows:
            tier, score = self._raised(queue, row.priority_tier, row.priority_score)
            place = sort_key(
                queue.ordering, created_at=row.created_at, tier=tier, score=score, deadline_at=row.deadline_at
            )
            line = history_line(now, "aged", actor, f"{TIERS[tier]} {score}")
            values.append({"_id": row.id, "_tier": tier, "_score": score, "_key": place, "_line": line})
            if queue.consumer_mode == "competing":
                transaction.ready.append(Ready(queue.id, place, row.id))
        await transaction.connection.execute(
            update(messages)
            .where(messages.c.id == bindparam("_id"))
            .values(
                priority_tier=bindparam("_tier"),
                priority_score=bindparam("_score"),
                sort_key=bindparam("_key"),
                updated_at=now,
                trail=messages.c.trail + bindparam("_line"),
            ),
            values,
        )
        transaction.audit(
            self._caller,
            "message.age",
            rows[0].id,
            tenant_id=queue.tenant_id,
            scope_id=queue.scope_id,
            queue_id=queue.id,
            after=msgspec.json.encode({"ids": [row.id for row in rows]}).decode(),
        )

    def _raised(self, queue: QueueRecord, tier: int, score: int) -> tuple[int, int]:
        raised = score + self._step
        if raised > TOP_SCORE and queue.aging_crosses_tiers and tier < _TOP_TIER:
            return tier + 1, 0
        return tier, min(raised, TOP_SCORE)
