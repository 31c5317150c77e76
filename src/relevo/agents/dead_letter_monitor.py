"""Every minute: says so when dead letters grow, for whoever watches the logs.

One warning for each scope and queue they came from, with fields that a log collector can count and alert on.
"""

from __future__ import annotations

import logging

import msgspec
from sqlalchemy import func, select

from relevo.agents.agent import Batch
from relevo.engine.service.signals import Signal
from relevo.work.store.counters import depths_of
from relevo.work.store.tables import messages
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.work.dead_letters")


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters that came in since the last look."""

    tenant: str
    scope: str
    queue: str
    """The queue they came from."""
    grown: int
    total: int
    """All dead letters of the scope."""
    example: str
    """The newest of them."""


class DeadLetterMonitor:
    """Looks at what died since its last look in this process; at first, during the last beat."""

    name = "dead_letter_monitor"
    every_s = 60.0
    about = "warns when dead letters grow"

    def __init__(self, work_queues: WorkQueues) -> None:
        self.grew: Signal[Growth] = Signal()
        self._work_queues = work_queues

    async def work(self) -> Batch:
        m, now = messages.c, self._work_queues.now_ms()
        since = now - int(self.every_s * 1000)
        query = (
            select(m.queue_id, m.origin_queue_id, func.count().label("grown"), func.max(m.id).label("example"))
            .where(m.finished_at > since, m.finished_at <= now, m.standing == "dead")
            .group_by(m.queue_id, m.origin_queue_id)
        )
        async with self._work_queues.database.connect() as connection:
            rows = (await connection.execute(query)).all()
        totals = await depths_of(self._work_queues.database, sorted({row.queue_id for row in rows}))
        for row in rows:
            home = await self._work_queues.queues.by_id(row.queue_id)
            origin = home if row.origin_queue_id is None else await self._work_queues.queues.by_id(row.origin_queue_id)
            growth = Growth(
                tenant=home.tenant,
                scope=home.scope,
                queue=origin.slug,
                grown=row.grown,
                total=totals[row.queue_id].dead,
                example=row.example,
            )
            log.warning(
                "%d new dead letters of queue %s in scope %s (%d in all), such as %s",
                *(growth.grown, growth.queue, growth.scope, growth.total, growth.example),
                extra={"event": "dead_letters_grew", **msgspec.structs.asdict(growth)},
            )
            self.grew.emit(growth)
        return Batch(sum(row.grown for row in rows))
