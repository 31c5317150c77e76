"""API keys: `rlv_<id>_<secret>`, shown once, stored as a digest, with permissions, limits and an end."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, and_, insert, select, update

from relevo.contract.keys import ApiKey, KeyLimits, NewKey, Permission
from relevo.contract.pages import Page
from relevo.errors import InvalidInput, KeyExpired, NotFound, PermissionDenied, Unauthenticated, WrongState
from relevo.wire.ids import IdMint
from relevo.work.access.key_policy import KeyPolicy, policy_of
from relevo.work.caller import ALL_PERMISSIONS, PERMISSIONS, Caller
from relevo.work.clock import Clock
from relevo.work.pagination import Listing
from relevo.work.store.cache import SingleFlight
from relevo.work.store.database import Database
from relevo.work.store.tables import api_keys, key_limits, tenants
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.tenants import Tenants

FIRST = "rlv_"
CACHED_MS = 1000
"""How long a key that was good is taken for good without a look: as long as a revoked one may still work elsewhere."""

_MOST_CACHED = 10_000
_SECRET_BYTES = 32
_LONGEST_GRACE_S = 30 * 86_400


class _Known(msgspec.Struct, frozen=True):
    tenant_id: int
    actor: str
    permissions: frozenset[Permission]
    scopes: frozenset[str] | None
    queues: frozenset[str] | None
    expires_at: int | None
    good_until: int
    policy: KeyPolicy | None
    """Grants and limits; None for a key without any, which is every key until somebody says otherwise."""
    name: str

    def caller(self, request_id: str) -> Caller:
        return Caller(
            tenant_id=self.tenant_id,
            actor=self.actor,
            permissions=self.permissions,
            request_id=request_id,
            scopes=self.scopes,
            queues=self.queues,
            name=self.name,
        )


_ORDINARY = KeyPolicy()
_LISTING = Listing("keys", id=api_keys.c.id)


class Keys:
    """Makes, revokes and recognises keys."""

    def __init__(self, transactions: Transactions, database: Database, now_ms: Clock) -> None:
        self._transactions = transactions
        self._database = database
        self._now_ms = now_ms
        self._mint = IdMint()
        self._known: dict[bytes, _Known] = {}
        self._used: dict[str, int] = {}
        self._asking = SingleFlight(self._look_up)

    # --- who is it -------------------------------------------------------------------------------------------------------

    def remembered(self, key: bytes, request_id: str) -> Caller | None:
        """The caller, if this key was good a moment ago: no database is asked. Raises KeyExpired on its very end."""
        known = self._known.get(key)
        if known is None:
            return None
        now = self._now_ms()
        if now >= known.good_until:
            del self._known[key]
            return None
        if known.expires_at is not None and now >= known.expires_at:
            raise KeyExpired(key=known.actor.removeprefix("key:"), at=known.expires_at)
        return known.caller(request_id)

    def policy(self, key: bytes) -> KeyPolicy | None:
        """Grants and limits of a key that was just recognised; None when it has none."""
        known = self._known.get(key)
        return None if known is None else known.policy

    def forget(self, key_id: str) -> None:
        """Looks a key up anew at its next use: something about it has changed."""
        self._known = {key: known for key, known in self._known.items() if known.actor != f"key:{key_id}"}

    async def recognise(self, key: bytes, request_id: str) -> Caller:
        """Whose key this is. The digest is compared in constant time; every kind of wrong key is answered alike."""
        caller = self.remembered(key, request_id)
        if caller is None:
            caller = (await self._asking.of(key)).caller(request_id)  # many come at once: one of them asks the database
        return caller

    async def recognise_digest(self, key_id: str, digest: str, request_id: str) -> tuple[Caller, KeyPolicy]:
        """As `recognise`, for one who came with a key earlier, of whose secret only the digest was kept."""
        known = await self._read(key_id, digest)
        return known.caller(request_id), known.policy or _ORDINARY

    async def _look_up(self, key: bytes) -> _Known:
        """Remembers a key that is good; raises for any other."""
        known = await self._read(_id_in(key), hashlib.sha256(key).hexdigest())
        if len(self._known) >= _MOST_CACHED:
            self._known.clear()
        self._known[key] = known
        return known

    async def _read(self, key_id: str, digest: str) -> _Known:
        limits = [column for column in key_limits.columns if column.name != "key_id"]
        query = (
            select(api_keys, tenants.c.state.label("tenant_state"), *limits)
            .join_from(api_keys, tenants, tenants.c.id == api_keys.c.tenant_id)
            .outerjoin(key_limits, key_limits.c.key_id == api_keys.c.id)
            .where(api_keys.c.id == key_id)
        )
        now = self._now_ms()
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            if row is None or not _fits(digest, row, now) or row["tenant_state"] != "active":
                raise Unauthenticated
            policy = await policy_of(connection, key_id, row)
        ended = row["revoked_at"] if row["revoked_at"] is not None else row["expires_at"]
        if ended is not None and now >= ended:
            raise KeyExpired(key=key_id, at=ended)
        self._used[key_id] = now
        return _Known(
            row["tenant_id"],
            f"key:{key_id}",
            frozenset(_permissions(row["permissions"])),
            _set(row["scope_slugs"]),
            _set(row["queue_slugs"]),
            row["expires_at"],
            _good_until(digest, row, now),
            None if policy == _ORDINARY else policy,
            row["name"],
        )

    async def note_uses(self) -> int:
        """Writes when keys were last used: now and then, not with every request."""
        used, self._used = self._used, {}
        if used:
            async with self._database.begin() as connection:
                for key_id, at in sorted(used.items()):
                    await connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=at))
        return len(used)

    # --- making and ending -----------------------------------------------------------------------------------------------

    async def create(
        self,
        caller: Caller,
        name: str,
        *,
        permissions: Sequence[Permission] = PERMISSIONS,
        scopes: Sequence[str] | None = None,
        queues: Sequence[str] | None = None,
        expires_at: int | None = None,
    ) -> NewKey:
        """A new key of the caller's tenant, never with more rights than the caller has."""
        caller.require("manage")
        now = self._now_ms()
        if not permissions:
            raise InvalidInput(where="permissions", reason=f"name at least one of {', '.join(ALL_PERMISSIONS)}")
        if expires_at is not None and expires_at <= now:
            raise InvalidInput(where="expires_at", reason="it lies in the past; name a later moment, or none")
        for permission in permissions:
            caller.require(permission)
        if _wider(scopes, caller.scopes) or _wider(queues, caller.queues):
            raise PermissionDenied(permission="manage")
        key_id = self._mint(now)
        secret = f"{FIRST}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        ordered = [permission for permission in ALL_PERMISSIONS if permission in permissions]
        row = {
            "id": key_id,
            "tenant_id": caller.tenant_id,
            "name": name,
            "hint": secret[-4:],
            "digest": hashlib.sha256(secret.encode()).hexdigest(),
            "permissions": ",".join(ordered),
            "scope_slugs": _list(scopes),
            "queue_slugs": _list(queues),
            "created_at": now,
            "expires_at": expires_at,
        }
        made = _key({**row, "revoked_at": None, "last_used_at": None})

        async def save(unit: SqlUnitOfWork) -> None:
            connection = unit.connection
            await connection.execute(insert(api_keys).values(row))
            unit.audit(caller, "key.create", key_id, after=made)

        await self._transactions.run(save)
        return NewKey(key=made, secret=secret)

    async def revoke(self, caller: Caller, key_id: str) -> ApiKey:
        """Ends a key now; in other processes within a second. Revoking twice changes nothing more."""
        caller.require("manage")

        async def save(unit: SqlUnitOfWork) -> ApiKey:
            connection = unit.connection
            query = select(api_keys).where(_mine(caller, key_id)).with_for_update()
            row = (await connection.execute(query)).mappings().one_or_none()
            if row is None or _reaches_beyond(row, caller):
                raise NotFound(what="key", name=key_id)
            before = _key(row)
            if row["revoked_at"] is not None:
                return before
            await connection.execute(update(api_keys).where(_mine(caller, key_id)).values(revoked_at=unit.now))
            after = msgspec.structs.replace(before, revoked_at=unit.now)
            unit.audit(caller, "key.revoke", key_id, before=before, after=after)
            return after

        after = await self._transactions.run(save)
        self.forget(key_id)
        return after

    async def rotate(self, caller: Caller, key_id: str, *, grace_s: int = 86_400) -> NewKey:
        """A new secret for a key. The old one works for `grace_s` more, so that nobody is locked out while it is replaced; the
        secret before that ends at once."""
        caller.require("manage")
        if not 0 <= grace_s <= _LONGEST_GRACE_S:
            raise InvalidInput(where="grace_s", reason=f"{grace_s} is not between 0 and {_LONGEST_GRACE_S}")
        secret = f"{FIRST}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"

        async def save(unit: SqlUnitOfWork) -> ApiKey:
            connection = unit.connection
            query = select(api_keys).where(_mine(caller, key_id)).with_for_update()
            row = (await connection.execute(query)).mappings().one_or_none()
            if row is None or _reaches_beyond(row, caller):
                raise NotFound(what="key", name=key_id)
            ended = row["revoked_at"] if row["revoked_at"] is not None else row["expires_at"]
            if ended is not None and unit.now >= ended:
                state = "expired" if row["revoked_at"] is None else "revoked"
                raise WrongState(what="key", name=key_id, state=state, done="given a new secret")
            for permission in _permissions(row["permissions"]):
                caller.require(permission)  # or a secret would be a way to rights that the caller has not
            fresh = {"digest": hashlib.sha256(secret.encode()).hexdigest(), "hint": secret[-4:]}
            await connection.execute(update(api_keys).where(_mine(caller, key_id)).values(fresh))
            previous = {
                "previous_digest": row["digest"] if grace_s else None,
                "previous_until": unit.now + grace_s * 1000 if grace_s else None,
            }
            changed = update(key_limits).where(key_limits.c.key_id == key_id).values(previous)
            if (await connection.execute(changed)).rowcount == 0:
                first = msgspec.structs.asdict(KeyLimits()) | {"acts_for_people": 0}
                await connection.execute(insert(key_limits).values(key_id=key_id, **first, **previous))
            before, after = _key(row), _key({**row, **fresh})
            unit.audit(caller, "key.rotate", key_id, before=before, after=after)
            return after

        after = await self._transactions.run(save)
        self.forget(key_id)
        return NewKey(key=after, secret=secret)

    async def list(self, caller: Caller, *, limit: int = 100, cursor: str | None = None) -> Page[ApiKey]:
        """The tenant's keys, oldest first, also those that have ended."""
        caller.require_unlimited("manage")
        query = select(api_keys).where(api_keys.c.tenant_id == caller.tenant_id)
        async with self._database.connect() as connection:
            return await _LISTING.page(connection, query, _key, limit=limit, cursor=cursor)


