"""What time does to deliveries of broadcast queues: claims that ran out come back, delayed ones become visible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from relevo.wire.ids import IdMint
from relevo.work.broadcast.deliveries import change_deliveries, lock_deliveries
from relevo.work.caller import Caller
from relevo.work.message.failure import CLAIM_TIMED_OUT
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import LOSE, PROMOTE, RECLAIM
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import LockedDelivery
from relevo.work.store.tables import deliveries
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.tenancy.queues import Queues

WORKER_LOST = "worker_lost"


async def reclaim_deliveries(
    transaction: SqlUnitOfWork, queues: Queues, mint: IdMint, limit: int, caller: Caller
) -> int:
    """Returns deliveries whose claim has run out, or buries those that lost their worker too often."""
    d = deliveries.c
    over = (d.claim_until <= transaction.now, d.state == "claimed")
    rows, of = await lock_deliveries(transaction, *over, by=(d.claim_until,), limit=limit)
    for queue, own in await _by_queue(queues, rows):
        lost = [Change(row, WORKER_LOST, CLAIM_TIMED_OUT) for row in own if row.reclaims >= queue.max_reclaims]
        back = [
            Change(row, CLAIM_TIMED_OUT.text, CLAIM_TIMED_OUT, told={"reclaims": row.reclaims + 1})
            for row in own
            if row.reclaims < queue.max_reclaims
        ]
        await change_deliveries(transaction, mint, RECLAIM, queue, back, of, caller)
        await change_deliveries(transaction, mint, LOSE, queue, lost, of, caller)
    return len(rows)


async def promote_deliveries(transaction: SqlUnitOfWork, queues: Queues, limit: int, caller: Caller) -> int:
    """Makes delayed deliveries visible whose time has come."""
    d = deliveries.c
    due = (d.visible_at <= transaction.now, d.state == "delayed")
    rows, _ = await lock_deliveries(transaction, *due, by=(d.visible_at,), limit=limit)
    for queue, own in await _by_queue(queues, rows):
        await apply(transaction, PROMOTE, queue, [Change(row) for row in own], caller)
    return len(rows)


async def _by_queue(queues: Queues, rows: Sequence[LockedDelivery]) -> list[tuple[QueueRecord, list[LockedDelivery]]]:
    grouped: dict[int, list[LockedDelivery]] = defaultdict(list)
    for row in sorted(rows):  # by message: close_messages locks in that order
        grouped[row.queue_id].append(row)
    return [(await queues.by_id(queue_id), own) for queue_id, own in sorted(grouped.items())]
