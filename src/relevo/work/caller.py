"""On whose behalf something is done: the tenant, the actor named in the audit, what they may do, and the request's id."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Permission = Literal["view", "publish", "consume", "review", "manage"]
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)


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

    @staticmethod
    def system(agent: str, tenant_id: int = 0) -> Caller:
        """An agent of the installation: may do everything, in every tenant."""
        return Caller(
            tenant_id=tenant_id, actor=f"agent:{agent}", permissions=frozenset(PERMISSIONS), request_id=f"agent-{agent}"
        )
