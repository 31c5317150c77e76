"""Every minute: do the rows and what was derived from them agree? What does not is repaired, and told.

- **ReadyIndex index**: each pending row has to be in its queue's index, in its place. The head of every queue is looked at,
  the whole queue when the index and the count differ in size. A missing member delays a message (SQL finds it when the index is
  empty) and never loses it. A member too many is dropped by the claim that takes it.
- **Depths**: the tallies have to be the sums of the rows; looked at every ten minutes, because it counts rows.
- **Claims**: none may have run out minutes ago. That would mean that the enforcer does not run.

Findings go to the scope's `_integrity`, repairs also to `_corrections`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, func, or_, select

from relevo.agents.agent import Batch
from relevo.agents.findings import Finding, finding, report
from relevo.work.caller import Caller
from relevo.work.queue_record import QueueRecord
from relevo.work.store.counters import COUNTED_STATES, depths_of
from relevo.work.store.tables import CLAIMED, STANDING, messages, queues, tallies
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready
from relevo.work.work_queues import WorkQueues

_SETTLED_MS = 5_000
"""Rows younger than this may still be on their way into the index."""
_LOOK_AGAIN_S = 1.0
_STUCK_MS = 60_000
_COUNT_EVERY_MS = 600_000
_FRONT = (-(2**62), "")

Place = tuple[int, str]


class IndexAuditor:
    """Goes through the queues one after another; a large one page by page."""

    name = "index_auditor"
    every_s = 60.0
    about = "compares rows with the order index and the depths, and repairs"

    def __init__(self, work_queues: WorkQueues, *, page: int = 1_000) -> None:
        self._work_queues = work_queues
        self._page = page
        self._caller = Caller.system(self.name)
        self._walk: list[tuple[int, Place]] = []
        self._counted_at: dict[int, int] = {}

    async def work(self) -> Batch:
        if not self._walk:
            query = select(queues.c.id).where(queues.c.state != "archived").order_by(queues.c.id)
            async with self._work_queues.database.connect() as connection:
                self._walk = [(queue_id, _FRONT) for queue_id in (await connection.execute(query)).scalars()]
            if not self._walk:
                return Batch(0)
        queue_id, place = self._walk.pop(0)
        try:
            queue = await self._work_queues.queues.by_id(queue_id)
            found: list[Finding] = []
            if place == _FRONT:
                found += await self._depths(queue)
                found += await self._claims(queue)
            missing, reached = await self._order(queue, place)
            found += missing
            if found:
                await self._work_queues.transactions.run(
                    lambda each: report(each, self._work_queues, self._caller, queue, found)
                )
        except Exception:
            self._walk.clear()
            raise
        if reached is not None:
            self._walk.insert(0, (queue_id, reached))
        return Batch(sum(each.count for each in found), more=bool(self._walk))

    # --- the order index -----------------------------------------------------------------------------------------------------

    async def _order(self, queue: QueueRecord, place: Place) -> tuple[list[Finding], Place | None]:
        """Compares one page of pending rows behind `place` with the index. Returns where to go on; None to stop here."""
        order = self._work_queues.ready_index
        if queue.consumer_mode != "competing":
            return [], None
        size = await order.size(queue.id)
        if size is None:
            return [], None  # no index: claims go by SQL and have it rebuilt
        now = self._work_queues.now_ms()
        rows = await self._pending(queue, place, now)
        placed = await order.places(queue.id, [row.id for row in rows])
        if placed is None or not rows:
            return [], None
        odd = [row for row, score in zip(rows, placed, strict=True) if score != row.sort_key]
        found: list[Finding] = []
        if odd:
            # Once more: what is being claimed, or was changed between the two looks, is not odd.
            await asyncio.sleep(_LOOK_AGAIN_S)
            still = await self._still_pending(odd)
            again = await order.places(queue.id, [row.id for row in still]) or [None] * len(still)
            odd = [(row, score) for row, score in zip(still, again, strict=True) if score != row.sort_key]
            for kind, own in (
                ("index_missing", [row for row, score in odd if score is None]),
                ("index_misplaced", [row for row, score in odd if score is not None]),
            ):
                if own:
                    await order.add([Ready(queue.id, row.sort_key, row.id) for row in own])
                    ids = [row.id for row in own]
                    found.append(finding(kind, queue, ids, at=now, before={"size": size}, after={"added": len(ids)}))
        whole = place != _FRONT or size != (await depths_of(self._work_queues.database, [queue.id]))[queue.id].pending
        end = (rows[-1].sort_key, rows[-1].id) if len(rows) == self._page else None
        return found, end if whole or found else None

    async def _pending(self, queue: QueueRecord, place: Place, now: int) -> Sequence[Any]:
        m = messages.c
        query = (
            select(m.id, m.sort_key)
            .where(
                *(m.queue_id == queue.id, STANDING, m.state == "pending", m.updated_at <= now - _SETTLED_MS),
                or_(m.sort_key > place[0], and_(m.sort_key == place[0], m.id > place[1])),
            )
            .order_by(m.sort_key, m.id)
            .limit(self._page)
        )
        async with self._work_queues.database.connect() as connection:
            return (await connection.execute(query)).all()

    async def _still_pending(self, rows: Sequence[Any]) -> Sequence[Any]:
        m = messages.c
        query = select(m.id, m.sort_key).where(m.id.in_([row.id for row in rows]), m.state == "pending")
        async with self._work_queues.database.connect() as connection:
            return (await connection.execute(query)).all()

    # --- depths and claims -----------------------------------------------------------------------------------------------

    async def _depths(self, queue: QueueRecord) -> list[Finding]:
        now = self._work_queues.now_ms()
        if now - self._counted_at.get(queue.id, 0) < _COUNT_EVERY_MS:
            return []
        self._counted_at[queue.id] = now
        drift = await self._drift(queue)
        if not any(drift.values()):
            return []

        async def correct(transaction: SqlUnitOfWork) -> None:
            for state, by in drift.items():
                transaction.counters.add(queue.id, state, by)

        # What others add meanwhile does not matter: the drift was measured in one snapshot, and stays what it is.
        await self._work_queues.transactions.run(correct)
        changed = {state: by for state, by in drift.items() if by}
        return [finding("depth_drift", queue, [], at=now, before=changed, after={"corrected": True})]

    async def _drift(self, queue: QueueRecord) -> dict[str, int]:
        """Rows less tallies, for each state. One statement, so that both are seen at the same moment."""
        m, t = messages.c, tallies.c
        sides: list[Any] = []
        for state in COUNTED_STATES:
            rows = (
                select(func.count())
                .select_from(messages)
                .where(m.queue_id == queue.id, *((CLAIMED,) if state == "claimed" else (STANDING, m.state == state)))
            )
            sums = select(func.coalesce(func.sum(t[state]), 0)).where(t.queue_id == queue.id)
            sides.append((rows.scalar_subquery() - sums.scalar_subquery()).label(state))
        async with self._work_queues.database.connect() as connection:
            row = (await connection.execute(select(*sides))).mappings().one()
        return {state: int(row[state]) for state in COUNTED_STATES}

    async def _claims(self, queue: QueueRecord) -> list[Finding]:
        m, now = messages.c, self._work_queues.now_ms()
        late = or_(m.claim_until.is_(None), m.claim_until <= now - _STUCK_MS)
        query = select(m.id).where(m.queue_id == queue.id, CLAIMED, late).order_by(m.id).limit(self._page)
        async with self._work_queues.database.connect() as connection:
            ids = list((await connection.execute(query)).scalars())
        if not ids:
            return []
        return [finding("stuck_claim", queue, ids, at=now, before={"overdue_ms_at_least": _STUCK_MS}, after={})]