async def first_key(database: Database, tenant: str, now_ms: Clock, *, operator: bool = False) -> NewKey:
    """A key that may do everything in a tenant, which is made when it is not there: where a new installation begins. The key
    of its `operator` also sees and runs the agents, which work for all tenants."""
    transactions = Transactions(database, now_ms)
    tenants_of = Tenants(transactions, database, now_ms)
    try:
        found = await tenants_of.get(tenant)
    except NotFound:
        found = await tenants_of.create(tenant)
    permissions = ALL_PERMISSIONS if operator else PERMISSIONS
    return await Keys(transactions, database, now_ms).create(
        tenants_of.caller(found), "first key", permissions=permissions
    )


def _mine(caller: Caller, key_id: str) -> ColumnElement[bool]:
    return and_(api_keys.c.id == key_id, api_keys.c.tenant_id == caller.tenant_id)


def _id_in(key: bytes) -> str:
    try:
        text = key.decode("ascii")
    except UnicodeDecodeError:
        raise Unauthenticated from None
    first, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    if first != "rlv" or len(key_id) != 26 or not key_id.isalnum() or not secret:
        raise Unauthenticated
    return key_id


def _key(row: Any) -> ApiKey:
    scopes, queues = _set(row["scope_slugs"]), _set(row["queue_slugs"])
    return ApiKey(
        id=row["id"],
        name=row["name"],
        hint=row["hint"],
        permissions=[*_permissions(row["permissions"])],
        scopes=None if scopes is None else sorted(scopes),
        queues=None if queues is None else sorted(queues),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )


