"""What a key may do beyond what it says itself: grants for a scope or a queue, and the limits that are set on it.

A key's own permissions hold wherever its own lists of scopes and queues let it look. A grant adds permissions in one scope, or
in one queue of it, also where the key by itself sees nothing. For each request the caller is narrowed to what the key and its
grants allow together at the place that the request names: see `narrowed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.grants import Grant
from relevo.contract.keys import KeyLimits, Permission
from relevo.contract.pages import Page
from relevo.errors import InvalidInput, NotFound, PermissionDenied
from relevo.work.caller import PERMISSIONS, Caller
from relevo.work.pagination import Listing
from relevo.work.store.cold_transaction import ColdTransaction, transact
from relevo.work.store.tables import api_keys, grants, key_limits, queues, scopes
from relevo.work.tenancy.queues import require_scope

if TYPE_CHECKING:
    from relevo.work.work_queues import WorkQueues

MOST_GRANTS = 200
"""Of one key: more of them are a key of its own kind."""


class ScopedGrant(msgspec.Struct, frozen=True):
    """A grant as a request needs it."""

    scope: str
    queue: str | None
    permissions: frozenset[Permission]


class KeyPolicy(msgspec.Struct, frozen=True):
    """What belongs to a key beside itself."""

    grants: tuple[ScopedGrant, ...] = ()
    limits: KeyLimits = KeyLimits()


def narrowed(
    caller: Caller, granted: Sequence[ScopedGrant], scope: str | None, queue: str | None, needed: Permission
) -> Caller:
    """The caller at one place. Without a queue in the request's address, and with grants for some queues only, it sees those
    of them in which it has the permission that is `needed`.

    >>> key = Caller(
    ...     tenant_id=1, actor="key:1", permissions=frozenset({"view"}), request_id="r", scopes=frozenset({"hr"})
    ... )
    >>> gift = ScopedGrant("billing", "invoices", frozenset({"publish"}))
    >>> there = narrowed(key, [gift], "billing", "invoices", "publish")
    >>> sorted(there.permissions), there.scopes, there.queues
    (['publish'], frozenset({'billing'}), frozenset({'invoices'}))
    >>> narrowed(key, [gift], "hr", None, "view") is key
    True
    """
    if scope is None:
        return _everywhere(caller, granted, needed)
    here = [grant for grant in granted if grant.scope == scope]
    if not here:
        return caller
    own = caller.permissions if caller.sees_scope(scope) else frozenset[Permission]()
    whole = frozenset[Permission]().union(*(grant.permissions for grant in here if grant.queue is None))
    if own and caller.queues is None:  # sees all of the scope by itself: grants only add permissions
        named = (each.permissions for each in here if each.queue is not None and each.queue == queue)
        return _at(caller, own | whole.union(*named), scope, None)
    by_queue: dict[str, frozenset[Permission]] = {}
    for grant in here:
        if grant.queue is not None:
            by_queue[grant.queue] = by_queue.get(grant.queue, frozenset()) | grant.permissions
    for slug in caller.queues or ():
        if own:
            by_queue[slug] = by_queue.get(slug, frozenset()) | own
    if queue is not None:
        permissions = whole | by_queue.get(queue, frozenset())
        return _at(caller, permissions, scope, None if whole else frozenset({queue})) if permissions else caller
    if needed in whole:
        return _at(caller, whole, scope, None)
    seen = frozenset(slug for slug, permissions in by_queue.items() if needed in permissions)
    return (
        _at(caller, frozenset({needed}), scope, seen) if seen else _at(caller, whole, scope, None) if whole else caller
    )


def _everywhere(caller: Caller, granted: Sequence[ScopedGrant], needed: Permission) -> Caller:
    """Of the listing of scopes: all in which there is something to see."""
    if caller.scopes is None and needed in caller.permissions:
        return caller
    own = (caller.scopes or frozenset()) if needed in caller.permissions else frozenset[str]()
    seen = own | {grant.scope for grant in granted if needed in grant.permissions}
    if not seen:
        return caller
    return msgspec.structs.replace(caller, permissions=frozenset({needed}), scopes=seen, queues=None)


def _at(caller: Caller, permissions: Iterable[Permission], scope: str, seen: frozenset[str] | None) -> Caller:
    return msgspec.structs.replace(caller, permissions=frozenset(permissions), scopes=frozenset({scope}), queues=seen)


async def standing_of(connection: AsyncConnection, key_id: str, limits: Any) -> KeyPolicy:
    """What belongs to a key; `limits` is its row of `key_limits`, or a mapping with None in it."""
    query = (
        select(grants.c.permissions, scopes.c.slug.label("scope"), queues.c.slug.label("queue"))
        .join_from(grants, scopes, scopes.c.id == grants.c.scope_id)
        .outerjoin(queues, queues.c.id == grants.c.queue_id)
        .where(grants.c.key_id == key_id)
    )
    found = tuple(
        ScopedGrant(row.scope, row.queue, frozenset(_permissions(row.permissions)))
        for row in await connection.execute(query)
    )
    return KeyPolicy(found, _limits(limits))


_LISTING = Listing("grants", id=grants.c.id)


class Access:
    """The grants and limits of an installation's keys."""

    def __init__(self, work_queues: WorkQueues) -> None:
        self._work_queues = work_queues

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

        async def save(transaction: ColdTransaction) -> Grant:
            connection, now = transaction.connection, transaction.now
            owner = await require_scope(connection, caller.tenant_id, scope)
            queue_id = None if queue is None else await _queue_id(connection, owner["id"], queue)
            await _require_key(connection, caller, key_id, lock=True)
            held = await connection.execute(select(grants.c.id).where(grants.c.key_id == key_id).limit(MOST_GRANTS))
            if len(held.all()) >= MOST_GRANTS:
                raise InvalidInput(where="key_id", reason=f"the key has {MOST_GRANTS} grants; make another key")
            made = Grant(
                id=self._work_queues.mint(now),
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

        made = await transact(self._work_queues, save)
        self._work_queues.keys.forget(key_id)
        return made

    async def list(
        self, caller: Caller, scope: str, *, key_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[Grant]:
        """The grants of a scope, oldest first."""
        _require_manager(caller, scope, None)
        async with self._work_queues.database.connect() as connection:
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

        async def remove(transaction: ColdTransaction) -> str:
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

        self._work_queues.keys.forget(await transact(self._work_queues, remove))

    # --- limits ----------------------------------------------------------------------------------------------------------

    async def limits(self, caller: Caller, key_id: str) -> KeyLimits:
        caller.require_unlimited("manage")
        async with self._work_queues.database.connect() as connection:
            await _require_key(connection, caller, key_id)
            query = select(key_limits).where(key_limits.c.key_id == key_id)
            row = (await connection.execute(query)).mappings().one_or_none()
        return KeyLimits() if row is None else _limits(row)

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

        async def save(transaction: ColdTransaction) -> None:
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
                before=msgspec.json.encode(KeyLimits() if row is None else _limits(row)).decode(),
                after=msgspec.json.encode(wanted).decode(),
            )

        await transact(self._work_queues, save)
        self._work_queues.keys.forget(key_id)
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
        permissions=[*_permissions(row["permissions"])],
        created_by=row["created_by"],
        created_at=row["created_at"],
    )


def _permissions(words: str) -> list[Permission]:
    return [word for word in words.split(",") if word in PERMISSIONS]


def _limits(row: Any) -> KeyLimits:
    return KeyLimits(
        requests_per_s=row["requests_per_s"],
        burst=row["burst"],
        max_body_bytes=row["max_body_bytes"],
        acts_for_people=bool(row["acts_for_people"]),
    )
