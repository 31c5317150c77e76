"""Every minute: says so when dead letters grow, for whoever watches the logs.

One warning for each scope and queue they came from, with fields that a log collector can count and alert on.
"""

from __future__ import annotations

import logging
from collections import defaultdict

import msgspec
from sqlalchemy import select

from relevo.agents.agent import Batch
from relevo.agents.due import take_due
from relevo.engine.service.signals import Signal
from relevo.work.store.counters import depths_of
from relevo.work.store.tables import messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.work.dead_letters")

_AT_ONCE = 5_000
_TOGETHER = 500
_Place = tuple[int, int | None]
"""Where a dead letter is, and the queue it came from."""


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
    """Looks at what died, each dead letter once; at what died before the last beat, while no agent ran, not at all."""

    name = "dead_letter_monitor"
    every_s = 60.0
    about = "warns when dead letters grow"

    def __init__(self, work_queues: WorkQueues) -> None:
        self.grew: Signal[Growth] = Signal()
        self._work_queues = work_queues

    async def work(self) -> Batch:
        since = self._work_queues.now_ms() - int(self.every_s * 1000)
        looked, died = await self._work_queues.transactions.run(lambda each: self._take(each, since))
        totals = await depths_of(self._work_queues.database, sorted({home for home, _ in died}))
        for (home_id, origin_id), ids in sorted(died.items(), key=str):
            home = await self._work_queues.queues.by_id(home_id)
            origin = home if origin_id is None else await self._work_queues.queues.by_id(origin_id)
            growth = Growth(
                tenant=home.tenant,
                scope=home.scope,
                queue=origin.slug,
                grown=len(ids),
                total=totals[home_id].dead,
                example=max(ids),
            )
            log.warning(
                "%d new dead letters of queue %s in scope %s (%d in all), such as %s",
                *(growth.grown, growth.queue, growth.scope, growth.total, growth.example),
                extra={"event": "dead_letters_grew", **msgspec.structs.asdict(growth)},
            )
            self.grew.emit(growth)
        return Batch(sum(map(len, died.values())), more=looked == _AT_ONCE)

    async def _take(self, transaction: SqlUnitOfWork, since: int) -> tuple[int, dict[_Place, list[str]]]:
        """Takes what died out of what is due: at how many it looked, and the dead letters since then by where they are and
        where they came from."""
        rows = await take_due(transaction, "dead", _AT_ONCE)
        ids = [row.id for row in rows if row.at > since]
        m = messages.c
        died: dict[_Place, list[str]] = defaultdict(list)
        for at in range(0, len(ids), _TOGETHER):
            query = select(m.id, m.queue_id, m.origin_queue_id).where(
                m.id.in_(ids[at : at + _TOGETHER]), m.standing == "dead"
            )
            for row in await transaction.connection.execute(query):
                died[row.queue_id, row.origin_queue_id].append(row.id)
        return len(rows), died
