"""Queues of a scope: made, changed, found. The hot path finds them in a cache that is never older than a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Select, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from relevo.contract.pages import Page
from relevo.engine.service.signals import Signal
from relevo.errors import NotFound, QueueNotEmpty, SlugTaken, SystemQueue
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueRecord, QueueSettings
from relevo.work.store.cache import SingleFlight
from relevo.work.store.database import Database
from relevo.work.store.interface import LockedMessage
from relevo.work.store.tables import (
    archive,
    deliveries,
    keys,
    leases,
    messages,
    queues,
    scopes,
    subscriptions,
    tallies,
    tenants,
)
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.cascade import delete_of_queues
from relevo.work.tenancy.tenants import require_slug

CACHED_MS = 1000
DEAD_LETTER = "_dead_letter"
AUDIT = "_audit"
SYSTEM_QUEUES = (DEAD_LETTER, "_events", AUDIT, "_integrity", "_corrections")


_LISTING = Listing("queues", slug=queues.c.slug)


class Queues:
    """Makes, changes, deletes and finds queues."""

    def __init__(self, transactions: Transactions, database: Database, now_ms: Clock) -> None:
        self._transactions = transactions
        self._database = database
        self._now_ms = now_ms
        self._known: dict[tuple[int, str, str], tuple[int, QueueRecord]] = {}
        self._by_id: dict[int, tuple[int, QueueRecord]] = {}
        self._looks = SingleFlight(self._fetch)
        self._changes = 0
        self.changed: Signal[int] = Signal()
        """Emitted with the tenant's id when a queue or its scope changed here: other processes are told to `forget`."""

    # --- finding ---------------------------------------------------------------------------------------------------------

    async def lookup(self, caller: Caller, scope: str, queue: str) -> QueueRecord:
        """The queue as it is now, or was less than a second ago."""
        known = self._known.get((caller.tenant_id, scope, queue))
        if known is not None and self._now_ms() < known[0]:
            if caller.scopes is not None or caller.queues is not None:
                caller.require_sight(scope, queue)
            return known[1]
        caller.require_sight(scope, queue)
        return await self._looks.of((caller.tenant_id, scope, queue))

    async def _fetch(self, place: tuple[int, str, str]) -> QueueRecord:
        tenant_id, scope, queue = place
        query = record_query().where(
            and_(scopes.c.tenant_id == tenant_id, scopes.c.slug == scope, queues.c.slug == queue)
        )
        changes = self._changes
        async with self._database.connect() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
            if row is None:
                await require_scope(connection, tenant_id, scope)
                raise NotFound(what="queue", name=queue)
        record = record_of(row)
        if changes == self._changes:  # else it may be what was there before the change, and must not be kept
            good_until = self._now_ms() + CACHED_MS
            self._known[place] = (good_until, record)
            self._by_id[record.id] = (good_until, record)
        return record

    async def scope_of(self, caller: Caller, scope: str) -> QueueRecord:
        """A record of the scope's own `_dead_letter`, for what all its queues share; from the same cache."""
        if caller.queues is not None:
            caller.require_sight(scope)
            caller = msgspec.structs.replace(caller, queues=None)
        return await self.lookup(caller, scope, DEAD_LETTER)

    async def home_of(self, row: LockedMessage) -> QueueRecord:
        """The queue that a message is worked on in: of a dead letter, also while people look at it, the one it came from."""
        place = await self.by_id(row.queue_id)
        if place.id == place.dead_letter_id and row.origin_queue_id is not None:
            return await self.by_id(row.origin_queue_id)
        return place

    async def by_id(self, queue_id: int) -> QueueRecord:
        """For agents, which find queues by the rows of messages."""
        known = self._by_id.get(queue_id)
        if known is not None and self._now_ms() < known[0]:
            return known[1]
        async with self._database.connect() as connection:
            row = (await connection.execute(record_query().where(queues.c.id == queue_id))).mappings().one_or_none()
        if row is None:
            raise NotFound(what="queue", name=str(queue_id))
        record = record_of(row)
        self._by_id[queue_id] = (self._now_ms() + CACHED_MS, record)
        return record

    def forget(self, tenant_id: int | None = None) -> None:
        """Looks anew at the next lookup: of one tenant, or of all."""
        self._looks.drop_all()
        self._changes += 1
        if tenant_id is None:
            self._known.clear()
            self._by_id.clear()
            return
        self._known = {key: value for key, value in self._known.items() if key[0] != tenant_id}
        self._by_id = {key: value for key, value in self._by_id.items() if value[1].tenant_id != tenant_id}

    def tell(self, tenant_id: int) -> None:
        """After a change: here at once, elsewhere by whoever listens to `changed`."""
        self.forget(tenant_id)
        self.changed.emit(tenant_id)

    async def list(
        self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[QueueRecord]:
        """The queues of a scope by slug, its system queues first."""
        caller.require("view", scope)
        query = record_query().where(scopes.c.tenant_id == caller.tenant_id, scopes.c.slug == scope)
        if caller.queues is not None:
            query = query.where(queues.c.slug.in_(caller.queues))
        async with self._database.connect() as connection:
            await require_scope(connection, caller.tenant_id, scope)
            return await _LISTING.page(connection, query, record_of, limit=limit, cursor=cursor)

    # --- changing --------------------------------------------------------------------------------------------------------

    async def create(self, caller: Caller, scope: str, slug: str, settings: QueueSettings | None = None) -> QueueRecord:
        caller.require("manage", scope, slug)
        require_slug(slug, "queue")
        settings = settings or QueueSettings()

        async def save(unit: SqlUnitOfWork) -> None:
            connection = unit.connection
            owner = await require_scope(connection, caller.tenant_id, scope)
            row = queue_row(owner["id"], caller.tenant_id, slug, settings, unit.now)
            made = (await connection.execute(insert(queues).values(row))).inserted_primary_key
            assert made is not None
            unit.audit(
                caller,
                "queue.create",
                slug,
                scope_id=owner["id"],
                queue_id=made[0],
                after={"slug": slug, **msgspec.structs.asdict(settings)},
            )

        try:
            await self._transactions.run(save)
        except IntegrityError as error:
            raise SlugTaken(what="queue", slug=slug) from error
        self.tell(caller.tenant_id)
        return await self._fetch((caller.tenant_id, scope, slug))

    async def change(self, caller: Caller, scope: str, slug: str, changes: dict[str, Any]) -> QueueRecord:
        """`changes`: fields of QueueSettings, or `state`. Takes effect here at once, elsewhere within a second."""
        caller.require("manage", scope, slug)

        async def save(unit: SqlUnitOfWork) -> None:
            connection = unit.connection
            before = await self._locked(connection, caller, scope, slug)
            if before.system and changes.get("state", "active") not in ("active", "paused"):
                raise SystemQueue(queue=slug, done=changes["state"])
            real = {name: value for name, value in changes.items() if getattr(before, name) != value}
            if real:
                values = {name: _stored(value) for name, value in real.items()} | {"updated_at": unit.now}
                await connection.execute(update(queues).where(queues.c.id == before.id).values(values))
                unit.audit(
                    caller,
                    "queue.change",
                    slug,
                    scope_id=before.scope_id,
                    queue_id=before.id,
                    before={name: getattr(before, name) for name in real},
                    after=real,
                )

        await self._transactions.run(save)
        self.tell(caller.tenant_id)
        return await self._fetch((caller.tenant_id, scope, slug))

    async def delete(self, caller: Caller, scope: str, slug: str) -> None:
        """Deletes a queue that holds no message, not even an archived one. Others are archived instead."""
        caller.require("manage", scope, slug)

        async def remove(unit: SqlUnitOfWork) -> None:
            connection = unit.connection
            before = await self._locked(connection, caller, scope, slug)
            if before.system:
                raise SystemQueue(queue=slug, done="deleted")
            await delete_queue_rows(connection, [before.id], what="queue", name=slug)
            unit.audit(
                caller,
                "queue.delete",
                slug,
                scope_id=before.scope_id,
                queue_id=before.id,
                before={"slug": slug, "state": before.state},
            )

        await self._transactions.run(remove)
        self.tell(caller.tenant_id)

    async def _locked(self, connection: AsyncConnection, caller: Caller, scope: str, slug: str) -> QueueRecord:
        owner = await require_scope(connection, caller.tenant_id, scope)
        mine = and_(queues.c.scope_id == owner["id"], queues.c.slug == slug)
        queue_id = (await connection.execute(select(queues.c.id).where(mine).with_for_update())).scalar_one_or_none()
        if queue_id is None:
            raise NotFound(what="queue", name=slug)
        row = (await connection.execute(record_query().where(queues.c.id == queue_id))).mappings().one()
        return record_of(row)


# --- rows ----------------------------------------------------------------------------------------------------------------


def record_query() -> Select[Any]:
    """Queues with what a QueueRecord knows of their scope and tenant."""
    dead, events = queues.alias("dead"), queues.alias("events")
    return (
        select(
            queues,
            tenants.c.slug.label("tenant"),
            scopes.c.slug.label("scope"),
            scopes.c.state.label("scope_state"),
            scopes.c.events_to_queue,
            dead.c.id.label("dead_letter_id"),
            events.c.id.label("events_queue_id"),
        )
        .join_from(queues, scopes, scopes.c.id == queues.c.scope_id)
        .join(tenants, tenants.c.id == scopes.c.tenant_id)
        .join(dead, and_(dead.c.scope_id == scopes.c.id, dead.c.slug == DEAD_LETTER))
        .join(events, and_(events.c.scope_id == scopes.c.id, events.c.slug == "_events"))
    )


def record_of(row: Any) -> QueueRecord:
    fields = dict(row)
    for name in ("system", "dead_letter_expired", "aging_crosses_tiers"):
        fields[name] = bool(fields[name])
    fields["backoff_multiplier"] = float(fields["backoff_multiplier"])
    fields["events_to_queue"] = msgspec.json.decode(fields["events_to_queue"], type=frozenset[str])
    return QueueRecord(**fields)


def queue_row(
    scope_id: int, tenant_id: int, slug: str, settings: QueueSettings, now: int, *, system: bool = False
) -> dict[str, Any]:
    chosen = {name: _stored(value) for name, value in msgspec.structs.asdict(settings).items()}
    chosen["display_name"] = settings.display_name or slug
    return {
        **chosen,
        "scope_id": scope_id,
        "tenant_id": tenant_id,
        "slug": slug,
        "system": int(system),
        "state": "active",
        "created_at": now,
        "updated_at": now,
    }


def _stored(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return repr(value) if isinstance(value, float) else value


async def require_scope(connection: AsyncConnection, tenant_id: int, slug: str, *, lock: bool = False) -> Any:
    query = select(scopes).where(and_(scopes.c.tenant_id == tenant_id, scopes.c.slug == slug))
    row = (await connection.execute(query.with_for_update() if lock else query)).mappings().one_or_none()
    if row is None:
        raise NotFound(what="scope", name=slug)
    return row


async def delete_queue_rows(connection: AsyncConnection, ids: Sequence[int], *, what: str, name: str) -> None:
    """Deletes queues, their rows locked by the caller. The tallies go first: a publish under way holds them, so that after
    this wait either its message is seen here, or its own transaction finds the queue gone."""
    await connection.execute(delete(tallies).where(tallies.c.queue_id.in_(ids)))
    for table in (messages, archive):
        for column in (table.c.queue_id, table.c.origin_queue_id):
            found = (await connection.execute(select(table.c.id).where(column.in_(ids)).limit(1000))).all()
            if found:
                count = f"{len(found)}{' or more' if len(found) == 1000 else ''}"
                raise QueueNotEmpty(what=what, name=name, count=count)
    named = select(subscriptions.c.id).where(subscriptions.c.queue_id.in_(ids))
    await connection.execute(delete(deliveries).where(deliveries.c.subscription_id.in_(named)))
    await connection.execute(delete(subscriptions).where(subscriptions.c.queue_id.in_(ids)))
    await connection.execute(delete(leases).where(leases.c.queue_id.in_(ids)))
    await connection.execute(delete(keys).where(keys.c.queue_id.in_(ids)))
    await delete_of_queues(connection, ids)
    await connection.execute(delete(queues).where(queues.c.id.in_(ids)))
