"""How messages end that were not completed: cancelled, or dead and moved to their scope's `_dead_letter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relevo.work.caller import Caller
from relevo.work.message.failure import Failure
from relevo.work.message.history import history_line
from relevo.work.store.interface import LockedMessage, MessageUpdate
from relevo.work.store.unit_of_work import UnitOfWork


async def cancel_rows(transaction: UnitOfWork, caller: Caller, rows: Sequence[LockedMessage], reason: str) -> None:
    """Cancels rows that are held and that nobody has claimed."""
    changed = [
        updated(
            row,
            transaction,
            "cancelled",
            caller.actor,
            reason,
            state="cancelled",
            visible_at=None,
            failure_reason=reason,
            finished_at=transaction.now,
        )
        for row in rows
    ]
    await transaction.session.update_messages(changed)
    for row in rows:
        transaction.counters.moved(row.queue_id, row.state, None)
        transaction.counters.add(row.queue_id, "cancelled", 1)
        transaction.event("cancelled", row, reason=reason)


async def bury_rows(
    transaction: UnitOfWork,
    caller: Caller,
    rows: Sequence[LockedMessage],
    dead_letter_id: int,
    reason: str,
    failure: Failure | None = None,
    **changes: Any,
) -> None:
    """Moves held rows to `_dead_letter`; they keep where they came from. `changes` are further columns of `MessageUpdate`."""
    failure = failure or Failure(message=reason)
    changed = [
        updated(
            row,
            transaction,
            "dead_lettered",
            caller.actor,
            reason,
            **(
                _BURIED
                | {
                    "queue_id": dead_letter_id,
                    "origin_queue_id": row.queue_id,
                    "failure_reason": reason,
                    "error": failure.encoded(),
                    "finished_at": transaction.now,
                }
                | changes
            ),
        )
        for row in rows
    ]
    await transaction.session.update_messages(changed)
    for row in rows:
        transaction.counters.moved(row.queue_id, row.state, None)
        transaction.counters.add(row.queue_id, "dead_lettered", 1)
        transaction.counters.moved(dead_letter_id, None, "dead")
        transaction.event("dead_lettered", row, attempt=row.attempts, **failure.extras(reason))


_BURIED: dict[str, Any] = {"state": "dead", "visible_at": None, "claim_until": None}


def updated(
    row: LockedMessage, transaction: UnitOfWork, event: str, actor: str, detail: str | None = None, **changes: Any
) -> MessageUpdate:
    """A held row with some values changed, and the change in its history; for `session.rewrite`."""
    kept = {name: getattr(row, name) for name in _KEPT}
    line = history_line(transaction.now, event, actor, detail)
    return MessageUpdate(**(kept | changes), updated_at=transaction.now, trail=line)


_KEPT = tuple(name for name in MessageUpdate._fields if name not in ("updated_at", "trail", "error"))
