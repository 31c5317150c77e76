"""Every minute: do the rows and what was derived from them agree? What does not is repaired, and told.

- **ReadyIndex index**: each pending row has to be in its queue's index, in its place. The head of every queue is looked at,
  the whole queue when the index and the count differ in size. A missing member delays a message (SQL finds it when the index is
  empty) and never loses it. A member too many is dropped by the claim that takes it.
- **Depths**: the tallies have to be the sums of the rows; looked at every ten minutes, because it counts rows.
- **Claims**: none may have run out minutes ago. That would mean that the enforcer does not run. And each is held by a lease:
  what no lease holds goes back.

Findings go to the scope's `_integrity`, repairs also to `_corrections`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.agents.agent import Batch
from relevo.agents.findings import Finding, finding, report
from relevo.work.caller import Caller
from relevo.work.message.failure import CLAIM_TIMED_OUT
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.standing import leases_holding
from relevo.work.message.transition import RECLAIM
from relevo.work.queue_record import QueueRecord
from relevo.work.routing.stream_outcomes import OPEN
from relevo.work.store.counters import COUNTED_STATES, depths_of
from relevo.work.store.lease import Lease
from relevo.work.store.tables import due, in_state, leases, live, messages, queues, ready, reviews, stream_jobs, tallies
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready
from relevo.work.tenancy.queues import DEAD_LETTER
from relevo.work.work_queues import WorkQueues

_SETTLED_MS = 5_000
"""Rows younger than this may still be on their way into the index."""
_LOOK_AGAIN_S = 1.0
_STUCK_MS = 60_000
_AT_ONCE = 500
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
            still = await self._still_pending(queue, odd)
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
        m, r = messages.c, ready.c
        query = (
            select(r.id, r.sort_key)
            .join_from(ready, messages, m.id == r.id)
            .where(
                *(r.queue_id == queue.id, m.updated_at <= now - _SETTLED_MS),
                or_(r.sort_key > place[0], and_(r.sort_key == place[0], r.id > place[1])),
            )
            .order_by(r.sort_key, r.id)
            .limit(self._page)
        )
        async with self._work_queues.database.connect() as connection:
            return (await connection.execute(query)).all()

    async def _still_pending(self, queue: QueueRecord, rows: Sequence[Any]) -> Sequence[Any]:
        m, r = messages.c, ready.c
        place = and_(r.queue_id == queue.id, r.sort_key == m.sort_key, r.id == m.id)
        query = select(r.id, r.sort_key).join_from(messages, ready, place).where(m.id.in_([row.id for row in rows]))
        async with self._work_queues.database.connect() as connection:
            return (await connection.execute(query)).all()

    # --- depths and claims -----------------------------------------------------------------------------------------------

    async def _depths(self, queue: QueueRecord) -> list[Finding]:
        now = self._work_queues.now_ms()
        if now - self._counted_at.get(queue.id, 0) < _COUNT_EVERY_MS:
            return []
        self._counted_at[queue.id] = now
        drift = await self._drift(queue)
        found: list[Finding] = []
        if drift["claimed"] < 0 and (lost := await self._lost(queue)):
            drift["claimed"] += len(lost)
            returned = await self._work_queues.transactions.run(lambda each: self._return(each, queue, lost))
            found += [finding("lost_claim", queue, returned, at=now, before={}, after={"returned": len(returned)})]
        if not any(drift.values()):
            return found

        async def correct(transaction: SqlUnitOfWork) -> None:
            for state, by in drift.items():
                transaction.counters.add(queue.id, state, by)

        # What others add meanwhile does not matter: the drift was measured in one snapshot, and stays what it is.
        await self._work_queues.transactions.run(correct)
        changed = {state: by for state, by in drift.items() if by}
        return [*found, finding("depth_drift", queue, [], at=now, before=changed, after={"corrected": True})]

    async def _return(self, transaction: SqlUnitOfWork, queue: QueueRecord, ids: Sequence[str]) -> list[str]:
        """Has messages that no lease holds be claimed again: to wait for the end of their time would be to wait for ever."""
        rows = [row for row in await transaction.lock_messages(messages.c.id.in_(ids)) if row.state == "claimed"]
        held = await leases_holding(transaction.connection, {row.id: row.claim_no for row in rows})
        lost = [row for row in rows if row.id not in held]
        back = [Change(row, CLAIM_TIMED_OUT.text, CLAIM_TIMED_OUT, told={"reclaims": row.reclaims + 1}) for row in lost]
        await apply(transaction, RECLAIM, queue, back, self._caller)
        return [row.id for row in lost]

    async def _drift(self, queue: QueueRecord) -> dict[str, int]:
        """Rows less tallies, for each state, all seen at the same moment. What no lease holds is claimed by nobody."""
        async with self._work_queues.database.snapshot() as connection:
            counted = await self._counted(connection, queue)
            sums = [func.coalesce(func.sum(tallies.c[state]), 0).label(state) for state in COUNTED_STATES]
            tallied = select(*sums).where(tallies.c.queue_id == queue.id)
            row = (await connection.execute(tallied)).mappings().one()
        return {state: counted[state] - int(row[state]) for state in COUNTED_STATES}

    async def _lost(self, queue: QueueRecord) -> list[str]:
        """The messages that nobody can claim and no lease holds. Looks at all of the queue: only when fewer are held than were
        claimed."""
        mine = (live.c.scope_id == queue.scope_id, live.c.queue_id == queue.id, live.c.claimed_by.is_(None))
        claimed = select(live.c.id).where(*mine, in_state("claimed")).order_by(live.c.id)
        async with self._work_queues.database.snapshot() as connection:
            held = set(await self._held(connection, leases.c.queue_id == queue.id))
            return [each for each in (await connection.execute(claimed)).scalars() if each not in held]

    async def _counted(self, connection: AsyncConnection, queue: QueueRecord) -> dict[str, int]:
        """Each state by what leads to it, since most messages are in none of these."""
        m = messages.c
        mine = select(func.count()).select_from(messages).where(m.queue_id == queue.id)
        asked = select(reviews.c.message_id).where(
            reviews.c.scope_id == queue.scope_id, reviews.c.state.in_(("waiting", "held"))
        )
        queries = {
            "pending": select(func.count()).select_from(ready).where(ready.c.queue_id == queue.id),
            "delayed": mine.where(m.id.in_(select(due.c.id).where(due.c.kind == "visible")), m.visible_at.is_not(None)),
            "in_review": mine.where(m.id.in_(asked), m.standing == "in_review"),
        }
        if queue.slug == DEAD_LETTER:  # the dead are nowhere else
            queries["dead"] = mine.where(m.standing == "dead")
        counted = {"dead": 0} | {
            state: int((await connection.execute(query)).scalar_one()) for state, query in queries.items()
        }
        jobs = select(stream_jobs.c.message_id).where(stream_jobs.c.state.in_(OPEN))
        sent = select(func.count()).select_from(live).where(live.c.id.in_(jobs), live.c.queue_id == queue.id)
        held = await self._held(connection, leases.c.queue_id == queue.id)
        return counted | {
            "claimed": len(held) + int((await connection.execute(sent.where(in_state("claimed")))).scalar_one())
        }

    async def _held(self, connection: AsyncConnection, *conditions: ColumnElement[bool]) -> list[str]:
        """The messages that these leases still hold."""
        found = await connection.execute(select(leases).where(*conditions).order_by(leases.c.look_at))
        claims = {message_id: number for row in found for message_id, number in Lease.of_row(row).claims.items()}
        held: list[str] = []
        ids = sorted(claims)
        for at in range(0, len(ids), _AT_ONCE):
            query = select(live.c.id, live.c.claim_no).where(
                live.c.id.in_(ids[at : at + _AT_ONCE]), in_state("claimed")
            )
            held += [row.id for row in await connection.execute(query) if claims[row.id] == row.claim_no]
        return held

    async def _claims(self, queue: QueueRecord) -> list[Finding]:
        now = self._work_queues.now_ms()
        late = leases.c.look_at <= now - _STUCK_MS
        async with self._work_queues.database.connect() as connection:
            ids = (await self._held(connection, leases.c.queue_id == queue.id, late))[: self._page]
        if not ids:
            return []
        return [finding("stuck_claim", queue, ids, at=now, before={"overdue_ms_at_least": _STUCK_MS}, after={})]
