"""What the auditor finds and repairs, as messages of the scope's `_integrity` and `_corrections`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import select

from relevo.contract.messages import NewMessage
from relevo.work.caller import Caller
from relevo.work.message.system_messages import post
from relevo.work.queue_record import QueueRecord
from relevo.work.store.tables import queues
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.work.integrity")

_NAMED = 100
"""How many ids a finding names; the count says how many there are."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was not as it should be, and what was done about it."""

    kind: str
    """`index_missing`, `index_misplaced`, `depth_drift`, `stuck_claim` or `lost_claim`."""
    queue: str
    count: int
    message_ids: list[str]
    before: dict[str, Any]
    after: dict[str, Any]
    """Empty when nothing was repaired."""
    at: int


def finding(
    kind: str, queue: QueueRecord, ids: Sequence[str], *, at: int, before: dict[str, Any], after: dict[str, Any]
) -> Finding:
    return Finding(
        kind=kind, queue=queue.slug, count=len(ids), message_ids=list(ids[:_NAMED]), before=before, after=after, at=at
    )


async def report(
    transaction: SqlUnitOfWork, work_queues: WorkQueues, caller: Caller, queue: QueueRecord, found: Sequence[Finding]
) -> None:
    """Puts findings into `_integrity`, and those that were repaired into `_corrections` too."""
    if not found:
        return
    for each in found:
        log.warning(
            "queue %s of scope %s: %s (%d messages)",
            queue.slug,
            queue.scope,
            each.kind,
            each.count,
            extra={"event": "integrity_finding", "tenant": queue.tenant, "scope": queue.scope, "kind": each.kind},
        )
    repaired = [each for each in found if each.after]
    for slug, own, verb in (("_integrity", list(found), "found"), ("_corrections", repaired, "corrected")):
        if own:
            home = await _system_queue(transaction, work_queues, queue.scope_id, slug)
            new = [
                NewMessage(
                    body=msgspec.Raw(msgspec.json.encode(each)),
                    message_type=f"{verb}.{each.kind}",
                    source_type="agent",
                    source_id=caller.actor,
                )
                for each in own
            ]
            await post(transaction, work_queues.mint, caller, home, new)


async def _system_queue(transaction: SqlUnitOfWork, work_queues: WorkQueues, scope_id: int, slug: str) -> QueueRecord:
    wanted = select(queues.c.id).where(queues.c.scope_id == scope_id, queues.c.slug == slug)
    return await work_queues.queues.by_id((await transaction.connection.execute(wanted)).scalar_one())
