"""What a scope keeps under a name, in versions that never change: its schemas, its review patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sqlalchemy import Table, func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.pages import Page
from relevo.errors import NotFound
from relevo.work.caller import Caller
from relevo.work.pagination import Listing
from relevo.work.store.database import Database
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import require_scope
from relevo.work.tenancy.tenants import require_slug

V = TypeVar("V")


class Versions(Generic[V]):
    """One table of them. `what` is said of one that is not there, `audited` begins the names of what is done to them, and
    `shown` makes of a row what callers get."""

    def __init__(
        self,
        transactions: Transactions,
        database: Database,
        table: Table,
        *,
        what: str,
        audited: str,
        shown: Callable[[Any], V],
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._table = table
        self._what = what
        self._audited = audited
        self._shown = shown

    async def get(self, caller: Caller, scope: str, name: str, version: int | None = None) -> V:
        """One version; the latest when none is named."""
        caller.require("view", scope)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            return self._shown(await self._row(connection, owner["id"], name, version))

    async def list(self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[V]:
        """The latest version of each, by name."""
        caller.require("view", scope)
        c = self._table.c
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            newer = self._table.alias()
            latest = select(func.max(newer.c.version)).where(newer.c.scope_id == c.scope_id, newer.c.name == c.name)
            query = select(self._table).where(c.scope_id == owner["id"], c.version == latest.scalar_subquery())
            listing = Listing(self._audited, name=c.name)
            return await listing.page(connection, query, self._shown, limit=limit, cursor=cursor)

    async def _keep(self, caller: Caller, scope: str, name: str, checked: Callable[[], str]) -> V:
        """A new version, the first if there is none yet. What it says is `checked` once the caller may add one."""
        caller.require("manage", scope)
        require_slug(name, self._what)
        definition = checked()

        async def save(transaction: SqlUnitOfWork) -> V:
            connection, c = transaction.connection, self._table.c
            owner = await require_scope(connection, caller.tenant_id, scope, lock=True)
            latest = select(func.max(c.version)).where(c.scope_id == owner["id"], c.name == name)
            version = ((await connection.execute(latest)).scalar() or 0) + 1
            row = {
                "scope_id": owner["id"],
                "name": name,
                "version": version,
                "definition": definition,
                "created_by": caller.actor,
                "created_at": transaction.now,
            }
            await connection.execute(insert(self._table).values(row))
            after = f'{{"version":{version}}}'
            transaction.audit(caller, f"{self._audited}.add", name, scope_id=owner["id"], after=after)
            return self._shown(row)

        try:
            return await self._transactions.run(save)
        except IntegrityError:  # two at the same moment, on a database that does not hold the scope's row
            return await self._transactions.run(save)

    async def _row(self, connection: AsyncConnection, scope_id: int, name: str, version: int | None) -> Any:
        c = self._table.c
        query = select(self._table).where(c.scope_id == scope_id, c.name == name)
        if version is not None:
            query = query.where(c.version == version)
        row = (await connection.execute(query.order_by(c.version.desc()).limit(1))).mappings().one_or_none()
        if row is None:
            raise NotFound(what=self._what, name=name if version is None else f"{name}, version {version}")
        return row
