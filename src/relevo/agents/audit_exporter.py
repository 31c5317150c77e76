"""Every five seconds: audit entries become messages of the scope's `_audit`, where the scope asks for it, each exactly once.

A scope is exported from the entry that turned `audit_to_queue` on to the one that turned it off. Entries are numbered when
they are written and seen when they are committed, so a smaller number may appear after a larger one. The cursor of a scope
therefore stays behind by longer than a transaction lasts (see store/patience.py); what lies behind it is looked at again, and
the idempotency key of each message, written with it, tells what is there already.

The audit table stays the record: here it is only read. What is done to messages of `_audit` is audited too, and not exported:
working on the export would fill it for ever.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from sqlalchemy import func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from relevo.agents.agent import Batch
from relevo.contract.audit import AuditEntry
from relevo.contract.messages import NewMessage
from relevo.work.audit.entries import entry_of
from relevo.work.caller import Caller
from relevo.work.message.system_messages import post
from relevo.work.store.tables import audit, keys, messages, queues, scopes, settings
from relevo.work.store.transactions import SqlUnitOfWork
from relevo.work.tenancy.queues import AUDIT
from relevo.work.work_queues import WorkQueues

_NAME = "audit_export"
"""In the settings: JSON, the cursor of each scope that is exported."""

MARGIN_MS = 180_000
"""How far a cursor stays behind: longer than any transaction lasts."""


class _Asked(msgspec.Struct, frozen=True):
    """A scope that is exported, or was until its entry `switch_id`."""

    scope_id: int
    tenant_id: int
    home_id: int
    on: bool
    switch_id: int


class AuditExporter:
    """Copies up to `batch` entries of each scope at a time."""

    name = "audit_exporter"
    every_s = 5.0
    about = "copies audit entries to `_audit` where the scope asks for it"

    def __init__(self, work_queues: WorkQueues, *, batch: int = 500) -> None:
        self._work_queues = work_queues
        self._batch = batch
        self._caller = Caller.system(self.name)
        self._reached: dict[int, int] = {}
        """Within one run: the last entry looked at, by scope."""

    async def work(self) -> Batch:
        wanted = select(func.count()).select_from(scopes).where(scopes.c.audit_to_queue == 1)
        known = select(settings.c.value).where(settings.c.name == _NAME)
        async with self._work_queues.database.connect() as connection:
            asked = (await connection.execute(wanted)).scalar_one()
            cursors = (await connection.execute(known)).scalar_one_or_none()
        if not asked and cursors in (None, "{}"):
            return Batch(0)
        if cursors is None:
            with contextlib.suppress(IntegrityError):  # another process was faster
                async with self._work_queues.database.begin() as connection:
                    await connection.execute(insert(settings).values(name=_NAME, value="{}"))
        reached = dict(self._reached)
        self._reached = {}  # a run that fails begins at the cursors again
        copied, full = await self._work_queues.transactions.run(lambda each: self._export(each, reached))
        self._reached = full
        return Batch(copied, more=bool(full))

    async def _export(self, transaction: SqlUnitOfWork, reached: dict[int, int]) -> tuple[int, dict[int, int]]:
        """How many were copied, and where to go on in scopes that have more."""
        connection = transaction.connection
        kept = select(settings.c.value).where(settings.c.name == _NAME)
        text: str = (await connection.execute(transaction.held(kept, wait=True))).scalar_one()
        cursors = msgspec.json.decode(text, type=dict[str, int])
        after, full, copied = dict[str, int](), dict[int, int](), 0
        for asked in await self._asked(transaction, cursors):
            cursor = cursors.get(str(asked.scope_id), asked.switch_id - 1)
            start = max(cursor, reached.get(asked.scope_id, 0))
            rows = await self._entries(transaction, asked, start)
            copied += await self._copy(transaction, asked, rows)
            if len(rows) == self._batch:
                full[asked.scope_id] = rows[-1].id
            old = [row.id for row in rows if row.at <= transaction.now - MARGIN_MS]
            cursor = max([cursor, *old])
            if asked.on or cursor < asked.switch_id:
                after[str(asked.scope_id)] = cursor
        if after != cursors:
            value = msgspec.json.encode(after).decode()
            await connection.execute(update(settings).where(settings.c.name == _NAME).values(value=value))
        return copied, full

    async def _asked(self, transaction: SqlUnitOfWork, cursors: dict[str, int]) -> list[_Asked]:
        query = (
            select(scopes.c.id, scopes.c.tenant_id, scopes.c.slug, scopes.c.audit_to_queue, queues.c.id.label("home"))
            .join_from(scopes, queues, queues.c.scope_id == scopes.c.id)
            .where(queues.c.slug == AUDIT, or_(scopes.c.audit_to_queue == 1, scopes.c.id.in_(map(int, cursors))))
            .order_by(scopes.c.id)
        )
        found: list[_Asked] = []
        for row in (await transaction.connection.execute(query)).all():
            on = "true" if row.audit_to_queue else "false"
            switches = select(func.max(audit.c.id)).where(
                *(audit.c.target == row.slug, audit.c.scope_id == row.id, audit.c.action.in_(_SWITCHES)),
                audit.c.after.like(f'%"audit_to_queue":{on}%'),
            )
            switch_id = (await transaction.connection.execute(switches)).scalar_one_or_none() or 0
            found.append(_Asked(row.id, row.tenant_id, row.home, bool(row.audit_to_queue), switch_id))
        return found

    async def _entries(self, transaction: SqlUnitOfWork, asked: _Asked, start: int) -> list[Any]:
        a = audit.c
        query = (
            select(audit, scopes.c.slug.label("scope"), queues.c.slug.label("queue"))
            .select_from(audit.join(scopes, scopes.c.id == a.scope_id).outerjoin(queues, queues.c.id == a.queue_id))
            .where(a.tenant_id == asked.tenant_id, a.id > start, a.scope_id == asked.scope_id)
            .order_by(a.id)
            .limit(self._batch)
        )
        if not asked.on:
            query = query.where(a.id <= asked.switch_id)
        return list((await transaction.connection.execute(query)).all())

    async def _copy(self, transaction: SqlUnitOfWork, asked: _Asked, rows: list[Any]) -> int:
        known = await self._known(transaction, asked, [_key(row.id) for row in rows])
        own = await self._about_the_export(transaction, asked, rows)
        new = [_as_message(row) for row in rows if row.id not in own and _key(row.id) not in known]
        if not new:
            return 0
        home = await self._work_queues.queues.by_id(asked.home_id)
        return await post(transaction, self._work_queues.mint, self._caller, home, new)

    async def _known(self, transaction: SqlUnitOfWork, asked: _Asked, wanted: list[str]) -> set[str]:
        k = keys.c
        query = select(k.idempotency_key).where(k.queue_id == asked.home_id, k.idempotency_key.in_(wanted))
        return set((await transaction.connection.execute(query)).scalars())

    async def _about_the_export(self, transaction: SqlUnitOfWork, asked: _Asked, rows: list[Any]) -> set[int]:
        """Entries that tell what was done to messages of `_audit`. A single settle names no queue, only the message."""
        nowhere = [row for row in rows if row.queue_id is None and row.action.startswith("message.")]
        m = messages.c
        query = select(m.id).where(m.id.in_([row.target for row in nowhere]), m.queue_id == asked.home_id)
        theirs = set((await transaction.connection.execute(query)).scalars()) if nowhere else set[str]()
        return {row.id for row in nowhere if row.target in theirs} | {
            row.id for row in rows if row.queue_id == asked.home_id
        }


_SWITCHES = ("scope.create", "scope.change")


def _key(entry_id: int) -> str:
    return f"audit-{entry_id}"


def _as_message(row: Any) -> NewMessage:
    entry: AuditEntry = entry_of(row._mapping)
    return NewMessage(
        body=msgspec.Raw(msgspec.json.encode(entry)),
        message_type=f"audit.{entry.action}",
        correlation_id=entry.correlation_id,
        source_type="audit",
        source_id=str(entry.id),
        idempotency_key=_key(entry.id),
    )
