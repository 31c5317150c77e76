"""What belongs to a key beside itself, as a request needs it: its grants and its limits, and the caller they narrow.

For each request the caller is narrowed to what the key and its grants allow together at the place that the request names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.keys import KeyLimits, Permission
from relevo.work.caller import PERMISSIONS, Caller
from relevo.work.store.tables import grants, queues, scopes


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


async def policy_of(connection: AsyncConnection, key_id: str, limits: Any) -> KeyPolicy:
    """What belongs to a key; `limits` is its row of `key_limits`, or a mapping with None in it."""
    query = (
        select(grants.c.permissions, scopes.c.slug.label("scope"), queues.c.slug.label("queue"))
        .join_from(grants, scopes, scopes.c.id == grants.c.scope_id)
        .outerjoin(queues, queues.c.id == grants.c.queue_id)
        .where(grants.c.key_id == key_id)
    )
    found = tuple(
        ScopedGrant(row.scope, row.queue, frozenset(permissions_in(row.permissions)))
        for row in await connection.execute(query)
    )
    return KeyPolicy(found, limits_of(limits))


def permissions_in(words: str) -> list[Permission]:
    return [word for word in words.split(",") if word in PERMISSIONS]


def limits_of(row: Any) -> KeyLimits:
    return KeyLimits(
        requests_per_s=row["requests_per_s"],
        burst=row["burst"],
        max_body_bytes=row["max_body_bytes"],
        acts_for_people=bool(row["acts_for_people"]),
    )
