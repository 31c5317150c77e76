"""Scopes: a tenant's rooms. Each is made with its system queues, and closes all its queues when it is paused."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from relevo.contract.pages import Page
from relevo.contract.scopes import QueueState
from relevo.errors import SlugTaken
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueSettings
from relevo.work.store.database import Database
from relevo.work.store.tables import labels, queues, replays, scopes
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.cascade import delete_of_scope
from relevo.work.tenancy.queues import SYSTEM_QUEUES, Queues, delete_queue_rows, queue_row, require_scope
from relevo.work.tenancy.tenants import require_slug

SYSTEM_SETTINGS = QueueSettings(max_retries=20, visibility_timeout_s=60)
"""System queues are claimed by consumers of events and audit: patient, because what they carry is told only once."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A scope as it is shown."""

    id: int
    slug: str
    display_name: str
    description: str
    state: QueueState
    events_to_queue: list[str]
    audit_to_queue: bool
    created_at: int
    updated_at: int


_LISTING = Listing("scopes", slug=scopes.c.slug)


class Scopes:
    """Makes, changes, deletes and finds scopes."""

    def __init__(self, transactions: Transactions, database: Database, queues: Queues, now_ms: Clock) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._now_ms = now_ms

    async def get(self, caller: Caller, slug: str) -> Scope:
        caller.require_sight(slug)
        async with self._database.connect() as connection:
            return _scope(await require_scope(connection, caller.tenant_id, slug))

    async def list(self, caller: Caller, *, limit: int = 100, cursor: str | None = None) -> Page[Scope]:
        caller.require("view")
        query = select(scopes).where(scopes.c.tenant_id == caller.tenant_id)
        if caller.scopes is not None:
            query = query.where(scopes.c.slug.in_(caller.scopes))
        async with self._database.connect() as connection:
            return await _LISTING.page(connection, query, _scope, limit=limit, cursor=cursor)

    async def create(
        self,
        caller: Caller,
        slug: str,
        *,
        display_name: str = "",
        description: str = "",
        events_to_queue: list[str] | None = None,
        audit_to_queue: bool = False,
    ) -> Scope:
        """A scope and its system queues, in one transaction."""
        caller.require("manage", slug)
        require_slug(slug, "scope")
        now = self._now_ms()
        row = {
            "tenant_id": caller.tenant_id,
            "slug": slug,
            "display_name": display_name or slug,
            "description": description,
            "state": "active",
            "events_to_queue": msgspec.json.encode(sorted(set(events_to_queue or []))).decode(),
            "audit_to_queue": int(audit_to_queue),
            "created_at": now,
            "updated_at": now,
        }

        async def save(unit: SqlUnitOfWork) -> Scope:
            connection = unit.connection
            made = (await connection.execute(insert(scopes).values(row))).inserted_primary_key
            assert made is not None
            scope = _scope({**row, "id": made[0]})
            for name in SYSTEM_QUEUES:
                seeded = queue_row(scope.id, caller.tenant_id, name, SYSTEM_SETTINGS, unit.now, system=True)
                await connection.execute(insert(queues).values(seeded))
            unit.audit(caller, "scope.create", slug, scope_id=scope.id, after=_told(scope))
            return scope

        try:
            scope = await self._transactions.run(save)
        except IntegrityError as error:
            raise SlugTaken(what="scope", slug=slug) from error
        self._queues.tell(caller.tenant_id)
        return scope

    async def change(self, caller: Caller, slug: str, changes: dict[str, Any]) -> Scope:
        """`changes`: display_name, description, state, events_to_queue, audit_to_queue."""
        caller.require("manage", slug)

        async def save(unit: SqlUnitOfWork) -> Scope:
            connection = unit.connection
            before = _scope(await require_scope(connection, caller.tenant_id, slug, lock=True))
            real = {name: value for name, value in changes.items() if getattr(before, name) != value}
            if real:
                values = {**real, "updated_at": unit.now}
                if "events_to_queue" in real:
                    values["events_to_queue"] = msgspec.json.encode(sorted(set(real["events_to_queue"]))).decode()
                if "audit_to_queue" in real:
                    values["audit_to_queue"] = int(real["audit_to_queue"])
                await connection.execute(update(scopes).where(scopes.c.id == before.id).values(values))
                unit.audit(
                    caller,
                    "scope.change",
                    slug,
                    scope_id=before.id,
                    before={name: getattr(before, name) for name in real},
                    after=real,
                )
            return _scope(await require_scope(connection, caller.tenant_id, slug))

        after = await self._transactions.run(save)
        self._queues.tell(caller.tenant_id)
        return after

    async def delete(self, caller: Caller, slug: str) -> None:
        """Deletes a scope without messages, its queues with it. Others are archived instead."""
        caller.require("manage", slug)

        async def remove(unit: SqlUnitOfWork) -> None:
            connection = unit.connection
            before = _scope(await require_scope(connection, caller.tenant_id, slug, lock=True))
            its_queues = select(queues.c.id).where(queues.c.scope_id == before.id).with_for_update()
            ids = list((await connection.execute(its_queues)).scalars())
            await delete_queue_rows(connection, ids, what="scope", name=slug)
            for table in (replays, labels):
                await connection.execute(delete(table).where(table.c.scope_id == before.id))
            await delete_of_scope(connection, before.id)
            await connection.execute(delete(scopes).where(scopes.c.id == before.id))
            unit.audit(caller, "scope.delete", slug, scope_id=before.id, before=_told(before))

        await self._transactions.run(remove)
        self._queues.tell(caller.tenant_id)


def _scope(row: Any) -> Scope:
    fields = {name: row[name] for name in ("id", "slug", "display_name", "description", "state")}
    return Scope(
        **fields,
        events_to_queue=msgspec.json.decode(row["events_to_queue"], type=list[str]),
        audit_to_queue=bool(row["audit_to_queue"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _told(scope: Scope) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(scope).items() if name != "id"}
