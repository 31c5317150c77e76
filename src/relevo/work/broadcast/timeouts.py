"""What time does to deliveries of broadcast queues: claims that ran out come back, delayed ones become visible."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import RowMapping, select, update

from relevo.wire.ids import IdMint
from relevo.work.broadcast.deliveries import Held, bury, close_messages, event_of, subscription_names
from relevo.work.caller import Caller
from relevo.work.message.failure import CLAIM_TIMED_OUT
from relevo.work.store.tables import deliveries, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.tenancy.queues import Queues

WORKER_LOST = "worker_lost"


async def reclaim_deliveries(
    transaction: SqlUnitOfWork, queues: Queues, mint: IdMint, limit: int, caller: Caller
) -> int:
    """Returns deliveries whose claim has run out, or buries those that lost their worker too often."""
    d, now = deliveries.c, transaction.now
    query = (
        select(*(d.subscription_id, d.message_id, d.state, d.claim_token, d.claimed_at, d.attempts, d.reclaims))
        .where(d.claim_until <= now, d.state == "claimed")
        .order_by(d.claim_until)
        .limit(limit)
    )
    rows = (await transaction.connection.execute(transaction.held(query))).mappings().all()
    if not rows:
        return 0
    names = await subscription_names(transaction, {row["subscription_id"] for row in rows})
    wanted = select(messages).where(messages.c.id.in_({row["message_id"] for row in rows}))
    of = {row["id"]: row for row in (await transaction.connection.execute(wanted)).mappings()}
    ended: dict[int, list[str]] = defaultdict(list)
    for row in sorted(rows, key=_by_message):
        held = Held(subscription=names.get(row["subscription_id"], ""), **row)
        message = of[held.message_id]
        queue = await queues.by_id(message["queue_id"])
        reclaims = held.reclaims + 1
        if reclaims <= queue.max_reclaims:
            await held.let_go(
                transaction, "pending", reclaims=reclaims, claim_token=None, failure_reason=CLAIM_TIMED_OUT.text
            )
            transaction.wakes[queue.id] = transaction.wakes.get(queue.id, 0) + 1
            transaction.counters.add(queue.id, "reclaimed", 1)
            transaction.events.append(
                event_of(
                    "reclaimed",
                    queue,
                    message,
                    now,
                    subscription=held.subscription,
                    attempt=held.attempts,
                    **CLAIM_TIMED_OUT.extras(CLAIM_TIMED_OUT.text),
                )
            )
        else:
            await held.let_go(transaction, "dead", reclaims=reclaims, failure_reason=WORKER_LOST)
            await bury(transaction, mint, queue, held, message, WORKER_LOST, CLAIM_TIMED_OUT, caller)
            ended[queue.id].append(held.message_id)
    for queue_id, ids in sorted(ended.items()):
        await close_messages(transaction, await queues.by_id(queue_id), ids, caller)
    return len(rows)


async def promote_deliveries(transaction: SqlUnitOfWork, limit: int) -> int:
    """Makes delayed deliveries visible whose time has come."""
    d, connection = deliveries.c, transaction.connection
    query = (
        select(d.subscription_id, d.message_id)
        .where(d.visible_at <= transaction.now, d.state == "delayed")
        .order_by(d.visible_at)
        .limit(limit)
    )
    due: dict[int, list[str]] = defaultdict(list)
    for row in (await connection.execute(transaction.held(query))).all():
        due[row.subscription_id].append(row.message_id)
    for number, ids in sorted(due.items()):
        these = (d.subscription_id == number, d.message_id.in_(ids))
        await connection.execute(
            update(deliveries).where(*these).values(state="pending", visible_at=None, updated_at=transaction.now)
        )
        home = select(messages.c.queue_id).where(messages.c.id == ids[0])
        queue_id = (await connection.execute(home)).scalar_one_or_none()
        if queue_id is not None:
            transaction.wakes[queue_id] = transaction.wakes.get(queue_id, 0) + len(ids)
    return sum(len(ids) for ids in due.values())


def _by_message(row: RowMapping) -> Any:
    return row["message_id"], row["subscription_id"]
