"""What happens at a queue's max_depth: publishers are refused, or the oldest message makes room."""

from __future__ import annotations

from relevo.contract.messages import Refusal
from relevo.errors import WorkQueueFull
from relevo.work.caller import Caller
from relevo.work.message.lifecycle import Change, apply
from relevo.work.message.transition import BURY, CANCEL
from relevo.work.queue_record import QueueRecord
from relevo.work.store.unit_of_work import UnitOfWork

REASON = "overflow"


async def make_room(transaction: UnitOfWork, caller: Caller, queue: QueueRecord, count: int) -> int:
    """Makes room for `count` messages as the queue's policy says; returns for how many there is none.

    Counts what waits (pending and delayed), what this transaction has added included. The queue's row must be held: then
    nobody else adds to it, and the limit is exact. What workers give back (retries, releases) is never refused.
    """
    assert queue.max_depth is not None
    session = transaction.session
    waiting = await session.waiting(queue.id) + transaction.counters.waiting(queue.id)
    over = waiting + count - queue.max_depth
    if over <= 0:
        return 0
    never = max(0, count - queue.max_depth)  # more than an empty queue would hold
    if queue.overflow_policy == "reject":
        return min(over, count)
    oldest = await session.oldest_waiting(queue.id, over - never)
    transition = CANCEL if queue.overflow_policy == "drop_oldest" else BURY
    await apply(transaction, transition, queue, [Change(row, REASON) for row in oldest], caller)
    return min(count, over - len(oldest))


def queue_full(queue: QueueRecord) -> Refusal:
    error = WorkQueueFull(queue=queue.slug, depth=queue.max_depth, max_depth=queue.max_depth)
    return Refusal(error.code, str(error))
