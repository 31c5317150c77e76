"""Once a day: walks the audit and verifies its hash chains; what was changed by hand is told in the log and in `_integrity`."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

import msgspec
from sqlalchemy import select

from relevo.agents.agent import Batch
from relevo.contract.messages import NewMessage
from relevo.work.audit.integrity import AuditWalk
from relevo.work.audit.verifier import Finding
from relevo.work.caller import Caller
from relevo.work.message.system_messages import post
from relevo.work.store.tables import audit, keys, queues
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.work_queues import WorkQueues

log = logging.getLogger("relevo.work.integrity")

_TOLD = 100
"""Findings of one walk that are told; `relevo audit verify` has them all."""


class AuditWatch:
    """Verifies a few pages at a time. A walk that its process does not survive begins anew elsewhere."""

    name = "audit_watch"
    every_s = 86_400.0
    about = "verifies the hash chains of the audit"

    def __init__(self, work_queues: WorkQueues, *, pages: int = 5) -> None:
        self._work_queues = work_queues
        self._pages = pages
        self._caller = Caller.system(self.name)
        self._walk: AuditWalk | None = None

    async def work(self) -> Batch:
        walk = self._walk or await self._work_queues.audit_integrity.walk()
        self._walk = None  # what fails in the middle begins anew
        for _ in range(self._pages):
            if not await walk.step():
                return await self._told((await walk.end()).findings)
        self._walk = walk
        return Batch(0, more=True)

    async def _told(self, found: Sequence[Finding]) -> Batch:
        if found:
            log.error(
                "the audit is not as it was written: %d findings; `relevo audit verify` names them all",
                len(found),
                extra={"event": "audit_broken", "findings": len(found)},
            )
            await self._work_queues.transactions.run(lambda each: self._tell(each, found[:_TOLD]))
        return Batch(len(found))

    async def _tell(self, transaction: SqlUnitOfWork, found: Sequence[Finding]) -> None:
        """Each finding once, in the scope of the row that shows it. Of rows of no scope only the log can tell."""
        ids = [finding.id for finding in found if finding.id is not None]
        homes = (
            select(audit.c.id, queues.c.id)
            .join(queues, queues.c.scope_id == audit.c.scope_id)
            .where(audit.c.id.in_(ids), queues.c.slug == "_integrity")
        )
        home_of = {row[0]: row[1] for row in await transaction.connection.execute(homes)}
        told: dict[int, dict[str, Finding]] = defaultdict(dict)
        for finding in found:
            if finding.id in home_of:
                told[home_of[finding.id]][f"audit:{finding.kind}:{finding.chain}:{finding.number}"] = finding
        for queue_id, own in told.items():
            mine = (keys.c.queue_id == queue_id, keys.c.idempotency_key.in_(own))
            known = select(keys.c.idempotency_key).where(*mine)
            before = set((await transaction.connection.execute(known)).scalars())
            new = [_message(key, each, self._caller.actor) for key, each in own.items() if key not in before]
            await post(
                transaction, self._work_queues.mint, self._caller, await self._work_queues.queues.by_id(queue_id), new
            )


def _message(key: str, finding: Finding, actor: str) -> NewMessage:
    return NewMessage(
        body=msgspec.Raw(msgspec.json.encode(finding)),
        message_type=f"found.audit_{finding.kind}",
        source_type="agent",
        source_id=actor,
        idempotency_key=key,
    )
