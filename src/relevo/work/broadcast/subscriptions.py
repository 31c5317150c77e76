"""Subscriptions of broadcast queues: every one of them gets every message, each with claims, retries and failures of its own.

A message of a broadcast queue has one row in `deliveries` for each subscription there was when it was published. Publishing and
subscribing both hold the queue's row, so that a message is either seen by the subscription's look at what is there, or sees the
subscription; none falls between. The message itself is pending until its last delivery is settled (see deliveries.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, case, delete, func, insert, literal, or_, select, update
from sqlalchemy.exc import IntegrityError

from relevo.contract.pages import Page
from relevo.contract.subscriptions import Subscription
from relevo.errors import InvalidInput, NotFound, SlugTaken, WrongConsumerMode
from relevo.wire.ids import minted_ms
from relevo.work.broadcast.deliveries import close_messages
from relevo.work.caller import Caller
from relevo.work.clock import Clock
from relevo.work.message.archive import bring_back
from relevo.work.message.history import history_line
from relevo.work.message.transition import REOPEN
from relevo.work.pagination import Listing
from relevo.work.queue_record import QueueRecord
from relevo.work.store.database import Database
from relevo.work.store.tables import archive, deliveries, messages, queues, ready, subscriptions
from relevo.work.store.transactions import SqlUnitOfWork, Transactions
from relevo.work.store.unit_of_work import UnitOfWork
from relevo.work.tenancy.queues import Queues
from relevo.work.tenancy.tenants import require_slug

OPEN = ("pending", "delayed", "claimed")
"""States of a delivery that somebody still has to settle."""
_MOST_AT_ONCE = 100_000


_LISTING = Listing("subscriptions", name=subscriptions.c.name)


class Subscriptions:
    """The subscriptions of an installation."""

    def __init__(self, transactions: Transactions, database: Database, queues: Queues, now_ms: Clock) -> None:
        self._transactions = transactions
        self._database = database
        self._queues = queues
        self._now_ms = now_ms

    # --- in the transaction of a publish -----------------------------------------------------------------------------------

    async def fan_out(self, transaction: UnitOfWork, queue: QueueRecord, message_ids: Sequence[str]) -> None:
        """Makes the deliveries of messages that this transaction has just inserted. The queue's row has to be held first
        (`session.lock_queues`), or a subscription that is made meanwhile would miss them."""
        ids = msgspec.json.encode(message_ids).decode()
        await transaction.session.fetch("fan_out", queue.id, ids)
        await transaction.session.fetch("count_deliveries", queue.id, queue.id, ids)
        transaction.wakes[queue.id] = transaction.wakes.get(queue.id, 0) + len(message_ids)

    # --- making and ending -------------------------------------------------------------------------------------------------

    async def create(
        self, caller: Caller, scope: str, queue: str, name: str, *, after: str | int | None = None
    ) -> Subscription:
        """Subscribes, from now on (None) or from a chosen point: after a message's id, or after a time in milliseconds since
        1970 (0: everything there is, the archive included)."""
        caller.require("manage")
        require_slug(name, "subscription")
        record = await self._broadcast(caller, scope, queue)
        from_id = _from_id(after, self._now_ms())

        async def subscribe(transaction: SqlUnitOfWork) -> Subscription:
            connection, now = transaction.connection, transaction.now
            await connection.execute(select(queues.c.id).where(queues.c.id == record.id).with_for_update())
            row = {"queue_id": record.id, "name": name, "from_id": from_id, "created_at": now}
            made = (await connection.execute(insert(subscriptions).values(row))).inserted_primary_key
            assert made is not None
            seen, waiting = from_id, 0
            if after is not None:
                waiting = await self._catch_up(transaction, record, made[0], from_id, caller)
            else:
                # What is committed by now is before us, also what a node whose clock is ahead has minted.
                newest = select(func.max(messages.c.id)).where(messages.c.queue_id == record.id)
                seen = max((await connection.execute(newest)).scalar() or "", from_id)
                mine = subscriptions.c.id == made[0]
                await connection.execute(update(subscriptions).where(mine).values(from_id=seen))
            self._note(transaction, caller, "create", record, name, after={"from_id": seen, "waiting": waiting})
            return Subscription(name=name, from_id=seen, created_at=now, pending=waiting, delayed=0, claimed=0)

        try:
            return await self._transactions.run(subscribe)
        except IntegrityError as error:
            raise SlugTaken(what="subscription", slug=name) from error

    async def delete(self, caller: Caller, scope: str, queue: str, name: str) -> None:
        """Ends a subscription: what it has not settled counts as settled, also what a worker still holds."""
        caller.require("manage")
        record = await self._broadcast(caller, scope, queue)

        async def unsubscribe(transaction: SqlUnitOfWork) -> None:
            connection = transaction.connection
            await connection.execute(select(queues.c.id).where(queues.c.id == record.id).with_for_update())
            mine = and_(subscriptions.c.queue_id == record.id, subscriptions.c.name == name)
            number = (await connection.execute(select(subscriptions.c.id).where(mine))).scalar_one_or_none()
            if number is None:
                raise NotFound(what="subscription", name=name)
            unsettled = and_(deliveries.c.subscription_id == number, deliveries.c.state.in_(OPEN))
            held = select(deliveries.c.message_id).where(unsettled).order_by(deliveries.c.message_id)
            ids = list((await connection.execute(held.with_for_update())).scalars())
            await connection.execute(delete(deliveries).where(deliveries.c.subscription_id == number))
            await connection.execute(delete(subscriptions).where(subscriptions.c.id == number))
            for at in range(0, len(ids), 1000):
                await close_messages(transaction, record, ids[at : at + 1000], caller)
            self._note(transaction, caller, "delete", record, name, before={"unsettled": len(ids)})

        await self._transactions.run(unsubscribe)

    async def list(
        self, caller: Caller, scope: str, queue: str, *, limit: int = 100, cursor: str | None = None
    ) -> Page[Subscription]:
        """The subscriptions of a queue by name."""
        caller.require("view")
        record = await self._broadcast(caller, scope, queue)
        c, d = subscriptions.c, deliveries.c
        counts = (
            select(d.subscription_id, d.state, func.count())
            .join_from(deliveries, subscriptions, c.id == d.subscription_id)
            .where(c.queue_id == record.id, d.state.in_(OPEN))
            .group_by(d.subscription_id, d.state)
        )
        async with self._database.connect() as connection:
            counted = {(each[0], each[1]): int(each[2]) for each in await connection.execute(counts)}

            def shown(row: Any) -> Subscription:
                return Subscription(
                    name=row["name"],
                    from_id=row["from_id"],
                    created_at=row["created_at"],
                    pending=counted.get((row["id"], "pending"), 0),
                    delayed=counted.get((row["id"], "delayed"), 0),
                    claimed=counted.get((row["id"], "claimed"), 0),
                )

            query = select(subscriptions).where(c.queue_id == record.id)
            return await _LISTING.page(connection, query, shown, limit=limit, cursor=cursor)

    async def _broadcast(self, caller: Caller, scope: str, queue: str) -> QueueRecord:
        record = await self._queues.lookup(caller, scope, queue)
        if record.consumer_mode != "broadcast":
            remedy = "only a queue with consumer_mode=broadcast has subscriptions; claim from this one without"
            raise WrongConsumerMode(queue=queue, mode=record.consumer_mode, remedy=remedy)
        return record

    @staticmethod
    def _note(
        transaction: SqlUnitOfWork, caller: Caller, verb: str, queue: QueueRecord, name: str, **sides: dict[str, Any]
    ) -> None:
        said = {side: msgspec.json.encode(value).decode() for side, value in sides.items()}
        transaction.audit(
            caller,
            f"subscription.{verb}",
            name,
            tenant_id=queue.tenant_id,
            scope_id=queue.scope_id,
            queue_id=queue.id,
            **said,
        )

    async def _catch_up(
        self, transaction: SqlUnitOfWork, queue: QueueRecord, number: int, from_id: str, caller: Caller
    ) -> int:
        """Deliveries of what was published before the subscription and after its chosen point."""
        connection, m, r = transaction.connection, messages.c, ready.c
        archived = select(archive.c.id).where(archive.c.queue_id == queue.id, archive.c.id > from_id)
        ids = list((await connection.execute(archived.order_by(archive.c.id).limit(_MOST_AT_ONCE + 1))).scalars())
        wanted = and_(
            *(m.scope_id == queue.scope_id, m.id > from_id, m.queue_id == queue.id),
            or_(m.standing.is_(None), m.standing == "failed"),
        )
        live = (await connection.execute(select(func.count()).select_from(messages).where(wanted))).scalar_one()
        if len(ids) + live > _MOST_AT_ONCE:
            reason = f"more than {_MOST_AT_ONCE} messages are after this point; choose a later one"
            raise InvalidInput(where="after", reason=reason)
        await bring_back(transaction, ids)
        if transaction.dialect != "sqlite":  # nobody may end one of them between the steps below
            await connection.execute(select(m.id).where(wanted).order_by(m.id).with_for_update())
        done = and_(wanted, m.finished_at.is_not(None))
        places = select(m.queue_id, m.sort_key, m.id).where(done)
        await connection.execute(insert(ready).from_select([r.queue_id, r.sort_key, r.id], places))
        limits = select(m.id, m.expires_at, m.deadline_at).where(done)
        for message_id, expires_at, deadline_at in await connection.execute(limits):
            transaction.note_due(message_id, {"expires_at": expires_at, "deadline_at": deadline_at})
        line = history_line(transaction.now, REOPEN.history, caller.actor, f"subscription {number}")
        reopened = await connection.execute(
            update(messages)
            .where(done)
            .values(
                standing=None,
                open_deliveries=0,
                finished_at=None,
                updated_at=transaction.now,
                trail=m.trail + line,
            )
        )
        REOPEN.add_to(transaction.counters, queue.id, None, reopened.rowcount)
        columns = [
            "subscription_id",
            "message_id",
            "state",
            "sort_key",
            "visible_at",
            "attempts",
            "reclaims",
            "updated_at",
        ]
        source = select(
            *(
                literal(number),
                m.id,
                case((m.visible_at.is_(None), "pending"), else_="delayed"),
                m.sort_key,
                m.visible_at,
            ),
            *(literal(0), literal(0), literal(transaction.now)),
        ).where(wanted)
        await connection.execute(insert(deliveries).from_select(columns, source))
        one_more: Any = func.coalesce(m.open_deliveries, 0) + 1
        opened = await connection.execute(update(messages).where(wanted).values(open_deliveries=one_more))
        transaction.wakes[queue.id] = opened.rowcount
        return opened.rowcount


def _from_id(after: str | int | None, now: int) -> str:
    """The id after which a subscription sees messages."""
    if after is None:
        after = now
    if isinstance(after, str):
        if minted_ms(after) is None:
            raise InvalidInput(where="after", reason=f"{after[:40]!r} is not a message id; pass one, or milliseconds")
        return after
    if not 0 <= after < 1 << 48:
        raise InvalidInput(where="after", reason=f"{after} is not a time; pass milliseconds since 1970")
    return _first_id(after)


def _first_id(ms: int) -> str:
    """The first id that can be minted in a millisecond.

    >>> _first_id(0), minted_ms(_first_id(1_700_000_000_000))
    ('00000000000000000000000000', 1700000000000)
    """
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    return "".join(alphabet[ms >> shift & 31] for shift in range(45, -5, -5)) + "0" * 16
