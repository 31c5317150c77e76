"""Deliveries: one row for each webhook and event, from the outbox relay until the receiver has it or nobody tries any more.

The row is the truth. Whoever sends takes it first, by moving `next_at` ahead: of two who come at once one takes it, and what a
sender that died has taken is due again a minute later. The receiver may get an event twice (an answer that was lost) and out
of order (one that had to wait); `Relevo-Delivery` and `seq` tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import and_, delete, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite

from relevo.contract.pages import Page
from relevo.contract.webhooks import Delivery, DeliveryState
from relevo.engine.service.signals import Signal
from relevo.errors import NotFound, WrongState
from relevo.wire.ids import IdMint, first_id
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.faults import fault
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueRecord
from relevo.work.store.database import Database
from relevo.work.store.outbox import OutboxRow, WorkEvent
from relevo.work.store.tables import webhook_deliveries, webhooks
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.webhooks.hooks import MOST_FAILURES, Webhooks, give_up_waiting, secrets_of
from relevo.work.webhooks.sender import Sender, Told

RETRIES_MS = tuple(1000 * s for s in (30, 60, 120, 300, 900, 1_800, 3_600, 7_200))
"""The waits between attempts; after the last one it has failed."""
TAKEN_MS = 60_000
"""A delivery that was taken is due again after this: longer than a send may last."""
KEPT_MS = 30 * 86_400_000
_LISTING = Listing("webhook_deliveries", newest_first=True, id=webhook_deliveries.c.id)


class Due(NamedTuple):
    """A delivery that is to be sent; `attempts` tells whether it still is."""

    id: str
    webhook_id: str
    attempts: int


class Attempt(NamedTuple):
    """How one attempt ended."""

    delivery: str
    told: Told


class WebhookDeliveries:
    """The deliveries of an installation."""

    def __init__(
        self, transactions: Transactions, database: Database, webhooks: Webhooks, mint: IdMint, now_ms: Clock
    ) -> None:
        self._transactions = transactions
        self._database = database
        self._webhooks = webhooks
        self._mint = mint
        self._now_ms = now_ms
        self.due: Signal[None] = Signal()
        """Emitted after the commit that made deliveries due."""
        self.attempted: Signal[Attempt] = Signal()
        self._sender: Sender | None = None

    # --- made by the relay -----------------------------------------------------------------------------------------------

    async def make(
        self,
        transaction: SqlUnitOfWork,
        rows: Iterable[OutboxRow],
        queues: dict[int, QueueRecord],
    ) -> bool:
        """Deliveries for the events of these outbox rows, in the transaction that deletes them; whether there are any. An event
        that was here before (its row's number and its place are its key) makes no second one."""
        hooks = await _active(transaction, {queue.scope_id for queue in queues.values()})
        if not hooks:
            return False
        new: list[dict[str, Any]] = []
        for row in rows:
            for at, event in enumerate(row.events):
                queue = queues.get(event.queue_id)
                if queue is None:
                    continue
                seq = f"{row.id}-{at}"
                payload: str | None = None
                for hook_id, wanted in hooks.get(queue.scope_id, ()):
                    if wanted and event.event not in wanted:
                        continue
                    payload = payload or _payload(event, queue, seq)
                    new.append(_row(self._mint(transaction.now), hook_id, event, seq, payload, transaction.now))
        if new:
            await transaction.connection.execute(_insert_new(transaction), new)
        return bool(new)

    # --- sending ---------------------------------------------------------------------------------------------------------

    async def due_now(self, *, limit: int, without: Collection[str] = ()) -> list[Due]:
        """What is to be sent, the longest overdue first, without these webhooks."""
        d = webhook_deliveries.c
        query = select(d.id, d.webhook_id, d.attempts).where(d.state == "waiting", d.next_at <= self._now_ms())
        if without:
            query = query.where(d.webhook_id.not_in(without))
        async with self._database.connect() as connection:
            return [Due(*row) for row in await connection.execute(query.order_by(d.next_at).limit(limit))]

    async def attempt(self, due: Due) -> Attempt | None:
        """Sends a delivery and writes down how it went. None when it is not to be sent (now, or any more)."""
        taken = await self._take(due)
        if taken is None:
            return None
        fault("webhook.taken")
        delivery, hook = taken
        if self._sender is None:
            self._sender = Sender(self._webhooks.guard)
        now = self._now_ms()
        told = await self._sender.send(
            hook["url"],
            delivery["payload"].encode(),
            secrets_of(hook, now),
            delivery=due.id,
            event=delivery["event"],
            now_s=now // 1000,
        )
        fault("webhook.sent")
        await self._transactions.run(lambda each: self._note(each, due, told))
        attempt = Attempt(due.id, told)
        self.attempted.emit(attempt)
        return attempt

    async def close(self) -> None:
        if self._sender is not None:
            await self._sender.close()
            self._sender = None

    async def clear(self, limit: int = 1_000) -> int:
        """Forgets what was made a month ago and does not wait; how many there were."""
        d = webhook_deliveries.c
        old = first_id(self._now_ms() - KEPT_MS)

        async def forget(transaction: SqlUnitOfWork) -> int:
            query = select(d.id).where(d.id < old, d.state != "waiting").order_by(d.id)
            ids = list((await transaction.connection.execute(query.limit(limit))).scalars())
            if ids:
                await transaction.connection.execute(delete(webhook_deliveries).where(d.id.in_(ids)))
            return len(ids)

        return await self._transactions.run(forget)

    async def _take(self, due: Due) -> tuple[Any, Any] | None:
        d = webhook_deliveries.c

        async def take(transaction: SqlUnitOfWork) -> tuple[Any, Any] | None:
            connection, now = transaction.connection, transaction.now
            mine = and_(d.id == due.id, d.state == "waiting", d.attempts == due.attempts, d.next_at <= now)
            taken = await connection.execute(
                update(webhook_deliveries).where(mine).values(next_at=now + TAKEN_MS, updated_at=now)
            )
            if taken.rowcount == 0:
                return None
            delivery = (await connection.execute(select(webhook_deliveries).where(d.id == due.id))).mappings().one()
            query = select(webhooks).where(webhooks.c.id == delivery["webhook_id"], webhooks.c.state == "active")
            hook = (await connection.execute(query)).mappings().one_or_none()
            if hook is None:
                await give_up_waiting(transaction, delivery["webhook_id"])
                return None
            return delivery, hook

        return await self._transactions.run(take)

    async def _note(self, transaction: SqlUnitOfWork, due: Due, told: Told) -> None:
        connection, now, d = transaction.connection, transaction.now, webhook_deliveries.c
        mine = and_(d.id == due.id, d.attempts == due.attempts, d.state == "waiting")
        values: dict[str, Any] = {
            "attempts": due.attempts + 1,
            "last_status": told.status,
            "last_error": told.error,
            "updated_at": now,
        }
        w = webhooks.c
        # The webhook's row first: two deliveries of one webhook that end together then wait instead of deadlocking.
        if told.error is None:
            await connection.execute(
                update(webhooks).where(w.id == due.webhook_id, w.failures_in_a_row > 0).values(failures_in_a_row=0)
            )
            await connection.execute(
                update(webhook_deliveries).where(mine).values(values | {"state": "delivered", "next_at": None})
            )
            return
        more = update(webhooks).where(w.id == due.webhook_id).values(failures_in_a_row=w.failures_in_a_row + 1)
        await connection.execute(more)
        again = None if due.attempts >= len(RETRIES_MS) else now + RETRIES_MS[due.attempts]
        values |= {"state": "failed" if again is None else "waiting", "next_at": again}
        await connection.execute(update(webhook_deliveries).where(mine).values(values))
        await self._disable_if_deaf(transaction, due.webhook_id, told)

    async def _disable_if_deaf(self, transaction: SqlUnitOfWork, webhook_id: str, told: Told) -> None:
        """Gives a webhook up that has failed too often in a row."""
        query = select(webhooks).where(webhooks.c.id == webhook_id)
        hook = (await transaction.connection.execute(query)).mappings().one_or_none()
        if hook is None or hook["state"] != "active" or hook["failures_in_a_row"] < MOST_FAILURES:
            return
        reason = f"{hook['failures_in_a_row']} attempts in a row failed, the last one: {told.error}"
        ended = {"state": "disabled", "disabled_reason": reason, "updated_at": transaction.now}
        await transaction.connection.execute(update(webhooks).where(webhooks.c.id == webhook_id).values(ended))
        await give_up_waiting(transaction, webhook_id)
        transaction.audit(
            Caller.system("webhook_courier"),
            "webhook.disable",
            webhook_id,
            tenant_id=hook["tenant_id"],
            scope_id=hook["scope_id"],
            after=msgspec.json.encode({"reason": reason}).decode(),
        )

    # --- the log ---------------------------------------------------------------------------------------------------------

    async def list(
        self,
        caller: Caller,
        scope: str,
        webhook_id: str,
        *,
        state: DeliveryState | None = None,
        event: str | None = None,
        message_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """The deliveries of a webhook, newest first."""
        await self._webhooks.get(caller, scope, webhook_id)
        d = webhook_deliveries.c
        conditions = [d.webhook_id == webhook_id]
        conditions += [
            column == value
            for column, value in ((d.state, state), (d.event, event), (d.message_id, message_id))
            if value is not None
        ]
        query = select(webhook_deliveries).where(*conditions)
        async with self._database.connect() as connection:
            return await _LISTING.page(connection, query, _delivery, limit=limit, cursor=cursor)

    async def redeliver(self, caller: Caller, scope: str, webhook_id: str, delivery_id: str) -> Delivery:
        """Sends it once more, whatever became of it, with all its retries. `WrongState` while the webhook is disabled."""
        hook = await self._webhooks.get(caller, scope, webhook_id)
        if hook.state != "active":
            raise WrongState(what="webhook", name=webhook_id, state="disabled", done="sent to")
        d = webhook_deliveries.c

        async def again(transaction: SqlUnitOfWork) -> Delivery:
            connection, now = transaction.connection, transaction.now
            mine = and_(d.id == delivery_id, d.webhook_id == webhook_id)
            row = (
                (await connection.execute(transaction.held(select(webhook_deliveries).where(mine), wait=True)))
                .mappings()
                .one_or_none()
            )
            if row is None:
                raise NotFound(what="delivery", name=delivery_id)
            if row["payload"] == ERASED:
                raise WrongState(what="delivery", name=delivery_id, state="erased", done="sent")
            values = {"state": "waiting", "attempts": 0, "next_at": now, "updated_at": now}
            await connection.execute(update(webhook_deliveries).where(mine).values(values))
            transaction.audit(caller, "webhook.redeliver", delivery_id, after=f'{{"webhook":"{webhook_id}"}}')
            return _delivery(dict(row) | values)

        waiting = await self._transactions.run(again)
        self.due.emit(None)
        return waiting


ERASED = '{"erased":true}'
"""The payload of an event about a message that was erased."""


async def _active(transaction: SqlUnitOfWork, scope_ids: set[int]) -> dict[int, list[tuple[str, frozenset[str]]]]:
    if not scope_ids:
        return {}
    query = select(webhooks.c.id, webhooks.c.scope_id, webhooks.c.events).where(
        webhooks.c.scope_id.in_(scope_ids), webhooks.c.state == "active"
    )
    found: dict[int, list[tuple[str, frozenset[str]]]] = {}
    for row in await transaction.connection.execute(query):
        found.setdefault(row.scope_id, []).append((row.id, msgspec.json.decode(row.events, type=frozenset[str])))
    return found


def _insert_new(transaction: SqlUnitOfWork) -> Any:
    """An insert that leaves what is there as it is."""
    if transaction.dialect == "mariadb":
        return mysql.insert(webhook_deliveries).on_duplicate_key_update(id=webhook_deliveries.c.id)
    inserting = (postgresql if transaction.dialect == "postgresql" else sqlite).insert(webhook_deliveries)
    return inserting.on_conflict_do_nothing(index_elements=["webhook_id", "event_key"])


def _payload(event: WorkEvent, queue: QueueRecord, seq: str) -> str:
    body = {
        "event": event.event,
        "message_id": event.id,
        "scope": queue.scope,
        "queue": queue.slug,
        "ts": event.ts,
        "message_type": event.message_type,
        "correlation_id": event.correlation_id,
        "seq": seq,
        **(event.extras or {}),
    }
    return msgspec.json.encode(body).decode()


def _row(delivery_id: str, hook_id: str, event: WorkEvent, seq: str, payload: str, now: int) -> dict[str, Any]:
    return {
        "id": delivery_id,
        "webhook_id": hook_id,
        "event_key": seq,
        "event": event.event,
        "message_id": event.id,
        "payload": payload,
        "state": "waiting",
        "attempts": 0,
        "last_status": None,
        "last_error": None,
        "next_at": now,
        "created_at": now,
        "updated_at": now,
    }


def _delivery(row: Any) -> Delivery:
    fields = {name: row[name] for name in Delivery.__struct_fields__ if name != "payload"}
    return Delivery(payload=msgspec.Raw(row["payload"]), **fields)
