"""Tenants: whose scopes, keys and messages these are. Made by the command line, not over HTTP."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from relevo.contract.fields import SLUG
from relevo.errors import InvalidInput, NotFound, SlugTaken
from relevo.work.caller import ALL_PERMISSIONS, Caller
from relevo.work.clock import Clock
from relevo.work.store.database import Database
from relevo.work.store.tables import tenants
from relevo.work.store.transactions import SqlUnitOfWork, Transactions

_SLUG = re.compile(SLUG)


def require_slug(slug: str, what: str) -> None:
    if not _SLUG.fullmatch(slug):
        reason = "use 1 to 63 of a-z, 0-9, - and _, beginning and ending with a letter or digit"
        raise InvalidInput(where=f"slug of the {what} ({slug[:70]!r})", reason=reason)


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant as it is shown."""

    id: int
    slug: str
    display_name: str
    state: str
    created_at: int


class Tenants:
    """Makes and finds tenants."""

    def __init__(self, transactions: Transactions, database: Database, now_ms: Clock) -> None:
        self._transactions = transactions
        self._database = database
        self._now_ms = now_ms

    async def create(self, slug: str, *, display_name: str = "", actor: str = "cli", request_id: str = "cli") -> Tenant:
        require_slug(slug, "tenant")
        now = self._now_ms()
        row: dict[str, Any] = {"slug": slug, "display_name": display_name or slug, "state": "active", "created_at": now}

        async def save(unit: SqlUnitOfWork) -> Tenant:
            connection = unit.connection
            made = (await connection.execute(insert(tenants).values(row))).inserted_primary_key
            assert made is not None
            tenant = Tenant(id=made[0], **row)
            caller = self.caller(tenant, actor=actor, request_id=request_id)
            unit.audit(caller, "tenant.create", slug, after=row)
            return tenant

        try:
            tenant = await self._transactions.run(save)
        except IntegrityError as error:
            raise SlugTaken(what="tenant", slug=slug) from error
        return tenant

    async def get(self, slug: str) -> Tenant:
        query = select(tenants).where(tenants.c.slug == slug)
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            raise NotFound(what="tenant", name=slug)
        return Tenant(**row)

    async def list(self) -> list[Tenant]:
        async with self._database.connect() as connection:
            rows = (await connection.execute(select(tenants).order_by(tenants.c.id))).mappings().all()
        return [Tenant(**row) for row in rows]

    @staticmethod
    def caller(tenant: Tenant, *, actor: str = "cli", request_id: str = "cli") -> Caller:
        """Who owns the installation acts in a tenant without a key: the command line does."""
        return Caller(tenant_id=tenant.id, actor=actor, permissions=frozenset(ALL_PERMISSIONS), request_id=request_id)
