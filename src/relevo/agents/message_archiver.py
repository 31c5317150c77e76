"""Every five minutes: messages that have been finished for over an hour move to the archive; once a day past days are added up.

It walks along the ids, from the oldest to those that are too young to have finished so long ago, and needs no index over the
times at which messages finished: that would cost every message more than the walk. Reads go on through the same API. See
work/message/archive.py for why a kill in the middle neither loses nor doubles one.
"""

from __future__ import annotations

import time

from sqlalchemy import func, select

from relevo.agents.agent import Batch
from relevo.wire.ids import first_id
from relevo.work.caller import Caller
from relevo.work.message import archive
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import FINISH_UNHEARD
from relevo.work.retention import counter_rollup
from relevo.work.store.tables import messages, queues, ready
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

AFTER_MS = 3_600_000
_LATE_MS = 600_000
_STRIDE = 20_000
"""Messages at which one look for finished ones goes past."""
_BATCH_S = 1.0
"""How long a batch goes on with the next range, each in a transaction of its own."""


class MessageArchiver:
    """Archives in the order of ids, up to `batch` messages in one transaction."""

    name = "message_archiver"
    every_s = 300.0
    about = "moves messages that finished over an hour ago to the archive, and adds up past days"

    def __init__(self, work_queues: WorkQueues, *, after_ms: int = AFTER_MS, batch: int = 2_000) -> None:
        self._work_queues = work_queues
        self._after_ms = after_ms
        self._batch = batch
        self._caller = Caller.system(self.name)
        self._after = ""
        """Where the walk is; its beginning, once it came to the end."""
        self._folded_until = 0

    async def work(self) -> Batch:
        closed = await self._close_unheard()
        now = self._work_queues.now_ms()
        moved, until = 0, time.monotonic() + _BATCH_S
        while True:
            moved += await self._move_next(now - self._after_ms)
            if not self._after or time.monotonic() > until:
                break
        folded, more_days = await self._fold(now)
        return Batch(moved + closed + folded, more=bool(self._after) or closed >= self._batch or more_days)

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

    async def _move_next(self, finished_before: int) -> int:
        """Archives the next messages that finished by then, and goes on behind them; how many."""
        m = messages.c
        ahead = (m.id > self._after, m.id < first_id(max(0, finished_before) + 1))
        over = (m.finished_at <= finished_before, archive.may_be_archived())
        async with self._work_queues.database.connect() as connection:
            stride = select(m.id).where(*ahead).order_by(m.id).offset(_STRIDE - 1).limit(1)
            end = (await connection.execute(stride)).scalar()
            within = ahead if end is None else (*ahead, m.id <= end)
            found = select(m.id).where(*within, *over).order_by(m.id).limit(self._batch).subquery()
            bounds = select(func.min(found.c.id), func.max(found.c.id), func.count())
            first, last, count = (await connection.execute(bounds)).one()
        self._after = last if count == self._batch else end or ""
        if not count:
            return 0
        return await self._work_queues.transactions.run(lambda each: archive.move(each, first, last, *over))

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