def _permissions(text: str) -> list[Permission]:
    return [word for word in text.split(",") if word in ALL_PERMISSIONS]


def _set(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(msgspec.json.decode(text, type=list[str]))


def _list(slugs: Sequence[str] | None) -> str | None:
    return None if slugs is None else msgspec.json.encode(sorted(set(slugs))).decode()


def _fits(digest: str, row: Any, now: int) -> bool:
    """Whether this is the key's secret, or for a while after a rotation its old one."""
    previous = row["previous_digest"] or ""
    old = hmac.compare_digest(digest, previous) and row["previous_until"] is not None and now < row["previous_until"]
    return hmac.compare_digest(digest, str(row["digest"])) or old


def _good_until(digest: str, row: Any, now: int) -> int:
    """How long it may be remembered: an old secret not beyond its end."""
    if hmac.compare_digest(digest, str(row["digest"])):
        return now + CACHED_MS
    return min(now + CACHED_MS, row["previous_until"])


def _reaches_beyond(row: Any, caller: Caller) -> bool:
    return _wider(_set(row["scope_slugs"]), caller.scopes) or _wider(_set(row["queue_slugs"]), caller.queues)


def _wider(wanted: Sequence[str] | frozenset[str] | None, allowed: frozenset[str] | None) -> bool:
    """Whether a key's limits reach beyond those of the one who makes or ends it."""
    return allowed is not None and (wanted is None or not set(wanted) <= allowed)
