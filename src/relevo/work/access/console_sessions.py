"""Who is logged in: a random token in the browser, its digest here, and the API key it stands for.

A session is as good as its key: it ends with the key, with a rotation of its secret, by logging out, and after twelve hours.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select

from relevo.contract.keys import Permission
from relevo.errors import InvalidInput, PermissionDenied, Unauthenticated
from relevo.work.access.api_keys import Keys
from relevo.work.access.key_policy import ScopedGrant, narrowed
from relevo.work.access.rate_limits import RateLimits
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.store.database import Database
from relevo.work.store.tables import console_sessions
from relevo.work.store.transactions import SqlUnitOfWork, Transactions

LASTS_MS = 12 * 3_600_000
_TOKEN_BYTES = 32


class ConsoleSession(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who is logged in."""

    key: Caller
    person: str
    """Under which name they hold and decide reviews."""
    granted: tuple[ScopedGrant, ...]
    expires_at: int

    def caller(self, scope: str | None = None, needed: Permission = "view") -> Caller:
        """As whom they act in a scope; without one, in all they see."""
        return narrowed(self.key, self.granted, scope, None, needed) if self.granted else self.key


class ConsoleSessions:
    """The sessions of an installation's console."""

    def __init__(
        self, transactions: Transactions, database: Database, keys: Keys, rate_limits: RateLimits, now_ms: Clock
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._keys = keys
        self._rate_limits = rate_limits
        self._now_ms = now_ms

    async def open(self, key: str, person: str, request_id: str) -> str:
        """Logs somebody in with an API key; the token that their browser keeps. `person` may be named by a key that acts
        for people; everybody else goes by the name of their key."""
        caller = await self._recognised(key.encode(errors="replace"), request_id)
        if person and not caller.acts_for_people and person != caller.name:
            raise PermissionDenied(permission="act for people")
        if person and not (person.isprintable() and len(person) <= 200):
            raise InvalidInput(where="person", reason="name one person, in up to 200 printable characters")
        token, now = secrets.token_urlsafe(_TOKEN_BYTES), self._now_ms()
        name = person or caller.person
        row = {
            "digest": _digest(token),
            "key_id": caller.actor.removeprefix("key:"),
            "key_digest": _digest(key),
            "person": name,
            "created_at": now,
            "expires_at": now + LASTS_MS,
        }

        async def keep(transaction: SqlUnitOfWork) -> None:
            over = console_sessions.c.expires_at <= now
            await transaction.connection.execute(delete(console_sessions).where(over))
            await transaction.connection.execute(insert(console_sessions).values(row))
            transaction.audit(caller, "console.login", name)

        await self._transactions.run(keep)
        return token

    async def find(self, token: str, request_id: str) -> ConsoleSession:
        """Who it is; `Unauthenticated` or `KeyExpired` when nobody, or nobody any more."""
        query = select(console_sessions).where(console_sessions.c.digest == _digest(token))
        async with self._database.connect() as connection:
            row: Any = (await connection.execute(query)).mappings().one_or_none()
        if row is None or row["expires_at"] <= self._now_ms():
            raise Unauthenticated
        caller, policy = await self._keys.recognise_digest(row["key_id"], row["key_digest"], request_id)
        limits = policy.limits
        if limits.requests_per_s is not None:
            burst = limits.burst or limits.requests_per_s
            await self._rate_limits.take(row["key_id"], limits.requests_per_s, burst)
        if row["person"] != caller.person and not limits.acts_for_people:
            raise Unauthenticated  # the key was renamed, or may no longer speak for others
        return ConsoleSession(key=caller, person=row["person"], granted=policy.grants, expires_at=row["expires_at"])

    async def close(self, token: str) -> None:
        """Logs out; a token that is not known is out already."""
        async with self._database.begin() as connection:
            await connection.execute(delete(console_sessions).where(console_sessions.c.digest == _digest(token)))

    async def _recognised(self, key: bytes, request_id: str) -> Caller:
        caller = await self._keys.recognise(key, request_id)
        policy = self._keys.policy(key)
        return (
            caller if policy is None else msgspec.structs.replace(caller, acts_for_people=policy.limits.acts_for_people)
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
