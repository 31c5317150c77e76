"""The audit: one row for every call that changed something, written in the transaction of the change."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Select, select

from relevo.contract.audit import AuditEntry
from relevo.contract.pages import Page
from relevo.work.caller import Caller
from relevo.work.pagination import Listing
from relevo.work.store.database import Database
from relevo.work.store.tables import audit, queues, scopes

_encode = msgspec.json.Encoder().encode
_EXPORTED_AT_ONCE = 500


class ExportedEntry(AuditEntry, frozen=True, kw_only=True):
    """An entry with all that its hash covers, so that a copy can be verified too; see store/audit_chain.py."""

    tenant_id: int
    scope_id: int | None
    queue_id: int | None
    chain: str | None
    chain_no: int | None
    hash: str | None


E = TypeVar("E", bound=AuditEntry)


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are wanted; what is None is not asked."""

    scope: str | None = None
    queue: str | None = None
    actor: str | None = None
    action: str | None = None
    target: str | None = None
    request_id: str | None = None
    correlation_id: str | None = None
    since: int | None = None
    until: int | None = None


_LISTING = Listing("audit", newest_first=True, id=audit.c.id)


class Audit:
    """Reads the audit of one tenant, the newest entry first."""

    def __init__(self, database: Database, *, most_looked_at: int = 20_000) -> None:
        self._database = database
        self._most_looked_at = most_looked_at

    async def list(
        self, caller: Caller, wanted: AuditFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[AuditEntry]:
        """A page looks at so many entries and no more, since few filters have an index: it may end before it is full."""
        caller.require("view")
        query = _matching(caller, wanted)
        async with self._database.connect() as connection:
            end: int | None = None
            if wanted.target is None and wanted.correlation_id is None:
                all_of_it = select(audit.c.id).where(audit.c.tenant_id == caller.tenant_id)
                last = _LISTING.narrowed(all_of_it, limit=0, cursor=cursor).offset(self._most_looked_at - 1)
                end = (await connection.execute(last)).scalar()
            if end is not None:
                query = query.where(audit.c.id >= end)
            page = await _LISTING.page(connection, query, entry_of, limit=limit, cursor=cursor)
        if page.next_cursor is None and end is not None:
            return Page(page.items, _LISTING.cursor_at({"id": end}))
        return page

    async def export(
        self, caller: Caller | None, wanted: AuditFilter, *, after: int = 0
    ) -> AsyncGenerator[list[ExportedEntry]]:
        """All entries that match, the oldest first, page by page, from the one after the id `after` on. Without a caller those
        of all tenants: for whoever owns the installation."""
        if caller is not None:
            caller.require("view")
        matching = _matching(caller, wanted).order_by(audit.c.id).limit(_EXPORTED_AT_ONCE)
        while True:
            async with self._database.connect() as connection:
                rows = (await connection.execute(matching.where(audit.c.id > after))).mappings().all()
            if not rows:
                return
            yield [_filled(ExportedEntry, row) for row in rows]
            after = rows[-1]["id"]


def _matching(caller: Caller | None, wanted: AuditFilter) -> Select[Any]:
    query = select(audit, scopes.c.slug.label("scope"), queues.c.slug.label("queue")).select_from(
        audit.outerjoin(scopes, scopes.c.id == audit.c.scope_id).outerjoin(queues, queues.c.id == audit.c.queue_id)
    )
    if caller is not None:
        query = query.where(audit.c.tenant_id == caller.tenant_id)
        if caller.scopes is not None:  # a limited key sees what happened where it may look, and nothing of the tenant
            query = query.where(scopes.c.slug.in_(caller.scopes))
        if caller.queues is not None:
            query = query.where(queues.c.slug.in_(caller.queues))
    if wanted.scope is not None:
        query = query.where(scopes.c.slug == wanted.scope)
    if wanted.queue is not None:
        query = query.where(queues.c.slug == wanted.queue)
    for name in ("actor", "action", "target", "request_id", "correlation_id"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(audit.c[name] == value)
    if wanted.since is not None:
        query = query.where(audit.c.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(audit.c.at < wanted.until)
    return query


def entry_of(row: Any) -> AuditEntry:
    """An entry from a row of the audit with the slugs of its `scope` and `queue`; what else the row has is left out."""
    return _filled(AuditEntry, row)


def _filled(kind: type[E], row: Any) -> E:
    fields: dict[str, Any] = {name: row[name] for name in kind.__struct_fields__}
    for name in ("before", "after"):
        fields[name] = msgspec.Raw(fields[name] or b"null")
    return kind(**fields)
