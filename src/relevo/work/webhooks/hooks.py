"""Webhooks of a scope: where its events are told, with which secrets, and whether they are told at all.

A secret is in the answer that makes it and nowhere else: not in listings, the audit, logs or errors. The address may hold a
token too, so it is shown to who manages the scope, and the audit keeps only its host.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from sqlalchemy import and_, delete, insert, select, update

from relevo.contract.events import EventName
from relevo.contract.pages import Page
from relevo.contract.webhooks import LONGEST_OVERLAP_S, NewSecret, Webhook, WebhookState
from relevo.errors import InvalidInput, NotFound
from relevo.wire.ids import IdMint
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.pagination import Listing
from relevo.work.store.database import Database
from relevo.work.store.outbox import EVENTS
from relevo.work.store.tables import webhook_deliveries, webhooks
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.tenancy.queues import require_scope
from relevo.work.webhooks.targets import Guard

MOST_FAILURES = 50
"""In a row: after these nobody is expected to listen any more."""
MOST_IN_A_SCOPE = 100
_SECRET_BYTES = 32


class Secret(msgspec.Struct, frozen=True):
    """One secret; the old one of a rotation has an end."""

    value: str
    until: int | None = None

    def __repr__(self) -> str:
        return f"Secret(…, until={self.until})"


_LISTING = Listing("webhooks", id=webhooks.c.id)


class Webhooks:
    """The webhooks of an installation."""

    def __init__(
        self, transactions: Transactions, database: Database, mint: IdMint, now_ms: Clock, allowed: Sequence[str]
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._mint = mint
        self._now_ms = now_ms
        self.guard = Guard(allowed)

    async def create(self, caller: Caller, scope: str, url: str, events: Sequence[EventName] = ()) -> NewSecret:
        """From now on the scope's events, or those named, are posted to `url`."""
        _require(caller, scope)
        self.guard.checked(url)
        wanted = _checked_events(events)
        value = _new_secret()

        async def save(transaction: SqlUnitOfWork) -> Webhook:
            connection, now = transaction.connection, transaction.now
            owner = await require_scope(connection, caller.tenant_id, scope, lock=True)
            query = select(webhooks.c.id).where(webhooks.c.scope_id == owner["id"]).limit(MOST_IN_A_SCOPE)
            if len((await connection.execute(query)).all()) >= MOST_IN_A_SCOPE:
                reason = f"the scope has {MOST_IN_A_SCOPE} webhooks; delete one, or let one receiver pass events on"
                raise InvalidInput(where="url", reason=reason)
            row: dict[str, Any] = {
                "id": self._mint(now),
                "tenant_id": caller.tenant_id,
                "scope_id": owner["id"],
                "url": url,
                "events": msgspec.json.encode(wanted).decode(),
                "secrets": _stored([Secret(value)]),
                "state": "active",
                "failures_in_a_row": 0,
                "disabled_reason": None,
                "created_at": now,
                "updated_at": now,
            }
            await connection.execute(insert(webhooks).values(row))
            after = {"host": urlsplit(url).hostname, "events": wanted}
            transaction.audit(
                caller, "webhook.create", row["id"], scope_id=owner["id"], after=msgspec.json.encode(after).decode()
            )
            return webhook_of(row, now)

        return NewSecret(webhook=await self._transactions.run(save), secret=value)

    async def list(self, caller: Caller, scope: str, *, limit: int = 100, cursor: str | None = None) -> Page[Webhook]:
        """The webhooks of a scope, oldest first."""
        _require(caller, scope)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            query, now = select(webhooks).where(webhooks.c.scope_id == owner["id"]), self._now_ms()

            def shown(row: Any) -> Webhook:
                return webhook_of(row, now)

            return await _LISTING.page(connection, query, shown, limit=limit, cursor=cursor)

    async def get(self, caller: Caller, scope: str, webhook_id: str) -> Webhook:
        _require(caller, scope)
        async with self._database.connect() as connection:
            owner = await require_scope(connection, caller.tenant_id, scope)
            query = select(webhooks).where(webhooks.c.id == webhook_id, webhooks.c.scope_id == owner["id"])
            row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            raise NotFound(what="webhook", name=webhook_id)
        return webhook_of(row, self._now_ms())

    async def change(
        self,
        caller: Caller,
        scope: str,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Sequence[EventName] | None = None,
        state: WebhookState | None = None,
    ) -> Webhook:
        """Another address, other events, or on and off. Switched on again it begins with no failures."""
        _require(caller, scope)
        values: dict[str, Any] = {}
        if url is not None:
            values["url"] = self.guard.checked(url)
        if events is not None:
            values["events"] = msgspec.json.encode(_checked_events(events)).decode()
        if state is not None:
            reason = None if state == "active" else f"switched off by {caller.actor}"
            values |= {"state": state, "disabled_reason": reason}
            if state == "active":
                values["failures_in_a_row"] = 0

        async def save(transaction: SqlUnitOfWork, _: Any) -> dict[str, Any]:
            if values.get("state") == "disabled":
                await give_up_waiting(transaction, webhook_id)
            return values

        return await self._changed(caller, scope, webhook_id, "webhook.change", save)

    async def rotate(self, caller: Caller, scope: str, webhook_id: str, *, overlap_s: int = 86_400) -> NewSecret:
        """A new secret. Events are signed with both for `overlap_s`, so that the receiver can change over meanwhile."""
        _require(caller, scope)
        if not 0 <= overlap_s <= LONGEST_OVERLAP_S:
            raise InvalidInput(where="overlap_s", reason=f"{overlap_s} is not between 0 and {LONGEST_OVERLAP_S}")
        value = _new_secret()

        async def save(transaction: SqlUnitOfWork, row: Any) -> dict[str, Any]:
            current = secrets_of(row, transaction.now)[0]
            kept = [Secret(current, transaction.now + overlap_s * 1000)] if overlap_s else []
            return {"secrets": _stored([Secret(value), *kept])}

        changed = await self._changed(caller, scope, webhook_id, "webhook.rotate", save)
        return NewSecret(webhook=changed, secret=value)

    async def delete(self, caller: Caller, scope: str, webhook_id: str) -> None:
        """The webhook and its log; what was not told yet is not told any more."""
        _require(caller, scope)

        async def remove(transaction: SqlUnitOfWork) -> None:
            connection = transaction.connection
            owner = await require_scope(connection, caller.tenant_id, scope)
            mine = and_(webhooks.c.id == webhook_id, webhooks.c.scope_id == owner["id"])
            gone = await connection.execute(delete(webhooks).where(mine))
            if gone.rowcount == 0:
                raise NotFound(what="webhook", name=webhook_id)
            await connection.execute(delete(webhook_deliveries).where(webhook_deliveries.c.webhook_id == webhook_id))
            transaction.audit(caller, "webhook.delete", webhook_id, scope_id=owner["id"])

        await self._transactions.run(remove)

    async def _changed(self, caller: Caller, scope: str, webhook_id: str, action: str, save: Any) -> Webhook:
        async def change(transaction: SqlUnitOfWork) -> Webhook:
            connection = transaction.connection
            owner = await require_scope(connection, caller.tenant_id, scope)
            mine = and_(webhooks.c.id == webhook_id, webhooks.c.scope_id == owner["id"])
            row = (
                (await connection.execute(transaction.held(select(webhooks).where(mine), wait=True)))
                .mappings()
                .one_or_none()
            )
            if row is None:
                raise NotFound(what="webhook", name=webhook_id)
            values = {**(await save(transaction, row)), "updated_at": transaction.now}
            await connection.execute(update(webhooks).where(mine).values(values))
            after = dict(row) | values
            transaction.audit(
                caller,
                action,
                webhook_id,
                scope_id=owner["id"],
                before=_audited(row, transaction.now),
                after=_audited(after, transaction.now),
            )
            return webhook_of(after, transaction.now)

        return await self._transactions.run(change)


