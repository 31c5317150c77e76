"""The client without asyncio. Made from async_access.py by `python -m tests.client.unasync`: do not edit here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from relevo.client.request import Call, at, given
from relevo.client.sync_sender import Sender
from relevo.contract.grants import Grant
from relevo.contract.keys import ApiKey, KeyLimits, NewKey
from relevo.contract.pages import Page


class Access(Sender):
    """API keys of the tenant, and what they were granted in scopes and queues."""

    def keys(self, *, limit: int = 100, cursor: str | None = None) -> Page[ApiKey]:
        return self.send(Call("GET", at("keys"), Page[ApiKey], question={"limit": limit, "cursor": cursor}))

    def create_key(
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
        return self.send(
            Call("POST", at("keys"), NewKey, {"name": name, "permissions": list(permissions), **limits}, once=True)
        )

    def revoke_key(self, key_id: str) -> ApiKey:
        return self.send(Call("DELETE", at("keys", key_id), ApiKey))

    def rotate_key(self, key_id: str, *, grace_s: int = 86_400) -> NewKey:
        """A new secret; the old one works for `grace_s` more."""
        return self.send(Call("POST", at("keys", key_id, "rotate"), NewKey, {"grace_s": grace_s}, once=True))

    def key_limits(self, key_id: str) -> KeyLimits:
        return self.send(Call("GET", at("keys", key_id, "limits"), KeyLimits))

    def limit_key(
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
        return self.send(Call("PUT", at("keys", key_id, "limits"), KeyLimits, given(**wanted)))

    def grants(
        self, scope: str, *, key_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[Grant]:
        question = {"key_id": key_id, "limit": limit, "cursor": cursor}
        return self.send(Call("GET", at("scopes", scope, "grants"), Page[Grant], question=question))

    def grant(self, scope: str, key_id: str, permissions: Iterable[str], *, queue: str | None = None) -> Grant:
        """Gives a key permissions in a scope, or in one queue of it."""
        body = {"key_id": key_id, "permissions": list(permissions), **given(queue=queue)}
        return self.send(Call("POST", at("scopes", scope, "grants"), Grant, body, once=True))

    def revoke_grant(self, scope: str, grant_id: str) -> None:
        self.send(Call[None]("DELETE", at("scopes", scope, "grants", grant_id), None, safe=False))
