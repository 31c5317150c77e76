"""What becomes of messages that nobody took in time: they expire, or are dead letters when their queue says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from relevo.work.caller import Caller
from relevo.work.message.failure import Failure
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import BURY_EXPIRED, EXPIRE
from relevo.work.queue_record import QueueRecord
from relevo.work.store.interface import LockedMessage
from relevo.work.store.unit_of_work import UnitOfWork

Limit = Literal["ttl", "deadline"]

EXPIRY = Caller.system("expiry_enforcer")
"""Who does it: the agent, and every claim that comes across one."""

_EXPIRED = {
    "ttl": Failure(type="Expired", message="nobody claimed it before its ttl was over"),
    "deadline": Failure(type="Expired", message="nobody claimed it before its deadline"),
}


async def expire(
    unit: UnitOfWork, queue: QueueRecord, rows: Sequence[LockedMessage], limit: Limit, caller: Caller
) -> None:
    """Ends messages of one queue, pending or delayed, whose rows are held."""
    buried = queue.dead_letter_expired and not queue.system
    columns = {"open_deliveries": None} if buried and queue.consumer_mode == "broadcast" else {}
    why = (f"expired: {limit}", _EXPIRED[limit], limit, {"reason": limit})
    changes = [Change(row, *why, columns) for row in rows]
    await apply(unit, BURY_EXPIRED if buried else EXPIRE, queue, changes, caller, reason=limit)