async def give_up_waiting(transaction: SqlUnitOfWork, webhook_id: str) -> None:
    """Nobody is told any more: what waits has failed, and may be sent again by hand."""
    waiting = and_(webhook_deliveries.c.webhook_id == webhook_id, webhook_deliveries.c.state == "waiting")
    ended = {
        "state": "failed",
        "next_at": None,
        "last_error": "the webhook was disabled",
        "updated_at": transaction.now,
    }
    await transaction.connection.execute(update(webhook_deliveries).where(waiting).values(ended))


def secrets_of(row: Any, now: int) -> list[str]:
    """What events are signed with now, the newest first."""
    kept = msgspec.json.decode(row["secrets"], type=list[Secret])
    return [secret.value for secret in kept if secret.until is None or now < secret.until]


def webhook_of(row: Any, now: int) -> Webhook:
    return Webhook(
        id=row["id"],
        url=row["url"],
        events=msgspec.json.decode(row["events"], type=list[str]),
        state=row["state"],
        secrets=len(secrets_of(row, now)),
        failures_in_a_row=row["failures_in_a_row"],
        disabled_reason=row["disabled_reason"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _require(caller: Caller, scope: str) -> None:
    """Events of all queues are told: a key that is limited to some of them may not have them sent anywhere."""
    caller.require("manage", scope)
    if caller.queues is not None:
        raise NotFound(what="webhook", name=scope)


def _checked_events(events: Sequence[str]) -> list[str]:
    for event in events:
        if event not in EVENTS:
            raise InvalidInput(
                where="events", reason=f"there is no event {event[:100]!r}; there are {', '.join(EVENTS)}"
            )
    return sorted(set(events))


def _audited(row: Any, now: int) -> str:
    seen = webhook_of(row, now)
    told = {
        "host": urlsplit(seen.url).hostname,
        "events": seen.events,
        "state": seen.state,
        "secrets": seen.secrets,
        "disabled_reason": seen.disabled_reason,
    }
    return msgspec.json.encode(told).decode()


def _stored(kept: Sequence[Secret]) -> str:
    return msgspec.json.encode(kept).decode()


def _new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(_SECRET_BYTES)}"
