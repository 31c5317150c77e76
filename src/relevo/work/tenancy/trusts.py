"""Trust between scopes of a tenant: a scope says whose messages may be routed into it."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import delete, insert, select

from relevo.contract.pages import Page
from relevo.contract.scopes import Trust
from relevo.errors import InvalidInput, NotFound
from relevo.work.caller import Caller
from relevo.work.pagination import Listing
from relevo.work.store.database import Database
from relevo.work.store.tables import scopes, trusts
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import Queues, require_scope

_LISTING = Listing("trusts", slug=scopes.c.slug)


class Trusts:
    """The trusts of an installation."""

    def __init__(self, transactions: Transactions, database: Database, queues: Queues) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues

    async def grant(self, caller: Caller, scope: str, trusted: str) -> Trust:
        """Lets messages of `trusted` in. Whoever manages `scope` says so; granting it again changes nothing."""
        caller.require("manage", scope)
        caller.require_sight(trusted)
        if scope == trusted:
            raise InvalidInput(where="trusted", reason="a scope trusts itself already")

        async def save(transaction: SqlUnitOfWork) -> Trust:
            connection = transaction.connection
            owner = await require_scope(connection, caller.tenant_id, scope, lock=True)
            other = await require_scope(connection, caller.tenant_id, trusted)
            mine = (trusts.c.scope_id == owner["id"]) & (trusts.c.trusted_scope_id == other["id"])
            row = (await connection.execute(select(trusts).where(mine))).mappings().one_or_none()
            if row is None:
                new = {
                    "scope_id": owner["id"],
                    "trusted_scope_id": other["id"],
                    "created_by": caller.actor,
                    "created_at": transaction.now,
                }
                await connection.execute(insert(trusts).values(new))
                after = msgspec.json.encode({"trusted": trusted}).decode()
                transaction.audit(caller, "trust.grant", scope, scope_id=owner["id"], after=after)
                return Trust(scope=scope, trusted=trusted, created_by=caller.actor, created_at=transaction.now)
            return Trust(scope=scope, trusted=trusted, created_by=row["created_by"], created_at=row["created_at"])

        granted = await self._transactions.run(save)
        self._queues.tell(caller.tenant_id)
        return granted

    async def revoke(self, caller: Caller, scope: str, trusted: str) -> None:
        """From now on rules of `trusted` that route here fail, and say so."""
        caller.require("manage", scope)

        async def forget(transaction: SqlUnitOfWork) -> None:
            connection = transaction.connection
            owner = await require_scope(connection, caller.tenant_id, scope, lock=True)
            other = await require_scope(connection, caller.tenant_id, trusted)
            mine = (trusts.c.scope_id == owner["id"]) & (trusts.c.trusted_scope_id == other["id"])
            gone = await connection.execute(delete(trusts).where(mine))
            if gone.rowcount == 0:
                raise NotFound(what="trust in scope", name=trusted)
            before = msgspec.json.encode({"trusted": trusted}).decode()
            transaction.audit(caller, "trust.revoke", scope, scope_id=owner["id"], before=before)

        await self._transactions.run(forget)
        self._queues.tell(caller.tenant_id)

    async def list(self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Trust]:
        """Whom a scope trusts, by name."""
        caller.require("view", scope)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            query = (
                select(trusts.c.created_by, trusts.c.created_at, scopes.c.slug)
                .join_from(trusts, scopes, scopes.c.id == trusts.c.trusted_scope_id)
                .where(trusts.c.scope_id == owner["id"])
            )

            def shown(row: Any) -> Trust:
                by, at = row["created_by"], row["created_at"]
                return Trust(scope=scope, trusted=row["slug"], created_by=by, created_at=at)

            return await _LISTING.page(connection, query, shown, limit=limit, cursor=cursor)

    async def trusted_by(self, scope_id: int) -> frozenset[int]:
        """The scopes that let messages of `scope_id` in."""
        query = select(trusts.c.scope_id).where(trusts.c.trusted_scope_id == scope_id)
        async with self._database.connect() as connection:
            return frozenset((await connection.execute(query)).scalars())
