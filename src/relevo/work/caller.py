"""On whose behalf something is done: the tenant, the actor named in the audit, what they may do, and the request's id."""

from __future__ import annotations

from typing import get_args

import msgspec

from relevo.contract.keys import Permission, TenantPermission
from relevo.errors import NotFound, PermissionDenied

PERMISSIONS: tuple[Permission, ...] = get_args(TenantPermission)
"""What may be done in a tenant. `operate` is not among them: it reaches the installation, which all tenants share."""

ALL_PERMISSIONS: tuple[Permission, ...] = (*PERMISSIONS, "operate")


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Handed to everything that changes something, so that no change is without an author.

    >>> Caller.system("message_archiver").actor
    'agent:message_archiver'
    """

    tenant_id: int
    actor: str
    """`key:<id>` for an API key, `agent:<name>` for an agent, `cli` for the command line."""
    permissions: frozenset[Permission]
    request_id: str
    scopes: frozenset[str] | None = None
    """Slugs the caller is limited to; None for all."""
    queues: frozenset[str] | None = None
    max_body_bytes: int | None = None
    """The largest body of a request, where the key has a limit of its own."""
    acts_for_people: bool = False
    """Whether a request may name the person it is made for."""
    name: str = ""
    """The name of the API key: under it its owner holds and decides reviews."""

    @property
    def person(self) -> str:
        """Who acts when nobody else is named.

        >>> Caller.system("review_clock").person
        'agent:review_clock'
        """
        return self.name or self.actor

    def require(self, permission: Permission, scope: str | None = None, queue: str | None = None) -> None:
        """Refuses what the caller's key does not allow, and a scope or a queue that it does not see."""
        if permission not in self.permissions:
            raise PermissionDenied(permission=permission)
        if scope is not None:
            self.require_sight(scope, queue)

    def require_unlimited(self, permission: Permission) -> None:
        """As `require`, for what concerns the whole tenant: a key limited to some scopes or queues may not."""
        self.require(permission)
        if self.scopes is not None or self.queues is not None:
            raise PermissionDenied(permission=permission)

    def sees_scope(self, slug: str) -> bool:
        return self.scopes is None or slug in self.scopes

    def sees_queue(self, slug: str) -> bool:
        return self.queues is None or slug in self.queues

    def require_sight(self, scope: str, queue: str | None = None) -> None:
        """What a key is not meant for is not there for it."""
        if not self.sees_scope(scope):
            raise NotFound(what="scope", name=scope)
        if queue is not None and not self.sees_queue(queue):
            raise NotFound(what="queue", name=queue)

    @staticmethod
    def system(agent: str, tenant_id: int = 0) -> Caller:
        """An agent of the installation: may do everything, in every tenant."""
        return Caller(
            tenant_id=tenant_id,
            actor=f"agent:{agent}",
            permissions=frozenset(ALL_PERMISSIONS),
            request_id=f"agent-{agent}",
        )
