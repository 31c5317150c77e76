"""Every five minutes: messages of priority queues that have waited long become more urgent, so that none waits for ever.

A message that nobody has touched for five minutes gains `step` points of its score, up to the top of its tier; it enters the
next tier only when its queue says `aging_crosses_tiers`. The index follows after the commit.
"""

from __future__ import annotations

from sqlalchemy import and_, or_, select

from relevo.agents.agent import Batch
from relevo.work.caller import Caller
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.model import TIERS
from relevo.work.message.ordering import sort_key
from relevo.work.message.transition import AGE
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import messages, queues, ready
from relevo.work.store.transactions import SqlUnitOfWork
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
        m, r, now = messages.c, ready.c, transaction.now
        key, last_id = place
        behind = and_(r.queue_id == queue.id, or_(r.sort_key > key, and_(r.sort_key == key, r.id > last_id)))
        page = select(r.sort_key, r.id).where(behind).order_by(r.sort_key, r.id).limit(self._batch)
        places = (await transaction.connection.execute(page)).all()
        reached = (places[-1].sort_key, places[-1].id) if len(places) == self._batch else None
        locked = await transaction.lock_messages(
            m.id.in_([each.id for each in places]),
            m.updated_at <= now - int(self.every_s * 1000),
            m.priority_score < TOP_SCORE
            if not queue.aging_crosses_tiers
            else or_(m.priority_score < TOP_SCORE, m.priority_tier < _TOP_TIER),
            by=(m.sort_key, m.id),
            limit=self._batch,
        )
        rows = [row for row in locked if row.state == "pending"]
        await apply(transaction, AGE, queue, [self._raised(queue, row) for row in rows], self._caller)
        return len(rows), reached

    def _raised(self, queue: QueueRecord, row: LockedMessage) -> Change:
        tier, score = row.priority_tier, row.priority_score + self._step
        if score > TOP_SCORE and queue.aging_crosses_tiers and tier < _TOP_TIER:
            tier, score = tier + 1, 0
        score = min(score, TOP_SCORE)
        place = sort_key(queue.ordering, created_at=row.created_at, tier=tier, score=score, deadline_at=row.deadline_at)
        columns = {"priority_tier": tier, "priority_score": score, "sort_key": place}
        return Change(row, detail=f"{TIERS[tier]} {score}", columns=columns)
