"""Every five minutes: messages that have been finished for over an hour move to the archive; once a day past days are added up.

Reads go on through the same API; claims, settles and the order no longer walk past them. See work/message/archive.py for why
a kill in the middle neither loses nor doubles one.
"""

from __future__ import annotations

from sqlalchemy import select

from relevo.agents.agent import Batch
from relevo.agents.window import Window
from relevo.work.caller import Caller
from relevo.work.message import archive
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import FINISH_UNHEARD
from relevo.work.retention import counter_rollup
from relevo.work.store.tables import messages, queues, ready
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

AFTER_MS = 3_600_000
_WHOLE_EVERY_MS = 86_400_000
_LATE_MS = 600_000


class MessageArchiver:
    """Archives in the order in which messages finished."""

    name = "message_archiver"
    every_s = 300.0
    about = "moves messages that finished over an hour ago to the archive, and adds up past days"

    def __init__(self, work_queues: WorkQueues, *, after_ms: int = AFTER_MS, batch: int = 500) -> None:
        self._work_queues = work_queues
        self._after_ms = after_ms
        self._batch = batch
        self._caller = Caller.system(self.name)
        self._window = Window(whole_every_ms=_WHOLE_EVERY_MS)
        self._folded_until = 0

    async def work(self) -> Batch:
        closed = await self._close_unheard()
        now = self._work_queues.now_ms()
        since, until = self._window.since(now), now - self._after_ms
        moved = await self._work_queues.transactions.run(lambda each: self._move(each, since, until))
        if moved < self._batch:
            self._window.seen(now)
        folded, more_days = await self._fold(now)
        return Batch(moved + closed + folded, more=moved >= self._batch or closed >= self._batch or more_days)

    async def _fold(self, now: int) -> tuple[int, bool]:
        """Once a day, and after a start: the tallies of the days before. Not right at midnight, when some still add to them."""
        today = (now - _LATE_MS) // counter_rollup.DAY_MS
        if today <= self._folded_until:
            return 0, False
        folded, more = await counter_rollup.fold(
            self._work_queues.database, self._work_queues.transactions, before=today
        )
        if not more:
            self._folded_until = today
        return folded, more

    async def _move(self, transaction: SqlUnitOfWork, since: int, until: int) -> int:
        m = messages.c
        query = (
            select(m.id)
            .where(m.finished_at > since - self._after_ms, m.finished_at <= until, archive.may_be_archived())
            .order_by(m.finished_at)
            .limit(self._batch)
        )
        ids = list((await transaction.connection.execute(transaction.held(query))).scalars())
        await archive.move(transaction, ids)
        return len(ids)

    async def _close_unheard(self) -> int:
        """A broadcast message that was published to nobody waits an hour for a subscription, and is then done."""
        m, before = messages.c, self._work_queues.now_ms() - self._after_ms
        unheard = (
            select(m.id)
            .join_from(queues, ready, ready.c.queue_id == queues.c.id)
            .join(messages, m.id == ready.c.id)
            .where(
                queues.c.consumer_mode == "broadcast",
                m.open_deliveries == 0,
                m.created_at <= before,
            )
            .limit(self._batch)
        )
        async with self._work_queues.database.connect() as connection:
            found = (await connection.execute(unheard)).all()
        if not found:
            return 0

        async def close(transaction: SqlUnitOfWork) -> int:
            mine = m.id.in_([row.id for row in found])
            locked = await transaction.lock_messages(mine, m.open_deliveries == 0, limit=self._batch)
            rows = [row for row in locked if row.state == "pending"]
            for queue_id in {row.queue_id for row in rows}:
                queue = await self._work_queues.queues.by_id(queue_id)
                changes = [Change(row, detail="nobody had subscribed") for row in rows if row.queue_id == queue_id]
                await apply(transaction, FINISH_UNHEARD, queue, changes, self._caller)
            return len(rows)

        return await self._work_queues.transactions.run(close)
