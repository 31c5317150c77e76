"""Idempotency keys: a message whose key its queue knows already is answered with the first one, or refused if it says something
else.

The keys of a transaction are remembered before its messages are written, so that of two publishers with one key one waits for
the other. A message that is not taken in forgets its key.
"""

from __future__ import annotations

from collections.abc import Sequence

from relevo.contract.messages import Published, Refusal
from relevo.errors import IdempotencyConflict
from relevo.work.message.capacity import queue_full
from relevo.work.message.rows import NewRow
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import KnownKey
from relevo.work.store.unit_of_work import UnitOfWork


async def remember_keys(
    transaction: UnitOfWork, calls: Sequence[tuple[int, Sequence[NewRow | Refusal]]]
) -> dict[tuple[int, str], KnownKey]:
    """Remembers the keys of this transaction, of calls as (queue, rows). Returns what those stand for that were known before,
    or are used twice in it."""
    mine: dict[tuple[int, str], NewRow] = {}
    keyed = 0
    for queue_id, rows in calls:
        for row in rows:
            if isinstance(row, NewRow) and (key := row.message.idempotency_key) is not None:
                keyed += 1
                mine.setdefault((queue_id, key), row)
    if not mine:
        return {}
    # In the order of the keys, so that two transactions never wait for each other.
    found = await transaction.session.remember_keys([(*place, mine[place].id) for place in sorted(mine)])
    if len(mine) == keyed and not found:  # as almost always
        return {}
    known = {
        place: KnownKey(*place, row.id, bytes(row.message.body).decode(), None, "pending")
        for place, row in mine.items()
    }
    return known | {(each.queue_id, each.idempotency_key): each for each in found}


def without_known(
    queue: QueueRecord, given: Sequence[NewRow | Refusal], known: dict[tuple[int, str], KnownKey], turned_away: set[str]
) -> tuple[list[NewRow], dict[str, Published | Refusal]]:
    """The rows that are new, and the outcomes of those whose key was used before."""
    if not known:
        return [row for row in given if isinstance(row, NewRow)], {}
    wanted: list[NewRow] = []
    outcomes: dict[str, Published | Refusal] = {}
    for row in given:
        if not isinstance(row, NewRow):
            continue
        key = known.get((queue.id, row.message.idempotency_key)) if row.message.idempotency_key else None
        if key is None or key.message_id == row.id:
            wanted.append(row)
        elif key.message_id in turned_away:  # the first with this key, in this very transaction, found no room
            outcomes[row.id] = queue_full(queue)
        elif key.says(bytes(row.message.body)):
            outcomes[row.id] = Published(key.message_id, key.state or "archived", duplicate=True)  # pyright: ignore[reportArgumentType]
        else:
            conflict = IdempotencyConflict(key=row.message.idempotency_key, message_id=key.message_id)
            outcomes[row.id] = Refusal(conflict.code, str(conflict))
    return wanted, outcomes


async def forget_keys(transaction: UnitOfWork, queue: QueueRecord, rows: Sequence[NewRow]) -> None:
    """A message that was not taken in must not hold its key."""
    keys = [(queue.id, key) for row in rows if (key := row.message.idempotency_key) is not None]
    if keys:
        await transaction.session.forget_keys(keys)
