"""Who may do what, for asyncio: keys, grants, limits. sync_access.py is made from this file."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from relevo.client.async_sender import AsyncSender
from relevo.client.request import Call, at, given
from relevo.contract.grants import Grant
from relevo.contract.keys import ApiKey, KeyLimits, NewKey
from relevo.contract.pages import Page


class AsyncAccess(AsyncSender):
    """API keys of the tenant, and what they were granted in scopes and queues."""

    async def keys(self, *, limit: int = 100, cursor: str | None = None) -> Page[ApiKey]:
        return await self.send(Call("GET", at("keys"), Page[ApiKey], question={"limit": limit, "cursor": cursor}))

    async def create_key(
        self,
        name: str,
        permissions: Iterable[str],
        *,
        scopes: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
        expires_at: int | datetime | None = None,
    ) -> NewKey:
        """The secret is in this answer and nowhere else. It is empty if the first answer was lost on its way and this is the
        second: then `rotate_key` gives the key another."""
        limits = given(
            scopes=None if scopes is None else list(scopes),
            queues=None if queues is None else list(queues),
            expires_at=expires_at,
        )
        return await self.send(
            Call("POST", at("keys"), NewKey, {"name": name, "permissions": list(permissions), **limits}, once=True)
        )

    async def revoke_key(self, key_id: str) -> ApiKey:
        return await self.send(Call("DELETE", at("keys", key_id), ApiKey))

    async def rotate_key(self, key_id: str, *, grace_s: int = 86_400) -> NewKey:
        """A new secret; the old one works for `grace_s` more."""
        return await self.send(Call("POST", at("keys", key_id, "rotate"), NewKey, {"grace_s": grace_s}, once=True))

    async def key_limits(self, key_id: str) -> KeyLimits:
        return await self.send(Call("GET", at("keys", key_id, "limits"), KeyLimits))

    async def limit_key(
        self,
        key_id: str,
        *,
        requests_per_s: int | None = None,
        burst: int | None = None,
        max_body_bytes: int | None = None,
        acts_for_people: bool = False,
    ) -> KeyLimits:
        """Sets all limits of a key; what is left out is not limited."""
        wanted = {
            "requests_per_s": requests_per_s,
            "burst": burst,
            "max_body_bytes": max_body_bytes,
            "acts_for_people": acts_for_people,
        }
        return await self.send(Call("PUT", at("keys", key_id, "limits"), KeyLimits, given(**wanted)))

    async def grants(
        self, scope: str, *, key_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[Grant]:
        question = {"key_id": key_id, "limit": limit, "cursor": cursor}
        return await self.send(Call("GET", at("scopes", scope, "grants"), Page[Grant], question=question))

    async def grant(self, scope: str, key_id: str, permissions: Iterable[str], *, queue: str | None = None) -> Grant:
        """Gives a key permissions in a scope, or in one queue of it."""
        body = {"key_id": key_id, "permissions": list(permissions), **given(queue=queue)}
        return await self.send(Call("POST", at("scopes", scope, "grants"), Grant, body, once=True))

    async def revoke_grant(self, scope: str, grant_id: str) -> None:
        await self.send(Call[None]("DELETE", at("scopes", scope, "grants", grant_id), None, safe=False))
