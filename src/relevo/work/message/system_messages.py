"""Publisher that the installation itself puts into a scope's system queues, inside a transaction it has open anyway."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert

from relevo.contract.messages import NewMessage
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.message.rows import COLUMNS, NewRow, is_found_by_more, take_in
from relevo.work.message.transition import PUBLISH
from relevo.work.queue_record import QueueRecord
from relevo.work.store.tables import keys, messages
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.store.unit_of_work import Ready

_MOST_BYTES = 16 * 1024 * 1024


async def post(
    transaction: SqlUnitOfWork, mint: IdMint, caller: Caller, queue: QueueRecord, new: Sequence[NewMessage]
) -> int:
    """Publishes to a system queue. No events and no audit go with it: these messages are events and findings themselves.
    One with an idempotency key that is known already fails the transaction: who passes keys has looked."""
    made = take_in(caller, queue, new, mint=mint, now=transaction.now, max_body_bytes=_MOST_BYTES)
    rows = [row for row in made if isinstance(row, NewRow)]
    if rows:
        await transaction.connection.execute(
            insert(messages), [dict(zip(COLUMNS, row.values, strict=True)) for row in rows]
        )
        keyed = [row for row in rows if row.message.idempotency_key is not None]
        if keyed:
            await transaction.connection.execute(insert(keys), [_remembered(queue, row) for row in keyed])
        PUBLISH.add_to(transaction.counters, queue.id, None, len(rows))
        transaction.due += [(kind, at, row.id) for row in rows for kind, at in row.due]
        transaction.unsearched += [row.id for row in rows if is_found_by_more(row)]
        transaction.ready += [Ready(queue.id, row.sort_key, row.id) for row in rows]
    return len(rows)


def _remembered(queue: QueueRecord, row: NewRow) -> dict[str, object]:
    return {"queue_id": queue.id, "idempotency_key": row.message.idempotency_key, "message_id": row.id}
