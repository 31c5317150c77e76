"""What a key may do beyond what it says itself: grants for a scope or a queue, and the limits that are set on it.

A key's own permissions hold wherever its own lists of scopes and queues let it look. A grant adds permissions in one scope, or
in one queue of it, also where the key by itself sees nothing. For each request the caller is narrowed to what the key and its
grants allow together at the place that the request names: see key_policy.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.grants import Grant
from relevo.contract.keys import KeyLimits, Permission
from relevo.contract.pages import Page
from relevo.errors import InvalidInput, NotFound, PermissionDenied
from relevo.wire.ids import IdMint
from relevo.work.access.api_keys import Keys
from relevo.work.access.key_policy import limits_of, permissions_in
from relevo.work.caller import PERMISSIONS, Caller
from relevo.work.pagination import Listing
from relevo.work.store.database import Database
from relevo.work.store.tables import api_keys, grants, key_limits, queues
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import require_scope

MOST_GRANTS = 200
"""Of one key: more of them are a key of its own kind."""


_LISTING = Listing("grants", id=grants.c.id)


class Access:
    """The grants and limits of an installation's keys."""

    def __init__(self, transactions: Transactions, database: Database, keys: Keys, mint: IdMint) -> None:
        self._transactions = transactions
        self._database = database
        self._keys = keys
        self._mint = mint

    async def grant(
        self, caller: Caller, scope: str, key_id: str, permissions: Sequence[Permission], *, queue: str | None = None
    ) -> Grant:
        """Gives a key of the tenant permissions in a scope, or in one queue. Nobody gives what they have not."""
        _require_manager(caller, scope, queue)
        for permission in permissions:
            caller.require(permission)
        ordered: list[Permission] = [permission for permission in PERMISSIONS if permission in permissions]
        if not ordered:
            raise InvalidInput(where="permissions", reason=f"name at least one of {', '.join(PERMISSIONS)}")

        async def save(transaction: SqlUnitOfWork) -> Grant:
            connection, now = transaction.connection, transaction.now
            owner = await require_scope(connection, caller.tenant_id, scope)
            queue_id = None if queue is None else await _queue_id(connection, owner["id"], queue)
            await _require_key(connection, caller, key_id, lock=True)
            held = await connection.execute(select(grants.c.id).where(grants.c.key_id == key_id).limit(MOST_GRANTS))
            if len(held.all()) >= MOST_GRANTS:
                raise InvalidInput(where="key_id", reason=f"the key has {MOST_GRANTS} grants; make another key")
            made = Grant(
                id=self._mint(now),
                key_id=key_id,
                scope=scope,
                queue=queue,
                permissions=[*ordered],
                created_by=caller.actor,
                created_at=now,
            )
            row = {
                "id": made.id,
                "tenant_id": caller.tenant_id,
                "key_id": key_id,
                "scope_id": owner["id"],
                "queue_id": queue_id,
                "permissions": ",".join(ordered),
                "created_by": caller.actor,
                "created_at": now,
            }
            await connection.execute(insert(grants).values(row))
            transaction.audit(
                caller,
                "grant.create",
                made.id,
                scope_id=owner["id"],
                queue_id=queue_id,
                after=msgspec.json.encode(made).decode(),
            )
            return made

        made = await self._transactions.run(save)
        self._keys.forget(key_id)
        return made

    async def list(
        self, caller: Caller, scope: str, *, key_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[Grant]:
        """The grants of a scope, oldest first."""
        _require_manager(caller, scope, None)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            query = (
                select(grants, queues.c.slug.label("queue"))
                .join_from(grants, queues, queues.c.id == grants.c.queue_id, isouter=True)
                .where(grants.c.scope_id == owner["id"])
            )
            if key_id is not None:
                query = query.where(grants.c.key_id == key_id)

            def shown(row: Any) -> Grant:
                return _grant(row, scope)

            return await _LISTING.page(connection, query, shown, limit=limit, cursor=cursor)

    async def revoke(self, caller: Caller, scope: str, grant_id: str) -> None:
        """Takes a grant back: here at once, elsewhere within a second."""
        _require_manager(caller, scope, None)

        async def remove(transaction: SqlUnitOfWork) -> str:
            connection = transaction.connection
            owner = await require_scope(connection, caller.tenant_id, scope)
            mine = and_(grants.c.id == grant_id, grants.c.scope_id == owner["id"])
            query = select(grants, queues.c.slug.label("queue")).join_from(
                grants, queues, queues.c.id == grants.c.queue_id, isouter=True
            )
            row = (await connection.execute(query.where(mine))).mappings().one_or_none()
            if row is None:
                raise NotFound(what="grant", name=grant_id)
            await connection.execute(delete(grants).where(mine))
            transaction.audit(
                caller,
                "grant.revoke",
                grant_id,
                scope_id=owner["id"],
                queue_id=row["queue_id"],
                before=msgspec.json.encode(_grant(row, scope)).decode(),
            )
            return row["key_id"]

        self._keys.forget(await self._transactions.run(remove))

    # --- limits ----------------------------------------------------------------------------------------------------------

    async def limits(self, caller: Caller, key_id: str) -> KeyLimits:
        caller.require_unlimited("manage")
        async with self._database.connect() as connection:
            await _require_key(connection, caller, key_id)
            query = select(key_limits).where(key_limits.c.key_id == key_id)
            row = (await connection.execute(query)).mappings().one_or_none()
        return KeyLimits() if row is None else limits_of(row)

    async def limit(self, caller: Caller, key_id: str, wanted: KeyLimits) -> KeyLimits:
        """Sets all limits of a key: here at once, elsewhere within a second."""
        caller.require_unlimited("manage")
        if wanted.burst is not None and wanted.requests_per_s is None:
            raise InvalidInput(where="burst", reason="it goes with `requests_per_s`; pass that too")
        for name in ("requests_per_s", "burst", "max_body_bytes"):
            value: int | None = getattr(wanted, name)
            if value is not None and not 1 <= value < 2**31:
                raise InvalidInput(
                    where=name, reason=f"{value} is not between 1 and {2**31 - 1}; leave it out for none"
                )
        if caller.actor == f"key:{key_id}":
            raise PermissionDenied(permission="manage")  # a key that sets its own limits has none

        async def save(transaction: SqlUnitOfWork) -> None:
            connection = transaction.connection
            await _require_key(connection, caller, key_id, lock=True)
            mine = key_limits.c.key_id == key_id
            row = (await connection.execute(select(key_limits).where(mine))).mappings().one_or_none()
            values = msgspec.structs.asdict(wanted) | {"acts_for_people": int(wanted.acts_for_people)}
            if row is None:
                await connection.execute(insert(key_limits).values(key_id=key_id, **values))
            else:
                await connection.execute(update(key_limits).where(mine).values(values))
            transaction.audit(
                caller,
                "key.limit",
                key_id,
                before=msgspec.json.encode(KeyLimits() if row is None else limits_of(row)).decode(),
                after=msgspec.json.encode(wanted).decode(),
            )

        await self._transactions.run(save)
        self._keys.forget(key_id)
        return wanted


def _require_manager(caller: Caller, scope: str, queue: str | None) -> None:
    caller.require("manage", scope, queue)
    if caller.queues is not None and queue is None:
        raise PermissionDenied(permission="manage")  # who manages some queues cannot speak for the scope


async def _require_key(connection: AsyncConnection, caller: Caller, key_id: str, *, lock: bool = False) -> None:
    query = select(api_keys.c.id).where(api_keys.c.id == key_id, api_keys.c.tenant_id == caller.tenant_id)
    if (await connection.execute(query.with_for_update() if lock else query)).first() is None:
        raise NotFound(what="key", name=key_id)


async def _queue_id(connection: AsyncConnection, scope_id: int, slug: str) -> int:
    query = select(queues.c.id).where(queues.c.scope_id == scope_id, queues.c.slug == slug)
    found = (await connection.execute(query)).scalar_one_or_none()
    if found is None:
        raise NotFound(what="queue", name=slug)
    return found


def _grant(row: Any, scope: str) -> Grant:
    return Grant(
        id=row["id"],
        key_id=row["key_id"],
        scope=scope,
        queue=row["queue"],
        permissions=[*permissions_in(row["permissions"])],
        created_by=row["created_by"],
        created_at=row["created_at"],
    )
